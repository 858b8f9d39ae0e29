// Where it begins: signing in, the views and the way between them, and the clock that ticks.

import { Announcer } from "./announce.js";
import { App } from "./app.js";
import { Clock } from "./clock.js";
import { say, show } from "./dom.js";
import { timeOfDay } from "./format.js";
import { List } from "./list.js";
import { RunningView } from "./running.js";
import { themeSwitch } from "./theme.js";
import { ThreadView } from "./thread.js";
import { problem } from "./words.js";

const TOKEN = "livebox.token"; // in sessionStorage: it lives as long as this tab
const TICK = 1000; // ms
const CALM = 2000; // ms that a lost connection may last before it is told

const at = (id) => document.getElementById(id);
const announcer = new Announcer(at("announcements"));
const OUTCAST = {
  token_expired: "Your token has expired. Sign in with a new one.",
  invalid_token: "The server does not take this token.",
};

class Page {
  #app;
  #list;
  #view;
  #path;
  #scheduled = false;
  #dirty = new Set();
  #all = false;
  #calm;

  begin() {
    themeSwitch(at("theme"));
    // How high the header is that stays in view: what scrolls stops below it.
    const header = document.querySelector("header");
    const high = () => document.documentElement.style.setProperty("--head", `${header.offsetHeight}px`);
    new ResizeObserver(high).observe(header);
    at("sign-in-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.signIn(at("token").value.trim());
    });
    at("sign-out").addEventListener("click", () => this.signOut(""));
    at("menu").addEventListener("click", () => this.#menu(at("menu").getAttribute("aria-expanded") !== "true"));
    at("skip").addEventListener("click", (event) => {
      event.preventDefault();
      at("main").focus();
    });
    at("retry").addEventListener("click", () => location.reload());
    window.addEventListener("hashchange", () => this.#route());
    window.addEventListener("online", () => this.#app?.wake());
    window.addEventListener("offline", () => this.#app?.gateway.lost());
    window.addEventListener("pageshow", () => this.#app?.wake());
    document.addEventListener("visibilitychange", () => document.hidden || this.#app?.wake());
    setInterval(() => this.#tick(), TICK);
    const token = tokenFromAddress() ?? sessionStorage.getItem(TOKEN);
    if (token) this.signIn(token);
    else this.signOut("");
  }

  async signIn(token) {
    if (!token) return;
    say(at("sign-in-error"), "");
    const app = new App(new URL(".", location.href), token, new Clock(), {
      changed: (id) => this.#changed(id),
      status: (name, detail) => this.#status(name, detail),
      announce: (text) => announcer.say(text),
      outcast: (code) => this.signOut(OUTCAST[code]),
      shows: (run) => this.#view?.shows(run) ?? false,
    });
    this.#app?.stop();
    this.#app = app;
    this.#list = new List(app);
    at("list").replaceChildren(this.#list.element);
    sessionStorage.setItem(TOKEN, token);
    at("token").value = "";
    this.#signedIn(true);
    this.#path = undefined;
    this.#route();
    try {
      await app.start();
    } catch (error) {
      if (this.#app === app) this.signOut(problem(error));
    }
  }

  signOut(why) {
    sessionStorage.removeItem(TOKEN);
    const app = this.#app;
    this.#app = this.#view = undefined;
    app?.stop();
    at("list").replaceChildren();
    at("view").replaceChildren();
    this.#signedIn(false);
    document.title = "Sign in · Livebox";
    say(at("sign-in-error"), why);
    at("token").focus();
  }

  #signedIn(is) {
    show(at("sign-in"), !is);
    for (const id of ["nav", "view", "sign-out", "status", "menu"]) show(at(id), is);
    if (!is) show(at("refused"), false);
  }

  // The address decides what is shown, so that back, forward and a bookmark work.
  #route() {
    if (tokenFromAddress(this)) return;
    if (!this.#app) return;
    const path = location.hash.slice(1) || "/running";
    if (path === this.#path) return;
    const first = this.#path === undefined;
    this.#path = path;
    const thread = /^\/thread\/([0-9a-f-]{36})$/.exec(path)?.[1];
    this.#app.opened = thread;
    this.#view = thread ? new ThreadView(this.#app, thread, (id) => this.#open(id)) : new RunningView(this.#app);
    at("view").replaceChildren(this.#view.element);
    this.#menu(false);
    this.#render();
    window.scrollTo(0, 0);
    if (!first) this.#view.heading.focus();
  }

  #open(threadId) {
    location.hash = `/thread/${threadId}`;
  }

  #menu(open) {
    at("menu").setAttribute("aria-expanded", String(open));
    at("nav").classList.toggle("open", open);
  }

  #changed(id) {
    if (id === undefined) this.#all = true;
    else this.#dirty.add(id);
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      if (this.#app) this.#render();
    });
  }

  #render() {
    const dirty = this.#dirty;
    this.#dirty = new Set();
    if (this.#all || dirty.size === 0) {
      this.#all = false;
      this.#list.update(this.#path ?? "");
      this.#view?.update();
      const me = this.#app.store.me;
      say(at("me"), me ? me.display_name : "");
      document.title = `${this.#view?.title ?? ""} · Livebox`;
    } else {
      for (const id of dirty) this.#view?.updateRun(id);
    }
    if (this.#view) this.#app.look(...this.#view.focus());
  }

  #tick() {
    if (!document.hidden) this.#view?.tick();
  }

  #status(name, detail) {
    clearTimeout(this.#calm);
    const known = () => timeOfDay(this.#app.present().knownAt);
    const texts = { live: "Live", connecting: "Connecting …", stopped: "", refused: "Not connected" };
    const begun = this.#app?.present().begun;
    const again = begun ? "Connecting again …" : "Connecting …";
    say(at("status"), texts[name] ?? (navigator.onLine ? again : "Offline"));
    at("status").dataset.state = name;
    show(at("refused"), name === "refused");
    if (name === "refused") say(at("refused-text"), `The server ended the live connection for good (${detail.code}).`);
    if (name === "live" || name === "stopped") {
      if (at("away").hidden === false) announcer.say("The connection is back.");
      show(at("away"), false);
      return;
    }
    this.#calm = setTimeout(() => {
      if (!this.#app || this.#app.gateway.live) return;
      say(at("away"), begun ? `No live connection. What you see was last known at ${known()}; it comes back by itself.`
        : "There is no live connection yet. It is tried again.");
      show(at("away"), true);
      announcer.say(begun ? "The live connection is lost. It is tried again." : "There is no live connection yet. It is tried again.");
    }, at("away").hidden ? CALM : 0);
  }
}

/** The token of the address (#token=…), which is taken out of it at once; `page` signs in with it when given. */
function tokenFromAddress(page) {
  if (!location.hash.startsWith("#token=")) return undefined;
  const parts = new URLSearchParams(location.hash.slice(1));
  const thread = parts.get("thread");
  history.replaceState(history.state, "", `${location.pathname}${location.search}${thread ? `#/thread/${thread}` : ""}`);
  const token = parts.get("token")?.trim();
  if (page && token) page.signIn(token);
  return token || undefined;
}

new Page().begin();
