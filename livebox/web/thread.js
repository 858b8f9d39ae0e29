// A thread: its messages in order, each run as a live box where its anchor stands, and a place to write.

import { Box } from "./box.js";
import { Composer } from "./composer.js";
import { h, keyed, say, show, write } from "./dom.js";
import { firstLine, timeOfDay } from "./format.js";
import { threadTitle, channelName } from "./names.js";
import { trigger } from "./words.js";

const NEAR = 160; // px from the end within which new messages are followed

export class ThreadView {
  #app;
  #id;
  #boxes = new Map();
  #mine = new Set();
  #failed;
  #open;

  /** `open(threadId)` goes to another thread. */
  constructor(app, threadId, open) {
    this.#app = app;
    this.#id = threadId;
    this.#open = open;
    this.place = h("p", { className: "quiet place" });
    this.heading = h("h1", { tabIndex: -1 });
    this.parent = h("p", { className: "quiet parent", hidden: true });
    this.older = h("button", { type: "button", hidden: true, onclick: () => this.#read(true) }, "Older messages");
    this.list = h("ol", { className: "messages", "aria-label": "Messages" });
    this.pending = h("ol", { className: "messages pending", "aria-label": "On their way" });
    this.empty = h("p", { className: "quiet", hidden: true }, "Nothing was written here yet.");
    this.error = h("p", { className: "error", role: "alert", hidden: true });
    this.composer = new Composer(app, threadId, (message) => this.#mine.add(message.id));
    this.element = h("div", { className: "thread" }, this.place, this.heading, this.parent, this.older, this.empty,
      this.list, this.pending, this.error, this.composer.element);
    this.#read();
  }

  get title() {
    return this.heading.textContent;
  }

  /** Threads and runs to look at. */
  focus() {
    return this.#app.store.threads.has(this.#id) ? [[this.#id], []] : [[], []];
  }

  shows(run) {
    return run.thread_id === this.#id;
  }

  update() {
    const { store } = this.#app;
    const thread = store.threads.get(this.#id);
    const gone = store.seq !== undefined && !thread;
    for (const part of [this.older, this.list, this.pending, this.composer.element, this.place]) show(part, !gone);
    if (!thread) {
      if (gone) this.#forget();
      say(this.heading, gone ? "This thread is not here, or you may not see it." : "Loading …");
      for (const part of [this.parent, this.empty, this.error]) show(part, false);
      return;
    }
    if (!store.pages.has(this.#id)) this.#read();
    say(this.place, channelName(this.#app, thread.channel_id));
    say(this.heading, threadTitle(this.#app, thread));
    this.#showParent(thread);
    const messages = store.thread(this.#id);
    const following = document.documentElement.scrollHeight - window.innerHeight - window.scrollY < NEAR;
    const last = this.list.lastElementChild;
    keyed(this.list, messages.map((each) => [each.id, each]), (each) => this.#row(each), (row, each) => row.refresh(each));
    this.#pending(messages);
    const page = store.pages.get(this.#id);
    show(this.older, page?.cursor !== undefined);
    show(this.empty, page && messages.length === 0);
    show(this.error, this.#failed && !page);
    this.composer.update(thread.channel_id);
    if (following && this.list.lastElementChild !== last) window.scrollTo(0, document.documentElement.scrollHeight);
    this.#follow();
  }

  updateRun(id) {
    this.#boxes.get(id)?.update();
  }

  tick() {
    for (const box of this.#boxes.values()) box.tick();
  }

  // Out of sight is out of the page too.
  #forget() {
    this.#app.wantThread(this.#id);
    this.#boxes.clear();
    keyed(this.list, []);
    this.parent.replaceChildren();
    delete this.parent.dataset.version;
  }

  async #read(older = false) {
    if (this.reading) return;
    this.reading = true;
    try {
      this.#failed = false;
      await this.#app.read(this.#id, older);
    } catch (error) {
      this.#failed = true;
      say(this.error, error.status === 404 ? "This thread is not here, or you may not see it." : "The messages could not be read.");
      setTimeout(() => this.update(), 2000);
    } finally {
      this.reading = false;
    }
  }

  #showParent(thread) {
    const parent = thread.parent_message_id && this.#app.store.messages.get(thread.parent_message_id);
    show(this.parent, parent);
    if (!parent || this.parent.dataset.version === String(parent.version)) return;
    this.parent.dataset.version = parent.version;
    const link = h("a", { href: this.#app.context.href(parent.thread_id) }, firstLine(parent.body ?? "a deleted message"));
    this.parent.replaceChildren("Grew from: ", link);
  }

  #row(message) {
    if (message.kind === "run" && message.run_id) return this.#boxRow(message);
    const author = h("span", { className: "author" });
    const time = h("time", { className: "quiet", datetime: message.created_at }, timeOfDay(message.created_at));
    const edited = h("span", { className: "quiet", hidden: true }, " (edited)");
    const body = h("div", { className: "text" });
    const chip = h("span", { className: "chip" });
    const link = h("a", {}, "Open its thread");
    const foot = h("p", { className: "foot", hidden: true }, chip, " ", link);
    const row = h("li", { className: "message", "data-id": message.id, "data-origin": message.origin },
      h("p", { className: "by" }, author, " ", time, edited), body, foot);
    row.refresh = (now) => {
      say(author, now.author_id ? this.#app.name(now.author_id) : "System");
      show(edited, now.edited_at && !now.deleted_at);
      write(body, now.deleted_at ? "This message was deleted." : now.body ?? "", now.origin === "agent" && !now.deleted_at);
      row.classList.toggle("deleted", Boolean(now.deleted_at));
      if (now.truncated) this.#app.want(now.id, now.version);
      const grown = this.#app.store.threadFrom(now.id);
      show(foot, now.trigger_state || grown);
      show(chip, now.trigger_state);
      if (now.trigger_state) say(chip, trigger(now));
      chip.dataset.state = now.trigger_state ?? "";
      show(link, grown);
      if (grown) link.href = this.#app.context.href(grown.id);
    };
    return row;
  }

  #boxRow(message) {
    const box = new Box(this.#app, message.run_id);
    this.#boxes.set(message.run_id, box);
    this.#app.runs.want(message.run_id);
    const row = h("li", { className: "anchor", "data-id": message.id }, box.element);
    row.refresh = () => box.update();
    return row;
  }

  // What was sent from here and has not come back yet.
  #pending(messages) {
    const arrived = new Set(messages.map((message) => message.client_msg_id));
    const waiting = this.#app.outbox.of(this.#id).filter((item) => !arrived.has(item.id));
    show(this.pending, waiting.length);
    keyed(this.pending, waiting.map((item) => [item.id, item]), (item) => this.#pendingRow(item), (row, item) => {
      say(row.state, item.error ? `Not sent: ${item.error}` : "Sending …");
      show(row.buttons, item.error);
    });
  }

  #pendingRow(item) {
    const state = h("span", { className: "quiet" });
    const buttons = h("span", { hidden: true },
      h("button", { type: "button", onclick: () => this.#app.outbox.again(item.id) }, "Try again"), " ",
      h("button", { type: "button", onclick: () => this.composer.restore(this.#app.outbox.discard(item.id)) }, "Change it"));
    const row = h("li", { className: "message" }, h("div", { className: "text plain" }, item.body),
      h("p", { className: "foot" }, state, " ", buttons));
    return Object.assign(row, { state, buttons });
  }

  // A question that was asked from here and got a thread of its own: go where it is answered.
  #follow() {
    for (const id of this.#mine) {
      const grown = this.#app.store.threadFrom(id);
      if (!grown) continue;
      this.#mine.delete(id);
      if (!this.composer.text.value) this.#open(grown.id);
    }
  }
}
