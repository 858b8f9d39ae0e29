// Writing a message. "@handle" or "@id" in the text mentions somebody; who is asked is said before it is sent.

import { h, keyed, say, show } from "./dom.js";

const MENTION = /(?<![\p{L}\p{N}@._-])@([a-z0-9][a-z0-9._-]*)/giu;
const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const LONGEST = 20_000;

/** Who is mentioned: { ids, names, unknown }; `principals` are those that are known. */
export function mentions(text, principals) {
  const ids = new Map();
  const unknown = [];
  for (const [, raw] of text.matchAll(MENTION)) {
    const word = raw.toLowerCase().replace(/[._-]+$/, "");
    const found = principals.find((each) => each.handle === word || each.id === word);
    if (found) ids.set(found.id, found.display_name);
    else if (ID.test(word)) ids.set(word, word);
    else unknown.push(`@${raw}`);
  }
  return { ids: [...ids.keys()], names: [...ids.values()], unknown };
}

export class Composer {
  #app;
  #threadId;
  #channelId;
  #sent;

  /** `sent(message)` is told of each message that this composer has sent. */
  constructor(app, threadId, sent) {
    this.#app = app;
    this.#threadId = threadId;
    this.#sent = sent;
    this.text = h("textarea", { id: "message", rows: "3", maxlength: String(LONGEST), "aria-describedby": "asks keys",
      oninput: () => this.update(), onkeydown: (event) => this.#key(event) });
    this.asks = h("p", { id: "asks", className: "quiet", role: "status" });
    this.agents = h("div", { className: "agents", role: "group", "aria-label": "Mention an agent" });
    this.send = h("button", { type: "submit", className: "primary" }, "Send");
    this.form = h("form", { className: "composer", onsubmit: (event) => this.#submit(event) },
      h("label", { htmlFor: "message" }, "Message"), this.text, this.asks,
      h("div", { className: "row" }, this.send, this.agents, h("span", { id: "keys", className: "quiet keys" }, "Ctrl+Enter sends")));
    this.barred = h("p", { className: "quiet barred", hidden: true });
    this.element = h("section", { "aria-label": "Write a message" }, this.form, this.barred);
  }

  /** Show what may be written here, and who would be asked. */
  update(channelId = this.#channelId) {
    this.#channelId = channelId;
    const { store } = this.#app;
    const channel = store.channels.get(channelId);
    const may = channel && !channel.read_only && store.may(channelId, "write");
    show(this.form, may);
    show(this.barred, !may);
    say(this.barred, channel?.read_only ? "This channel is read-only." : "You may read here, and not write.");
    const agents = this.#app.agents(channelId);
    keyed(this.agents, agents.map((agent) => [agent.id, agent]),
      (agent) => h("button", { type: "button", className: "mention", onclick: () => this.#mention(agent) }),
      (button, agent) => say(button, `@${agent.handle}`));
    const { names, unknown } = mentions(this.text.value, this.#known());
    const parts = [];
    if (names.length > 0) parts.push(`Mentions ${names.join(" and ")}.`);
    if (unknown.length > 0) parts.push(`${unknown.join(", ")}: nobody is known here by that name.`);
    say(this.asks, parts.join(" "));
  }

  /** Put a text back, as after giving up a message. */
  restore(text) {
    this.text.value = this.text.value ? `${text}\n${this.text.value}` : text;
    this.text.focus();
    this.update();
  }

  #known() {
    return [...this.#app.store.principals.values()];
  }

  #mention(agent) {
    const { text } = this;
    const before = text.value.slice(0, text.selectionStart);
    const gap = before && !/\s$/.test(before) ? " " : "";
    text.setRangeText(`${gap}@${agent.handle} `, text.selectionStart, text.selectionEnd, "end");
    text.focus();
    this.update();
  }

  #key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.#submit(event);
  }

  async #submit(event) {
    event.preventDefault();
    const body = this.text.value;
    if (body.trim() === "") {
      this.text.focus();
      return;
    }
    this.text.value = "";
    const { ids } = mentions(body, this.#known());
    this.update();
    const message = await this.#app.outbox.send(this.#threadId, body, ids);
    if (message) this.#sent(message);
  }
}
