// The parts of a live box that show one member of the run document each: { element, update(run, context) }.

import { ordered } from "./document.js";
import { h, keyed, say, show, write } from "./dom.js";
import { count, duration, firstLine, grouped, money, timeOfDay } from "./format.js";
import { question } from "./question.js";
import { PLAN_STATES, STEP_STATES, UNIT_STATES, WAITING_ON, cancelReceipt, reason } from "./words.js";
import { isActive } from "./store.js";

const RECENT_STEPS = 6; // while the run is active; all of them afterwards

/** Every part, in the order in which they stand in the box. */
export function parts() {
  return [notices(), question(), outcome(), context(), tool(), text(), plan(),
    units("subagents", "Sub-agents"), units("workflows", "Workflows"), units("jobs", "Background jobs"),
    steps(), followups(), refs(), facts(), receipt()];
}

// What is out of the ordinary: a lost connection (before the first one nothing is lost), a stall, a retry, something that is waited for.
function notices() {
  const away = h("p", { className: "notice away", hidden: true });
  const stalled = h("p", { className: "notice", hidden: true });
  const retry = h("p", { className: "notice", hidden: true });
  const waiting = h("p", { className: "quiet waiting", hidden: true });
  return {
    element: h("div", { className: "notices" }, away, stalled, retry, waiting),
    update(run, context) {
      const active = isActive(run);
      show(away, active && !context.live && context.begun);
      if (!context.live) say(away, `Connection lost. Last known at ${timeOfDay(context.knownAt)}.`);
      show(stalled, active && run.stalled_since);
      if (run.stalled_since) say(stalled, `The agent is there, but nothing has moved since ${timeOfDay(run.stalled_since)}.`);
      const last = active && run.metrics?.last_api_retry;
      show(retry, last);
      if (last) say(retry, retryText(last, context.clock));
      show(waiting, active && run.waiting_on);
      say(waiting, run.waiting_on ? WAITING_ON[run.waiting_on] ?? run.waiting_on : "");
    },
  };
}

function retryText(retry, clock) {
  const which = retry.max_attempts ? `${retry.attempt} of ${retry.max_attempts}` : `${retry.attempt}`;
  const left = retry.next_at ? Date.parse(retry.next_at) - clock.now() : 0;
  const next = left > 0 ? ` Next try in ${duration(left, { ticking: true })}.` : "";
  return `The provider was asked again (try ${which}): ${retry.reason}.${next}`;
}

// What came of it: the summary, and why a run did not complete.
function outcome() {
  const why = h("p", { className: "why" });
  const summary = h("p", { className: "summary plain" });
  const element = h("div", { className: "outcome", hidden: true }, why, summary);
  return {
    element,
    update(run) {
      show(element, !isActive(run) && (run.summary || run.state_reason));
      show(why, run.state_reason);
      if (run.state_reason) say(why, `Reason: ${reason(run.state_reason)}.`);
      show(summary, run.summary);
      say(summary, run.summary ?? "");
    },
  };
}

function text() {
  const body = h("div", { className: "text" });
  const element = h("section", { "aria-label": "Last text", hidden: true }, h("h2", {}, "Last text"), body);
  return {
    element,
    update(run) {
      show(element, run.text?.content);
      if (run.text?.content) write(body, run.text.content, run.text.format === "markdown");
    },
  };
}

function tool() {
  const title = h("p", { className: "tool-title" });
  const bar = h("progress", { max: 1, value: 0, "aria-label": "Progress of the tool" });
  const percent = h("span", { className: "percent" });
  const progress = h("p", { className: "progress" }, bar, " ", percent);
  const detail = h("p", { className: "quiet plain tool-detail" });
  const element = h("section", { className: "tool", "aria-label": "Tool in use", hidden: true }, title, progress, detail);
  return {
    element,
    update(run, context) {
      const now = isActive(run) ? run.tool : undefined;
      show(element, now);
      if (!now) return;
      const since = now.started_at ? ` · ${duration(context.clock.since(now.started_at), { ticking: true })}` : "";
      say(title, `${now.title || now.name}${now.title ? ` (${now.name})` : ""}${since}`);
      show(progress, now.progress !== undefined);
      bar.value = now.progress ?? 0;
      say(percent, `${Math.round((now.progress ?? 0) * 100)} %`);
      show(detail, now.detail);
      say(detail, now.detail ?? "");
    },
  };
}

function context() {
  const meter = h("meter", { min: 0, max: 100, high: 80, "aria-label": "Context used" });
  const percent = h("span", { className: "percent" });
  const element = h("p", { className: "context", hidden: true }, h("span", { "aria-hidden": "true" }, "Context "), meter, " ", percent);
  return {
    element,
    update(run) {
      const used = run.metrics?.context_used_percent;
      show(element, used !== undefined);
      if (used === undefined) return;
      meter.value = used;
      say(percent, `${Math.round(used)} %`);
    },
  };
}

function list(title, className, tag = "ul") {
  const items = h(tag, { className });
  const heading = h("h2", {}, title);
  return { items, heading, element: h("section", { "aria-label": title, hidden: true }, heading, items) };
}

function plan() {
  const { items, heading, element } = list("Plan", "plan", "ol");
  return {
    element,
    update(run) {
      const all = ordered(run.plan?.items);
      show(element, all.length);
      say(heading, `Plan: ${all.filter(([, item]) => item.status === "done").length} of ${all.length} done`);
      keyed(items, all, () => h("li", {}, h("span", { className: "title" }), " ", h("span", { className: "chip" })),
        (row, item) => {
          row.dataset.state = item.status;
          say(row.firstElementChild, item.title);
          say(row.lastElementChild, PLAN_STATES[item.status] ?? item.status);
        });
    },
  };
}

function units(member, title) {
  const { items, element } = list(title, "units");
  return {
    element,
    update(run, context) {
      const all = ordered(run[member], "ordinal");
      show(element, all.length);
      keyed(items, all, unit, (row, value) => row.refresh(value, context));
    },
  };
}

function unit() {
  const name = h("span", { className: "title" });
  const state = h("span", { className: "chip" });
  const bar = h("progress", { max: 1, value: 0, hidden: true });
  const more = h("span", { className: "quiet more" });
  const row = h("li", {}, name, " ", state, " ", bar, " ", more);
  row.refresh = (value, { clock }) => {
    row.dataset.state = value.state;
    say(name, value.name);
    say(state, UNIT_STATES[value.state] ?? value.state);
    show(bar, value.progress !== undefined && value.state !== "terminal");
    bar.value = value.progress ?? 0;
    bar.setAttribute("aria-label", `Progress of ${value.name}`);
    const facts = [value.headline];
    if (value.tokens_used !== undefined) facts.push(count(value.tokens_used, "token"));
    if (value.started_at && value.state !== "terminal") facts.push(duration(clock.since(value.started_at), { ticking: true }));
    say(more, facts.filter(Boolean).join(" · "));
  };
  return row;
}

function steps() {
  const items = h("ol", { className: "steps" });
  const heading = h("h2", {}, "Steps");
  const details = h("details", { open: true }, h("summary", {}, heading), items);
  const element = h("section", { "aria-label": "Steps", hidden: true }, details);
  let folded = false;
  return {
    element,
    update(run, context) {
      // A plan says how far the work is: the steps are there for who wants them. What somebody opens stays open.
      const fold = isActive(run) && ordered(run.plan?.items).length > 0;
      if (fold !== folded) details.open = !fold;
      folded = fold;
      const all = ordered({ ...run.steps, ...context.moreSteps(run) });
      const shown = isActive(run) ? all.slice(-RECENT_STEPS) : all;
      show(element, all.length);
      say(heading, shown.length < run.step_count ? `Steps: the last ${shown.length} of ${grouped(run.step_count)}`
        : `Steps: ${grouped(shown.length)}`);
      keyed(items, shown, () => h("li", {}, h("span", { className: "title" }), " ", h("span", { className: "chip" }), " ",
        h("span", { className: "quiet more" })), (row, step) => {
        row.dataset.state = step.status;
        say(row.children[0], step.title || step.name);
        say(row.children[1], STEP_STATES[step.status] ?? step.status);
        say(row.children[2], step.duration_ms === undefined ? "" : duration(step.duration_ms));
      });
    },
  };
}

const FOLLOWUPS = {
  pending: "waits",
  delivered: "taken in",
  promoted: "goes on as a run of its own",
  returned: "not done",
  cancelled: "deleted",
};

function followups() {
  const { items, element } = list("Follow-ups", "followups");
  return {
    element,
    update(run, context) {
      const all = ordered(run.followups, "position");
      show(element, all.length);
      keyed(items, all, () => h("li", {}, h("span", { className: "title" }), " ", h("span", { className: "chip" })),
        (row, followup, id) => {
          const message = context.message(id);
          const who = message?.author_id ? `${context.name(message.author_id)}: ` : "";
          say(row.firstElementChild, message?.body ? `${who}${firstLine(message.body)}` : "A message");
          say(row.lastElementChild, FOLLOWUPS[followup.state] ?? followup.state);
        });
    },
  };
}

function refs() {
  const { items, element } = list("References", "refs");
  return {
    element,
    update(run) {
      const all = ordered(run.refs);
      show(element, all.length);
      keyed(items, all, () => h("li", {}), (row, ref) => {
        say(row, `${ref.label ? `${ref.label}: ` : ""}${ref.reference} (${ref.kind})`);
      });
    },
  };
}

function facts() {
  const element = h("dl", { className: "facts" });
  return {
    element,
    update(run) {
      const { metrics = {} } = run;
      const cost = run.cost ?? metrics.cost;
      const all = [
        ["Model", run.model],
        ["Cost", cost && money(cost, run.model)],
        ["Tokens in", metrics.input_tokens !== undefined && grouped(metrics.input_tokens)],
        ["Tokens out", metrics.output_tokens !== undefined && grouped(metrics.output_tokens)],
        ["Tool calls", metrics.tool_calls !== undefined && grouped(metrics.tool_calls)],
        ["Steps", run.step_count > 0 && grouped(run.step_count)],
        ["Started", run.started_at && timeOfDay(run.started_at)],
        ["Ended", run.finished_at && timeOfDay(run.finished_at)],
        ["Duration", run.duration_ms !== undefined && duration(run.duration_ms)],
      ].filter(([, value]) => value);
      keyed(element, all, (value, key) => h("div", {}, h("dt", {}, key), h("dd", {})),
        (row, value) => say(row.lastElementChild, value));
    },
  };
}

function receipt() {
  const element = h("p", { className: "notice receipt", hidden: true });
  return {
    element,
    update(run, context) {
      show(element, run.cancel);
      if (run.cancel) say(element, cancelReceipt(run.cancel, context.name(run.agent_id), context.name, timeOfDay));
    },
  };
}
