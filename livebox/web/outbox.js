// Messages on their way. Each has one client_msg_id for ever, so that sending it again can never post it twice.

import { Problem, newId } from "./api.js";
import { problem } from "./words.js";

const FIRST_WAIT = 1000; // ms
const LONGEST_WAIT = 15_000;

export class Outbox {
  #api;
  #arrived;
  #changed;
  #items = [];
  #timer;
  #wait = FIRST_WAIT;

  /** `arrived(message)` gets each stored message; `changed()` is told when anything here is another one. */
  constructor(api, arrived, changed) {
    this.#api = api;
    this.#arrived = arrived;
    this.#changed = changed;
  }

  /** What is on its way in a thread, oldest first: { id, threadId, body, error }. */
  of(threadId) {
    return this.#items.filter((item) => item.threadId === threadId);
  }

  /** Send a text; the promise has the stored message, or undefined when it was discarded. */
  send(threadId, body, mentions) {
    return new Promise((done) => {
      this.#items.push({ id: newId(), threadId, body, mentions, error: undefined, busy: false, done });
      this.flush();
    });
  }

  /** Try again what was refused. */
  again(id) {
    const item = this.#items.find((each) => each.id === id);
    if (item) item.error = undefined;
    this.flush();
  }

  /** Give up what was refused; gives its text back. */
  discard(id) {
    const item = this.#items.find((each) => each.id === id);
    this.#take(item);
    item?.done(undefined);
    this.#changed();
    return item?.body ?? "";
  }

  /** Send what waits, now. */
  flush() {
    clearTimeout(this.#timer);
    for (const item of this.#items) if (!item.busy && !item.error) this.#send(item);
    this.#changed();
  }

  stop() {
    clearTimeout(this.#timer);
    this.#items = [];
  }

  async #send(item) {
    item.busy = true;
    try {
      const request = { body: item.body, client_msg_id: item.id };
      if (item.mentions.length > 0) request.mentions = item.mentions;
      const message = await this.#api.post(`v1/threads/${item.threadId}/messages`, request);
      this.#wait = FIRST_WAIT;
      this.#take(item);
      this.#arrived(message);
      item.done(message);
    } catch (error) {
      if (error instanceof Problem) {
        item.error = problem(error);
      } else {
        this.#timer = setTimeout(() => this.flush(), this.#wait * (0.5 + Math.random() / 2));
        this.#wait = Math.min(LONGEST_WAIT, this.#wait * 2);
      }
    } finally {
      item.busy = false;
      this.#changed();
    }
  }

  #take(item) {
    this.#items = this.#items.filter((each) => each !== item);
  }
}
