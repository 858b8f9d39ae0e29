// What a screen reader is told: changes of state, politely, joined so that it is never flooded.

const PAUSE = 3000; // ms between two announcements
const MOST = 4; // changes told in one of them

export class Announcer {
  #element;
  #waiting = [];
  #timer;

  /** `element` is a live region (role status). */
  constructor(element) {
    this.#element = element;
  }

  say(text) {
    if (this.#waiting.at(-1) !== text) this.#waiting.push(text);
    this.#timer ??= setTimeout(() => this.#tell(), 100);
  }

  #tell() {
    const left = this.#waiting.length - MOST;
    const told = this.#waiting.slice(-MOST).join(" ");
    this.#waiting = [];
    this.#element.textContent = left > 0 ? `${left} more changes. ${told}` : told;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#waiting.length > 0) this.#tell();
    }, PAUSE);
  }
}
