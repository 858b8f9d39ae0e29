// What this person may see, as a state: a snapshot, and then event after event.

const ACTIVE = new Set(["queued", "running", "waiting_input"]);
const LEVELS = ["read", "write", "trigger", "manage"];

export const isActive = (run) => ACTIVE.has(run.state);

export class Store {
  me;
  /** The last position of the log that is in this state. */
  seq;
  spaces = new Map();
  channels = new Map();
  threads = new Map();
  messages = new Map();
  principals = new Map();
  active = new Map();
  /** Thread -> { from: oldest thread_seq that is known without a hole, cursor: to go on, absent at the beginning }. */
  pages = new Map();
  #readySeq = 0;

  /**
   * Begin anew from a whole snapshot and the list of spaces. Only the thread that is `opened` keeps the messages that
   * were read, until its page is read again: what is looked at does not flicker.
   */
  load(snapshot, spaces, opened) {
    const kept = this.thread(opened);
    const page = this.pages.get(opened);
    this.seq = snapshot.seq;
    this.spaces = byId(spaces);
    this.channels = byId(snapshot.channels);
    this.threads = byId(snapshot.threads);
    this.messages = byId(snapshot.messages);
    this.active = byId(snapshot.active_runs);
    this.pages = new Map();
    if (!page || !this.threads.has(opened)) return;
    this.pages.set(opened, page);
    for (const message of kept) this.putMessage(message);
  }

  /** The gateway's `ready`: the active runs as they are at its position. */
  ready(frame) {
    this.me = frame.principal;
    this.putPrincipal(frame.principal);
    this.#readySeq = frame.seq;
    this.active = byId(frame.active_runs);
  }

  /**
   * One event of the log, in order; one that is in this state already changes nothing.
   * Gives what has to be fetched for it: { snapshot?: true, run?: {id, version}, message?: id }.
   */
  apply(event) {
    if (this.seq !== undefined && event.seq <= this.seq) return {};
    this.seq = event.seq;
    const payload = event.payload;
    switch (event.type) {
      case "message.created":
      case "message.updated":
      case "message.deleted":
        this.putMessage(payload.message);
        return payload.message.truncated ? { message: payload.message.id } : {};
      case "space.created":
        this.spaces.set(payload.space.id, payload.space);
        return {};
      case "channel.created":
        return { snapshot: true }; // with one's own level there, which no event tells
      case "channel.updated":
        return this.#channelUpdated(payload.channel);
      case "thread.created":
        this.putThread(payload.thread);
        return {};
      case "thread.moved":
        return this.#threadMoved(payload);
      case "thread.deleted":
        this.#forgetThread(payload.thread_id);
        return {};
      case "run.state_changed":
      case "run.changed":
        this.putSummary(payload.run, event.seq <= this.#readySeq);
        return { run: { id: payload.run.id, version: payload.run.version } };
      case "access.changed":
        return { snapshot: true };
      default:
        return {};
    }
  }

  /** A message; a cut body does not take the place of the whole one. */
  putMessage(message) {
    const known = this.messages.get(message.id);
    if (known && known.version > message.version) return;
    if (known && known.version === message.version && message.truncated && !known.truncated) return;
    this.messages.set(message.id, message);
  }

  /** A page of a thread's messages, newest first: older ones than are known, or (`first`) the newest, read anew. */
  putPage(threadId, page, first = true) {
    const from = page.next_cursor === undefined ? 0 : page.items.at(-1).thread_seq;
    if (first) {
      for (const message of this.thread(threadId)) if (message.thread_seq < from) this.messages.delete(message.id);
    }
    for (const message of page.items) this.putMessage(message);
    this.pages.set(threadId, { from, cursor: page.next_cursor });
  }

  /** A run's summary; `old` when it may be older than what the gateway said at the session's beginning. */
  putSummary(run, old = false) {
    const known = this.active.get(run.id);
    if (!isActive(run)) this.active.delete(run.id);
    else if (known ? known.version <= run.version : !old) this.active.set(run.id, run);
  }

  putPrincipal(principal) {
    putNewer(this.principals, principal);
  }

  putThread(thread) {
    putNewer(this.threads, thread);
  }

  /** The messages of a thread from its page's beginning, in its order. */
  thread(threadId) {
    const page = this.pages.get(threadId);
    if (!page) return [];
    return [...this.messages.values()]
      .filter((message) => message.thread_id === threadId && message.thread_seq >= page.from)
      .sort((one, two) => one.thread_seq - two.thread_seq);
  }

  /** The threads of a channel without its main thread, newest first. */
  threadsOf(channelId) {
    return [...this.threads.values()]
      .filter((thread) => thread.channel_id === channelId && !thread.is_main)
      .sort((one, two) => (one.id < two.id ? 1 : -1));
  }

  /** The thread that grew from a message. */
  threadFrom(messageId) {
    for (const thread of this.threads.values()) if (thread.parent_message_id === messageId) return thread;
    return undefined;
  }

  /** Active runs, newest first. */
  running() {
    return [...this.active.values()].sort((one, two) =>
      one.queued_at === two.queued_at ? (one.id < two.id ? 1 : -1) : one.queued_at < two.queued_at ? 1 : -1,
    );
  }

  /** Is this person's level in a channel `level` or above? */
  may(channelId, level) {
    const channel = this.channels.get(channelId);
    return channel !== undefined && LEVELS.indexOf(channel.level) >= LEVELS.indexOf(level);
  }

  #channelUpdated(channel) {
    const known = this.channels.get(channel.id);
    if (!known) return { snapshot: true };
    if (known.version < channel.version) this.channels.set(channel.id, { ...channel, level: known.level });
    return {};
  }

  #threadMoved(payload) {
    if (!payload.thread) {
      this.#forgetThread(payload.thread_id);
      return {};
    }
    const known = this.threads.has(payload.thread_id);
    putNewer(this.threads, payload.thread);
    for (const message of this.messages.values()) {
      if (message.thread_id === payload.thread_id) message.channel_id = payload.thread.channel_id;
    }
    return known ? {} : { snapshot: true }; // its messages and its run came into sight with it
  }

  #forgetThread(threadId) {
    this.threads.delete(threadId);
    this.pages.delete(threadId);
    for (const [id, message] of this.messages) if (message.thread_id === threadId) this.messages.delete(id);
    for (const [id, run] of this.active) if (run.thread_id === threadId) this.active.delete(id);
  }
}

function byId(items) {
  return new Map(items.map((item) => [item.id, item]));
}

function putNewer(map, item) {
  const known = map.get(item.id);
  if (!known || known.version <= item.version) map.set(item.id, item);
}
