// The live box of one run: open while it is active, one line when it has ended, which opens again.

import { h, say, show } from "./dom.js";
import { count, duration, firstLine, money } from "./format.js";
import { parts } from "./parts.js";
import { isActive } from "./store.js";
import { STATES, reason } from "./words.js";

const MARKS = { queued: "…", running: "◐", waiting_input: "?", completed: "✓", failed: "✗", cancelled: "⊘" };

export class Box {
  #app;
  #id;
  #link;
  #parts = parts();
  #run;
  #steps;
  #asking;

  /** `app` gives the context (see main.js); `link` when the box stands outside the run's thread. */
  constructor(app, id, { link = false } = {}) {
    this.#app = app;
    this.#id = id;
    this.#link = link;
    this.mark = h("span", { className: "mark", "aria-hidden": "true" });
    this.title = h("span", { className: "title" });
    this.headline = h("span", { className: "headline" });
    this.ticking = h("span", { className: "ticking" });
    this.head = h("summary", {}, this.mark, this.title, " ", this.headline, " ", this.ticking);
    this.cancel = h("button", { type: "button", className: "cancel", onclick: () => this.#cancel() }, "Cancel");
    this.failure = h("p", { className: "error", role: "alert", hidden: true });
    this.thread = h("a", { className: "to-thread", hidden: !link }, "Open the thread");
    const foot = h("p", { className: "foot" }, this.cancel, this.thread);
    this.body = h("div", { className: "body" }, ...this.#parts.map((part) => part.element), this.failure, foot);
    this.details = h("details", { ontoggle: () => this.#toggled() }, this.head, this.body);
    this.element = h("article", { className: "box", "data-run": id, hidden: true }, this.details);
    this.context = {
      ...app.context,
      moreSteps: () => this.#steps ?? {},
      refresh: () => this.update(),
      focusHead: () => this.head.focus(),
    };
  }

  /** Show the run as it is known now. */
  update() {
    const run = this.#app.run(this.#id);
    const gone = !run && this.#app.runs.isGone(this.#id);
    show(this.element, run || gone || this.#run);
    if (gone) this.#forget();
    if (!run) return;
    this.#change(run);
    const context = this.#context();
    for (const part of this.#parts) part.update(run, context);
    const agent = context.name(run.agent_id);
    say(this.mark, MARKS[run.state] ?? "");
    say(this.title, isActive(run) ? `${agent} · ${STATES[run.state]}` : ended(agent, run));
    say(this.headline, isActive(run) ? run.headline ?? run.intent ?? "" : outcome(run) && `· ${outcome(run)}`);
    this.element.setAttribute("aria-label", `Run of ${agent}`);
    this.element.dataset.state = run.state;
    this.element.dataset.version = run.version;
    show(this.cancel, isActive(run) && !run.cancel && context.mayCancel(run));
    this.cancel.setAttribute("aria-label", `Cancel the run of ${agent}`);
    show(this.thread, this.#link && run.thread_id);
    if (run.thread_id) this.thread.href = context.href(run.thread_id);
    show(this.body, true);
    this.tick();
  }

  /** Time has passed. */
  tick() {
    const run = this.#run;
    if (!run) return;
    const { clock } = this.context;
    let text = "";
    if (run.state === "queued") text = `for ${duration(clock.since(run.queued_at), { ticking: true })}`;
    else if (isActive(run)) text = duration(clock.since(run.started_at ?? run.queued_at), { ticking: true });
    const cost = run.metrics?.cost ?? run.cost;
    if (isActive(run) && cost) text += ` · ${money(cost, run.model)}`;
    if (isActive(run) && run.metrics?.context_used_percent !== undefined) {
      text += ` · ${Math.round(run.metrics.context_used_percent)} % context`;
    }
    say(this.ticking, text);
    if (!isActive(run)) return;
    const context = this.#context();
    for (const part of this.#parts) part.update(run, context);
  }

  // Nothing of what was seen stays in the page.
  #forget() {
    this.#run = undefined;
    this.#parts = [];
    this.body.replaceChildren();
    for (const part of [this.mark, this.headline, this.ticking]) say(part, "");
    say(this.title, "This run is not here, or you may not see it.");
  }

  #context() {
    return Object.assign(this.context, this.#app.present());
  }

  #change(run) {
    const before = this.#run;
    this.#run = run;
    if (before === undefined) {
      this.details.open = isActive(run);
    } else if (isActive(before) && !isActive(run)) {
      const focused = this.body.contains(document.activeElement);
      this.details.open = false;
      if (focused) this.head.focus();
    }
  }

  // The document keeps the latest steps only; whoever opens an ended run sees them all.
  async #toggled() {
    const run = this.#run;
    if (!this.details.open || !run || isActive(run) || this.#steps) return;
    if (Object.keys(run.steps ?? {}).length >= run.step_count) return;
    this.#steps = {};
    try {
      const steps = await this.#app.api.all(`v1/runs/${run.id}/steps`);
      this.#steps = Object.fromEntries(steps.map((step) => [step.id, step]));
      this.update();
    } catch {
      this.#steps = undefined; // opening it again tries again
    }
  }

  async #cancel() {
    if (this.#asking) return;
    this.#asking = true;
    this.cancel.disabled = true;
    const failed = await this.#app.cancel(this.#id);
    this.#asking = false;
    this.cancel.disabled = false;
    say(this.failure, failed ?? "");
    show(this.failure, failed);
    this.update();
    if (!failed && document.activeElement === document.body) this.head.focus();
  }
}

function ended(agent, run) {
  const words = { completed: "completed", failed: "failed", cancelled: "was cancelled" }[run.state] ?? run.state;
  const facts = [`${agent} ${words}${run.duration_ms === undefined ? "" : ` in ${duration(run.duration_ms)}`}`];
  if (run.step_count > 0) facts.push(count(run.step_count, "step"));
  const cost = run.cost ?? run.metrics?.cost;
  if (cost) facts.push(money(cost, run.model));
  return facts.join(" · ");
}

function outcome(run) {
  if (run.summary) return firstLine(run.summary, 140);
  if (run.state_reason) return reason(run.state_reason);
  return run.headline ?? "";
}
