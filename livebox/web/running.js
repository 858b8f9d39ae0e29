// Running now: every active run that this person may see, live. One that ends stays, as one line, until the view is left.

import { Box } from "./box.js";
import { h, keyed, say, show } from "./dom.js";
import { count } from "./format.js";
import { channelName, threadTitle } from "./names.js";

export class RunningView {
  title = "Running now";
  #app;
  #boxes = new Map();

  constructor(app) {
    this.#app = app;
    this.heading = h("h1", { tabIndex: -1 }, this.title);
    this.count = h("p", { className: "quiet" });
    this.list = h("ol", { className: "messages running", "aria-label": "Runs" });
    this.element = h("div", { className: "running-view" }, this.heading, this.count, this.list);
  }

  focus() {
    return [[], this.#app.store.running().map((run) => run.id)];
  }

  shows() {
    return true;
  }

  update() {
    const { store, runs } = this.#app;
    const active = store.running();
    for (const run of active) if (!this.#boxes.has(run.id)) this.#boxes.set(run.id, new Box(this.#app, run.id, { link: true }));
    for (const id of [...this.#boxes.keys()]) {
      if (store.active.has(id)) continue;
      if (!runs.get(id) || runs.isGone(id)) this.#boxes.delete(id);
    }
    const order = new Map(active.map((run, index) => [run.id, index]));
    const ids = [...this.#boxes.keys()].sort((one, two) => (order.get(one) ?? -1) - (order.get(two) ?? -1));
    const none = store.seq === undefined ? "Loading …" : "Nothing is running.";
    say(this.count, active.length > 0 ? count(active.length, "run") : none);
    keyed(this.list, ids.map((id) => [id, id]), (id) => this.#row(id), (row) => row.refresh());
  }

  updateRun(id) {
    this.#boxes.get(id)?.update();
  }

  tick() {
    for (const box of this.#boxes.values()) box.tick();
  }

  #row(id) {
    const link = h("a", {});
    const place = h("p", { className: "quiet place" }, link);
    const box = this.#boxes.get(id);
    const row = h("li", { className: "anchor" }, place, box.element);
    row.refresh = () => {
      const run = this.#app.run(id);
      const thread = run && this.#app.store.threads.get(run.thread_id);
      show(place, thread);
      if (thread) {
        say(link, `${channelName(this.#app, thread.channel_id)} · ${threadTitle(this.#app, thread)}`);
        link.href = this.#app.context.href(thread.id);
      }
      box.update();
    };
    return row;
  }
}
