// The REST interface, as far as this page needs it.

const TRIES = 6;
const LONGEST_WAIT = 10_000; // ms
const PATIENCE = 20_000; // ms that one request may take
const OUTCAST = new Set(["invalid_token", "token_expired"]);

/** The server refused; `code` is one of the contract's problem codes. */
export class Problem extends Error {
  constructor(document) {
    super(document.detail ?? document.title ?? "The server refused.");
    this.code = document.code;
    this.status = document.status;
    this.retryAfter = document.retry_after_ms;
    this.run = document.run;
  }
}

/** No answer came. Whether the request was carried out is not known. */
export class Unreachable extends Error {}

/** A new UUID of version 4; crypto.randomUUID is not there on plain HTTP. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

export class Api {
  #base;
  #token;
  #clock;
  #outcast;

  /** `base` is the URL that the paths of the contract are below; `outcast(code)` is told when the token is refused. */
  constructor(base, token, clock, outcast = () => {}) {
    this.#base = base;
    this.#token = token;
    this.#clock = clock;
    this.#outcast = outcast;
  }

  /** What a GET answers. Throws Problem or Unreachable. */
  get(path, query = {}) {
    const parameters = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined));
    return this.#send("GET", parameters.size > 0 ? `${path}?${parameters}` : path);
  }

  /** What a POST answers; only for requests that are safe to repeat. Throws Problem or Unreachable. */
  post(path, body) {
    return this.#send("POST", path, body);
  }

  /** Every item of a list, page by page, `most` at most. */
  async all(path, query = {}, most = 2000) {
    const items = [];
    let cursor;
    do {
      const page = await this.get(path, { ...query, cursor });
      items.push(...page.items);
      cursor = page.next_cursor;
    } while (cursor !== undefined && items.length < most);
    return items;
  }

  snapshot(cursor) {
    return this.get("v1/snapshot", { cursor });
  }

  /** The run, or undefined when this person may not see it or it is not there. */
  async run(id) {
    try {
      return await this.get(`v1/runs/${id}`);
    } catch (error) {
      if (error instanceof Problem && error.status === 404) return undefined;
      throw error;
    }
  }

  async #send(method, path, body) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#once(method, path, body);
      } catch (error) {
        const busy = error instanceof Problem && (error.status === 429 || error.status === 503);
        if (!busy || attempt === TRIES) throw error;
        await pause(Math.min(LONGEST_WAIT, error.retryAfter ?? 1000) * (1 + Math.random() / 4));
      }
    }
  }

  async #once(method, path, body) {
    const headers = { Authorization: `Bearer ${this.#token}`, Accept: "application/json" };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const sent = this.#clock.local();
    let response;
    let document;
    try {
      response = await fetch(new URL(path, this.#base), {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        cache: "no-store",
        credentials: "omit",
        signal: AbortSignal.timeout(PATIENCE),
      });
      document = await response.json();
    } catch {
      throw new Unreachable("The server cannot be reached.");
    }
    this.#clock.hearDate(response.headers.get("Date"));
    if (response.ok) {
      if (document.seq !== undefined && document.at !== undefined) this.#clock.hear(document.at, sent);
      return document;
    }
    const problem = new Problem(document);
    if (OUTCAST.has(problem.code)) this.#outcast(problem.code);
    throw problem;
  }
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
