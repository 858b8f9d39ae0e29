// The server's clock, as far as it can be known here. No time of this device decides anything; it only ticks.

export class Clock {
  #now;
  #offset = 0;
  #known = false;

  constructor(now = Date.now) {
    this.#now = now;
  }

  /** The server said `at` (a time as text) in an answer to a request that was sent at `sent` by this device's clock. */
  hear(at, sent) {
    const said = Date.parse(at);
    if (Number.isNaN(said)) return;
    const heard = this.#now();
    this.#offset = said - (sent + heard) / 2;
    this.#known = true;
  }

  /** The Date header of any answer: whole seconds, enough to notice that this device's clock was set anew. */
  hearDate(header) {
    const said = Date.parse(header ?? "");
    if (Number.isNaN(said)) return;
    const off = said + 500 - this.now();
    if (!this.#known || Math.abs(off) > 2000) {
      this.#offset += off;
      this.#known = true;
    }
  }

  /** Milliseconds since 1970 as the server sees it. */
  now() {
    return this.#now() + this.#offset;
  }

  /** Milliseconds since a time of the server, never negative. */
  since(at) {
    return Math.max(0, this.now() - Date.parse(at));
  }

  /** This device's own reading, for `sent` of `hear`. */
  local() {
    return this.#now();
  }
}
