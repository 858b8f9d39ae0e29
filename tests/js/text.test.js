import assert from "node:assert/strict";
import { test } from "node:test";

import { Clock } from "../../livebox/web/clock.js";
import { count, duration, firstLine, money, timeOfDay } from "../../livebox/web/format.js";
import { inline, parse } from "../../livebox/web/markdown.js";
import { mentions } from "../../livebox/web/composer.js";
import { cancelReceipt, reason, trigger } from "../../livebox/web/words.js";

test("durations", () => {
  const told = [0, 800, 12_000, 185_000, 7_620_000, 360_000_000].map((ms) => duration(ms));
  assert.deepEqual(told, ["0.0 s", "0.8 s", "12 s", "3 min 05 s", "2 h 07 min", "4 d 4 h"]);
  assert.equal(duration(1900, { ticking: true }), "1 s");
});

test("money", () => {
  const amounts = [0, 4200, 1_000_000, 1_234_567, 12, 34_567, 120_000, 9999];
  const told = amounts.map((amount_micros) => money({ amount_micros, currency: "EUR" }));
  assert.deepEqual(told, ["EUR 0.00", "EUR 0.0042", "EUR 1.00", "EUR 1.23", "EUR 0.000012", "EUR 0.03", "EUR 0.12", "EUR 0.01"]);
  assert.equal(money({ amount_micros: 500_000, currency: "EUR", is_estimate: true }), "about EUR 0.50");
  const model = "folder-reader (simulated tokens and cost)";
  assert.equal(money({ amount_micros: 4200, currency: "EUR", is_estimate: true }, model), "about EUR 0.0042 (simulated)");
});

test("counts, lines and times", () => {
  assert.deepEqual([count(1, "step"), count(1200, "step")], ["1 step", "1,200 steps"]);
  assert.equal(firstLine("\n  first  \nsecond"), "first");
  assert.equal(firstLine("🙂🙂🙂", 2), "🙂…");
  const at = new Date(2026, 10, 2, 9, 30, 1);
  assert.equal(timeOfDay(at, at), "09:30:01");
  assert.equal(timeOfDay(at, new Date(2026, 10, 3)), "2 Nov 2026, 09:30:01");
});

test("the server's clock is what counts", () => {
  let device = 1_000_000;
  const clock = new Clock(() => device);
  clock.hear(new Date(5_000_050).toISOString(), 999_900); // asked 100 ms ago
  assert.equal(clock.now(), 5_000_100);
  device += 1000;
  assert.equal(clock.since(new Date(5_000_000).toISOString()), 1100);
  assert.equal(clock.since(new Date(9_000_000).toISOString()), 0);
  clock.hearDate(new Date(5_001_000).toUTCString());
  assert.equal(clock.now(), 5_001_100, "whole seconds do not correct what is known better");
  device += 3_600_000; // the device's clock was set, or it slept
  clock.hearDate(new Date(5_002_000).toUTCString());
  assert.equal(clock.now(), 5_002_500);
  clock.hear("nonsense", 0);
  clock.hearDate(undefined);
  assert.equal(clock.now(), 5_002_500);
});

test("a part of Markdown; the rest stays as it was written", () => {
  assert.deepEqual(parse("# A\n\ntext\nmore\n\n- one\n- **two**\n\n1. x\n\n> q\n\n```\n<b>\n```").map((block) => block.tag),
    ["p", "p", "ul", "ol", "blockquote", "pre"]);
  assert.deepEqual(inline("a `b` **c** *d* [e](https://example.com/x) <i>f</i>"), [
    "a ", { tag: "code", children: ["b"] }, " ", { tag: "strong", children: ["c"] }, " ", { tag: "em", children: ["d"] }, " ",
    { tag: "a", href: "https://example.com/x", children: ["e"] }, " <i>f</i>",
  ]);
  for (const text of ["[x](javascript:alert(1))", "[x](data:text/html,x)", "[x](/v1/runs)", "* *", "2 * 3 * 4", "** **"]) {
    assert.deepEqual(inline(text), [text]);
  }
  const long = "*".repeat(20_000) + "`".repeat(20_000) + "[".repeat(20_000);
  assert.equal(parse(long).length, 1);
  assert.deepEqual(parse("```\nnever closed"), [{ tag: "pre", text: "never closed" }]);
});

test("who is mentioned", () => {
  const known = [{ id: "1", handle: "lotse", display_name: "Lotse" }, { id: "2", handle: "a.b", display_name: "A" }];
  assert.deepEqual(mentions("@Lotse, and @a.b. me@lotse.example", known), { ids: ["1", "2"], names: ["Lotse", "A"], unknown: [] });
  const id = "01933b7e-0000-7000-8000-000000000011";
  assert.deepEqual(mentions(`@nobody @${id} @lotse @lotse`, known), { ids: [id, "1"], names: [id, "Lotse"], unknown: ["@nobody"] });
});

test("what became of a message and of a cancel", () => {
  assert.equal(trigger({ trigger_state: "failed", trigger_state_reason: "no_trigger_right" }), "Not done: you may not make agents work here");
  assert.equal(reason("some_new_code"), "some new code");
  const tell = (more) => cancelReceipt({ requested_at: "T", requested_by: "p", ...more }, "Lotse", () => "Alex", (at) => at);
  assert.equal(tell({ deadline: "D" }), "Alex asked to cancel at T. Lotse has not answered yet. It is ended at D at the latest.");
  assert.equal(tell({ acknowledged_at: "A", deadline: "D" }), "Alex asked to cancel at T. Lotse has heard it and is stopping.");
  assert.match(tell({ outcome: "lost_to_completed" }), /completed before the cancel reached it/);
  assert.match(tell({ outcome: "forced" }), /did not answer in time/);
});
