// The documents of runs that are looked at. Who holds a patch's base version applies it; anything else is a gap and
// the run is fetched. A version never goes back here.

import { Misfit, apply } from "./document.js";

const HINT_WAIT = 500; // ms in which a frame may still bring what an event already told of
const FETCH_PAUSE = 250; // ms between two fetches of one run
const MOST = 300; // documents kept

export class Runs {
  #entries = new Map();
  #fetch;
  #changed;
  #later;

  /** `fetch(id)` answers with the run, with undefined when it may not be seen, or throws; `changed(id)` is told. */
  constructor(fetch, changed, later = (run, ms) => setTimeout(run, ms)) {
    this.#fetch = fetch;
    this.#changed = changed;
    this.#later = later;
  }

  /** The document, if it is known. */
  get(id) {
    return this.#entries.get(id)?.run;
  }

  /** Whether the run turned out not to be there for this person. */
  isGone(id) {
    return this.#entries.get(id)?.gone ?? false;
  }

  /** A whole document; one with a lower version than the known one is old. */
  put(run) {
    const entry = this.#entry(run.id);
    if (entry.run && run.version < entry.run.version) return;
    entry.run = run;
    entry.gone = false;
    this.#catchUp(entry);
    this.#changed(run.id);
  }

  /** A patch that the server broadcast. */
  patch(update) {
    const entry = this.#entry(update.run_id);
    if (entry.fetching) {
      entry.waiting.push(update);
    } else if (!this.#applied(entry, update)) {
      entry.waiting.push(update);
      this.fetch(update.run_id);
    }
  }

  /** Fetch the document where it is not known yet. */
  want(id) {
    const entry = this.#entries.get(id);
    if (!entry?.run && !entry?.gone) this.fetch(id);
  }

  /** An event says that the run is at `version` now: fetch it when no frame brings that soon. */
  hint(id, version) {
    const entry = this.#entries.get(id);
    if (!entry?.run || entry.run.version >= version) return;
    this.#later(() => {
      if (this.#entries.get(id) === entry && entry.run.version < version) this.fetch(id);
    }, HINT_WAIT);
  }

  /** Fetch the document; a fetch under way is used, and repeated if it brought too little. */
  async fetch(id) {
    const entry = this.#entry(id);
    if (entry.fetching) return;
    entry.fetching = true;
    try {
      const run = await this.#fetch(id);
      entry.fetching = false;
      if (this.#entries.get(id) !== entry) return;
      if (run) this.put(run);
      else this.#lose(id, entry);
    } catch {
      entry.fetching = false; // unreachable: whatever brings the connection back brings the document too
      entry.waiting = [];
    }
  }

  /** Nothing is known any more, as after signing out or a change of rights. */
  clear() {
    this.#entries.clear();
  }

  /** Every document that is known. */
  known() {
    return [...this.#entries.values()].map((entry) => entry.run).filter(Boolean);
  }

  #entry(id) {
    let entry = this.#entries.get(id);
    if (!entry) {
      entry = { run: undefined, waiting: [], fetching: false, gone: false };
      this.#entries.set(id, entry);
      if (this.#entries.size > MOST) this.#entries.delete(this.#entries.keys().next().value);
    }
    return entry;
  }

  #lose(id, entry) {
    entry.run = undefined;
    entry.waiting = [];
    entry.gone = true;
    this.#changed(id);
  }

  // True when nothing is left to do for this update.
  #applied(entry, update) {
    const run = entry.run;
    if (!run) return false;
    if (update.version <= run.version) return true;
    if (update.base_version !== run.version) return false;
    try {
      entry.run = { ...apply(run, update.ops), version: update.version };
    } catch (error) {
      if (!(error instanceof Misfit)) throw error;
      return false;
    }
    this.#changed(update.run_id);
    return true;
  }

  #catchUp(entry) {
    const waiting = entry.waiting;
    entry.waiting = [];
    for (const [index, update] of waiting.entries()) {
      if (this.#applied(entry, update)) continue;
      entry.waiting = waiting.slice(index);
      this.#later(() => this.fetch(update.run_id), FETCH_PAUSE);
      return;
    }
  }
}
