// The list beside the view: Running now, spaces with their channels, and the threads of the channel that is open.

import { h, keyed, say, show } from "./dom.js";
import { dmName, threadTitle } from "./names.js";

const FEW = 12; // threads of a channel before "More threads"

export class List {
  #app;
  #shown = new Map();
  #recent = new Set(); // threads in which a run was active while this page was open

  constructor(app) {
    this.#app = app;
    this.running = h("a", { href: "#/running" });
    this.spaces = h("div", {});
    this.element = h("div", {}, h("p", { className: "running-link" }, this.running), this.spaces);
  }

  /** `path` is where the view is: "/running" or "/thread/<id>". */
  update(path) {
    const { store } = this.#app;
    const active = store.active.size;
    say(this.running, active > 0 ? `Running now (${active})` : "Running now");
    current(this.running, path === "/running");
    const openThread = store.threads.get(path.replace("/thread/", ""));
    const groups = new Map();
    for (const channel of store.channels.values()) {
      const key = channel.space_id ?? "dm";
      groups.set(key, [...(groups.get(key) ?? []), channel]);
    }
    const named = [...groups].map(([id, channels]) => [id, { name: this.#spaceName(id), channels }]);
    named.sort(([a, one], [b, two]) => Number(a === "dm") - Number(b === "dm") || one.name.localeCompare(two.name));
    keyed(this.spaces, named, (group, id) => this.#group(id), (section, group) => section.refresh(group, openThread));
  }

  #spaceName(id) {
    return id === "dm" ? "Direct messages" : this.#app.store.spaces.get(id)?.name ?? "A space";
  }

  #group(id) {
    const heading = h("h2", { id: `space-${id}` });
    const channels = h("ul", { "aria-labelledby": `space-${id}` });
    const section = h("section", {}, heading, channels);
    section.refresh = (group, openThread) => {
      say(heading, group.name);
      const items = group.channels
        .map((channel) => [channel.id, { channel, name: this.#channelName(channel) }])
        .sort(([, one], [, two]) => one.name.localeCompare(two.name));
      keyed(channels, items, (item) => this.#channel(item), (row, item) => row.refresh(item, openThread));
    };
    return section;
  }

  #channelName(channel) {
    return channel.kind === "dm" ? dmName(this.#app, channel) : channel.name;
  }

  // The thread of a run that has ended stays where it was: somebody may want to read what came of it.
  #remember(busy) {
    for (const id of busy) this.#recent.add(id);
    const ended = [...this.#recent].filter((id) => !busy.has(id));
    for (const id of ended.slice(0, -FEW)) this.#recent.delete(id);
  }

  #channel({ channel: { id } }) {
    const link = h("a", {});
    const threads = h("ul", { className: "threads" });
    const more = h("button", { type: "button", className: "more-threads", hidden: true, onclick: () => {
      this.#shown.set(id, (this.#shown.get(id) ?? FEW) + 50);
      row.refresh(...row.last);
    } }, "More threads");
    const row = h("li", {}, link, threads, more);
    row.refresh = (item, openThread) => {
      row.last = [item, openThread];
      const { store } = this.#app;
      say(link, item.name);
      link.href = this.#app.context.href(item.channel.main_thread_id);
      current(link, openThread?.id === item.channel.main_thread_id);
      const busy = new Set(store.running().map((run) => run.thread_id));
      this.#remember(busy);
      const all = store.threadsOf(id);
      const open = openThread?.channel_id === id;
      const room = this.#shown.get(id) ?? FEW;
      const shown = all.filter((thread, index) => this.#recent.has(thread.id) || (open && (index < room || thread === openThread)));
      keyed(threads, shown.map((thread) => [thread.id, thread]), () => threadRow(), (element, thread) => {
        say(element.link, threadTitle(this.#app, thread));
        element.link.href = this.#app.context.href(thread.id);
        current(element.link, openThread === thread);
        show(element.busy, busy.has(thread.id));
      });
      show(threads, shown.length);
      show(more, open && all.length > room);
    };
    return row;
  }
}

function threadRow() {
  const link = h("a", {});
  const busy = h("span", { className: "busy", hidden: true }, " ", h("span", { className: "chip", "data-state": "running" }, "active"));
  return Object.assign(h("li", {}, link, busy), { link, busy });
}

function current(link, is) {
  if (is) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}
