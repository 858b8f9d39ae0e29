// One session with the gateway at a time, which comes back by itself: after a restart, sleep, and being offline.

const FIRST_WAIT = 500; // ms until the first try to come back; doubled for each further one
const LONGEST_WAIT = 20_000;
const READY_PATIENCE = 10_000; // ms from the start of a connection to `ready`
const PONG_PATIENCE = 5_000;
const LAST_RECONNECT = 4499; // close codes above it mean: it would end in the same way
const FINAL = new Set([1002, 1003, 1007]);
const REPLACED = 4009;
export const TOKEN_CODES = new Set([4040, 4501]);

const BROWSER = {
  open: (url) => new WebSocket(url, "livebox.v1"),
  later: (run, ms) => setTimeout(run, ms),
  never: (timer) => clearTimeout(timer),
  random: Math.random,
};

export class Gateway {
  #url;
  #token;
  #listener;
  #world;
  #socket;
  #timers = new Map();
  #attempt = 0;
  #bye;
  #focus = { thread_ids: [], run_ids: [] };
  #ready = false;
  #frames = 0;

  /**
   * `listener` has `position()`, the last position of the log that was seen (or undefined), `frame(frame)` for each
   * frame of the server, and `state(name, detail)`: connecting, live, waiting, refused, outcast, stopped.
   */
  constructor(url, token, listener, world = BROWSER) {
    this.#url = url;
    this.#token = token;
    this.#listener = listener;
    this.#world = world;
  }

  get live() {
    return this.#ready;
  }

  start() {
    if (!this.#socket) this.#connect();
  }

  /** End the session and stay away. */
  stop() {
    this.#drop();
    this.#listener.state("stopped");
  }

  /** What is looked at; kept over reconnects. */
  focus(threadIds, runIds) {
    const focus = { thread_ids: [...new Set(threadIds)].sort(), run_ids: [...new Set(runIds)].sort() };
    if (JSON.stringify(focus) === JSON.stringify(this.#focus)) return;
    this.#focus = focus;
    if (this.#ready) this.#send({ type: "focus", ...this.#focus });
  }

  /** Something may have changed (awake again, online again): look at once, without waiting for a timer. */
  wake() {
    if (this.#ready) this.#ping();
    else if (this.#timers.has("retry")) this.#connect();
  }

  /** The network is gone: do not wait until that is noticed. */
  lost() {
    if (this.#socket) this.#away(1006);
  }

  #connect() {
    this.#drop();
    this.#listener.state("connecting");
    const socket = this.#world.open(this.#url);
    this.#socket = socket;
    this.#set("ready", READY_PATIENCE, () => this.#away(1006));
    socket.onopen = () => {
      const hello = { type: "hello", id: "hello", token: this.#token };
      const position = this.#listener.position();
      if (position !== undefined) hello.resume_after = position;
      this.#send(hello);
    };
    socket.onmessage = ({ data }) => this.#heard(JSON.parse(data));
    socket.onclose = ({ code }) => this.#away(code);
  }

  #heard(frame) {
    this.#frames += 1;
    this.#clear("pong");
    if (frame.type === "bye") this.#bye = frame.retry_after_ms;
    if (frame.type === "ready") {
      this.#clear("ready");
      this.#ready = true;
      this.#attempt = 0;
      this.#beat(frame.limits.heartbeat_interval_ms);
      this.#send({ type: "focus", ...this.#focus });
    }
    this.#listener.frame(frame);
    if (frame.type === "ready") this.#listener.state("live");
  }

  // The server's own pings cannot be seen by a page, so it asks where nothing came for a while.
  #beat(interval) {
    const seen = this.#frames;
    this.#set("beat", interval, () => {
      if (this.#frames === seen) this.#ping();
      this.#beat(interval);
    });
  }

  #ping() {
    this.#send({ type: "ping", id: "ping" });
    this.#set("pong", PONG_PATIENCE, () => this.#away(1006));
  }

  #away(code) {
    const bye = this.#bye;
    this.#drop();
    if (TOKEN_CODES.has(code)) {
      this.#listener.state("outcast", { code });
    } else if (code > LAST_RECONNECT || FINAL.has(code)) {
      this.#listener.state("refused", { code });
    } else {
      const longest = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.#attempt);
      const wait = bye ?? (code === REPLACED ? LONGEST_WAIT : longest) * (0.5 + this.#world.random() / 2);
      this.#attempt += 1;
      this.#set("retry", wait, () => this.#connect());
      this.#listener.state("waiting", { wait });
    }
  }

  #drop() {
    const socket = this.#socket;
    this.#socket = undefined;
    this.#ready = false;
    this.#bye = undefined;
    for (const name of [...this.#timers.keys()]) this.#clear(name);
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  #send(frame) {
    if (this.#socket?.readyState === 1) this.#socket.send(JSON.stringify(frame));
  }

  #set(name, ms, run) {
    this.#clear(name);
    this.#timers.set(name, this.#world.later(() => {
      this.#timers.delete(name);
      run();
    }, ms));
  }

  #clear(name) {
    this.#world.never(this.#timers.get(name));
    this.#timers.delete(name);
  }
}
