// What lies behind the views: the state of this person's session, kept true by snapshot, events and documents.

import { Api, Problem, newId } from "./api.js";
import { Gateway } from "./gateway.js";
import { Outbox } from "./outbox.js";
import { Runs } from "./runs.js";
import { Store, isActive } from "./store.js";
import { STATES, problem, reason } from "./words.js";

const PAGE = 50;
const THREADS_MOST = 2000;
const RUNS_MOST = 2000;
const START_AGAIN = 2000; // ms until a snapshot that could not be had is asked for again

export class App {
  store = new Store();
  /** The id of the thread that is shown. */
  opened;
  #listener;
  #queue = [];
  #loading;
  #asked = new Set();
  #answers = new Map();
  #threadIds = [];
  #runIds = [];
  #heardAt;
  #timer;
  #stopped = false;

  /**
   * `listener` has `changed(runId?)`: something, or one run's document, is another one; `status(name, detail)`: of the
   * connection; `announce(text)`; `outcast(code)`: the token is refused; `shows(run)`: is it in sight?
   */
  constructor(base, token, clock, listener) {
    this.clock = clock;
    this.#listener = listener;
    this.api = new Api(base, token, clock, (code) => this.#outcast(code));
    this.runs = new Runs((id) => this.api.run(id), (id) => listener.changed(this.runs.isGone(id) ? undefined : id));
    this.outbox = new Outbox(this.api, (message) => this.store.putMessage(message), () => listener.changed());
    const url = new URL("v1/gateway", base);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    this.gateway = new Gateway(url.href, token, {
      position: () => this.store.seq,
      frame: (frame) => this.#frame(frame),
      state: (name, detail) => this.#state(name, detail),
    });
    this.context = {
      clock,
      name: (id) => this.name(id),
      message: (id) => this.store.messages.get(id),
      href: (threadId) => `#/thread/${threadId}`,
      mayCancel: (run) => this.#mayCancel(run),
      mayAnswer: (run) => this.store.may(run.channel_id, "trigger"),
      answer: (run, text) => this.#answer(run, text),
    };
  }

  /** Take the snapshot, then follow. Throws Problem when the token is refused. */
  async start() {
    try {
      await this.#load();
    } catch (error) {
      if (error instanceof Problem || this.#stopped) throw error;
      this.#listener.status("waiting", {});
      this.#timer = setTimeout(() => this.start().catch(() => {}), START_AGAIN);
      return;
    }
    if (!this.#stopped) this.gateway.start();
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.outbox.stop();
    this.gateway.stop();
  }

  /** Awake or online again. */
  wake() {
    this.gateway.wake();
  }

  /** What is true of the connection; before the first session has `begun` there is nothing to be lost. */
  present() {
    return { live: this.gateway.live, begun: this.store.me !== undefined, knownAt: this.#heardAt ?? this.clock.now() };
  }

  /** A run as it is known: its document, or its summary as long as there is none. */
  run(id) {
    return this.runs.get(id) ?? this.store.active.get(id);
  }

  /** Look at these threads and runs, and at nothing else. */
  look(threadIds, runIds) {
    this.#threadIds = threadIds;
    this.#runIds = runIds;
    this.gateway.focus(threadIds, runIds.slice(0, this.#room()));
  }

  /** The name of a principal; asked for when it is not known yet. */
  name(id) {
    if (id === undefined) return "Somebody";
    const known = this.store.principals.get(id);
    if (known) return known.display_name;
    this.#once(`principal ${id}`, async () => this.store.putPrincipal(await this.api.get(`v1/principals/${id}`)));
    return "…";
  }

  /** The agents that can be known of in a channel: its operators, and who was at work there. */
  agents(channelId) {
    const ids = new Set();
    for (const channel of this.store.channels.values()) ids.add(channel.operator_agent_id);
    for (const thread of this.store.threads.values()) if (thread.channel_id === channelId) ids.add(thread.operator_agent_id);
    for (const message of this.store.messages.values()) if (message.origin === "agent") ids.add(message.author_id);
    for (const run of this.store.active.values()) ids.add(run.agent_id);
    ids.delete(undefined);
    for (const id of ids) this.name(id);
    return [...ids].map((id) => this.store.principals.get(id)).filter((each) => each?.kind === "agent");
  }

  /** Read the newest messages of a thread, or more of its older ones. */
  async read(threadId, older = false) {
    const cursor = older ? this.store.pages.get(threadId)?.cursor : undefined;
    const page = await this.api.get(`v1/threads/${threadId}/messages`, { limit: PAGE, cursor });
    this.store.putPage(threadId, page, !older);
    this.#listener.changed();
  }

  /** Fetch a message that is needed for its text, once for each version. */
  want(messageId, version = 1) {
    this.#once(`message ${messageId} ${version}`, async () => this.store.putMessage(await this.api.get(`v1/messages/${messageId}`)));
  }

  /** Look for a thread that is not among those of the snapshot: there is an end to how many it has. */
  wantThread(id) {
    this.#once(`thread ${id}`, async () => this.store.putThread(await this.api.get(`v1/threads/${id}`)));
  }

  /** Ask for a run to be cancelled; gives what went wrong, for people. */
  async cancel(id) {
    try {
      this.runs.put(await this.api.post(`v1/runs/${id}/cancel`, {}));
      return undefined;
    } catch (error) {
      if (error.code === "run_ended") this.runs.fetch(id);
      return problem(error);
    }
  }

  /** What the server decides too: a registered run is in no channel. */
  #mayCancel(run) {
    const me = this.store.me;
    if (run.trigger_kind === "registration") {
      return me !== undefined && (me.role === "owner" || [run.registered_by, run.user_dims?.user_id].includes(me.id));
    }
    return run.triggered_by === me?.id || this.store.may(run.channel_id, "manage");
  }

  async #answer(run, text) {
    try {
      // One id for one answer to one question: choosing it again after a lost answer posts it once.
      const key = `${run.id} ${run.question.asked_at} ${text}`;
      if (!this.#answers.has(key)) this.#answers.set(key, newId());
      const body = { body: text, client_msg_id: this.#answers.get(key) };
      this.store.putMessage(await this.api.post(`v1/threads/${run.thread_id}/messages`, body));
      this.#listener.changed();
      return undefined;
    } catch (error) {
      return problem(error);
    }
  }

  #room() {
    return Math.max(0, (this.limits?.focus_max ?? 100) - this.#threadIds.length);
  }

  #once(key, fetch) {
    if (this.#asked.has(key)) return;
    this.#asked.add(key);
    fetch().then(() => this.#listener.changed(), (error) => {
      if (!(error instanceof Problem)) this.#asked.delete(key);
    });
  }

  #state(name, detail) {
    if (name === "outcast") this.#outcast(detail.code === 4040 ? "token_expired" : "invalid_token");
    else this.#listener.status(name, detail);
    if (name === "live") this.outbox.flush();
    this.#listener.changed();
  }

  #outcast(code) {
    if (this.#stopped) return;
    this.stop();
    this.#listener.outcast(code);
  }

  #frame(frame) {
    this.#heardAt = this.clock.now();
    if (frame.type === "ready") {
      this.limits = frame.limits;
      this.store.ready(frame);
      this.look(this.#threadIds, this.#runIds);
      this.#doubt();
      this.#listener.changed();
    } else if (frame.type === "run.document") {
      this.runs.put(frame.run);
    } else if (frame.type === "run.updated") {
      this.runs.patch(frame);
    } else if (frame.type === "event") {
      this.#event(frame.event);
    } else if (frame.type === "resync") {
      this.runs.clear();
      this.#reload();
    }
  }

  #event(event) {
    if (this.#loading) this.#queue.push(event);
    else this.#apply(event);
  }

  #apply(event) {
    const before = event.resource.kind === "run" ? this.store.active.get(event.resource.id) : undefined;
    const wanted = this.store.apply(event);
    if (wanted.message) this.want(wanted.message, event.resource.version);
    if (wanted.run) this.runs.hint(wanted.run.id, wanted.run.version);
    if (wanted.snapshot) this.#reload();
    if (event.type === "run.state_changed") this.#announce(event.payload.run, before);
    this.#listener.changed();
  }

  #announce(run, before) {
    if (before?.state === run.state || !this.#listener.shows(run)) return;
    const why = run.state_reason ? `, ${reason(run.state_reason)}` : "";
    this.#listener.announce(`${this.name(run.agent_id)}: ${STATES[run.state]}${why}.`);
  }

  // The rights or the log are other ones: everything anew, while events wait.
  #reload() {
    clearTimeout(this.#timer);
    this.#load().catch(() => {
      if (!this.#stopped) this.#timer = setTimeout(() => this.#reload(), START_AGAIN);
    });
  }

  async #load() {
    const mine = (this.#loading = {});
    const [snapshot, spaces] = await Promise.all([this.api.snapshot(), this.api.all("v1/spaces")]);
    const goOn = (member, most) => this.#rest(snapshot, member, most);
    await Promise.all([goOn("channels", Infinity), goOn("threads", THREADS_MOST), goOn("active_runs", RUNS_MOST)]);
    if (mine !== this.#loading) return; // a newer one is under way
    this.store.load(snapshot, spaces, this.opened);
    if (this.store.pages.has(this.opened)) this.read(this.opened).catch(() => {});
    for (const key of this.#asked) if (key.startsWith("thread ")) this.#asked.delete(key);
    this.#doubt();
    this.#loading = undefined;
    this.#heardAt = this.clock.now();
    const queue = this.#queue;
    this.#queue = [];
    for (const event of queue) this.#event(event);
    this.#listener.changed();
  }

  // A document that says it is active, of a run that is not: it has ended, or may not be seen any more.
  #doubt() {
    for (const run of this.runs.known()) if (isActive(run) && !this.store.active.has(run.id)) this.runs.fetch(run.id);
  }

  async #rest(snapshot, member, most) {
    let cursor = snapshot.next_cursors?.[member];
    while (cursor !== undefined && snapshot[member].length < most) {
      const page = await this.api.snapshot(cursor);
      snapshot[member].push(...page[member]);
      cursor = page.next_cursors?.[member];
    }
  }
}
