import assert from "node:assert/strict";
import { test } from "node:test";

import { Store } from "../../livebox/web/store.js";

const channel = (more = {}) => ({ id: "c", kind: "channel", name: "General", main_thread_id: "m", version: 1, level: "write", ...more });
const thread = (more = {}) => ({ id: "t", channel_id: "c", is_main: false, title: "", version: 1, ...more });
const message = (more = {}) => ({ id: "a", thread_id: "t", channel_id: "c", kind: "text", body: "x", version: 1, thread_seq: 1, ...more });
const run = (more = {}) => ({ id: "r", thread_id: "t", channel_id: "c", state: "running", version: 2, queued_at: "1", ...more });
let seq = 100;
const event = (type, payload) => ({ seq: (seq += 1), type, resource: { kind: type.split(".")[0] }, payload });

function loaded(more = {}) {
  const store = new Store();
  store.load({ seq: 100, channels: [channel()], threads: [thread()], messages: [], active_runs: [], ...more }, []);
  return store;
}

test("an event that is in the snapshot already changes nothing", () => {
  const store = loaded();
  store.apply({ ...event("thread.deleted", { thread_id: "t" }), seq: 100 });
  assert.ok(store.threads.has("t"));
  store.apply(event("thread.deleted", { thread_id: "t" }));
  assert.ok(!store.threads.has("t"));
});

test("a message never goes back, and a cut body does not replace the whole one", () => {
  const store = loaded();
  store.putPage("t", { items: [message({ version: 3, body: "whole" })] });
  store.apply(event("message.updated", { message: message({ version: 2, body: "old" }) }));
  assert.equal(store.messages.get("a").body, "whole");
  assert.deepEqual(store.apply(event("message.updated", { message: message({ version: 3, body: "who", truncated: true }) })), { message: "a" });
  assert.equal(store.messages.get("a").body, "whole");
  store.apply(event("message.updated", { message: message({ version: 4, body: "who", truncated: true }) }));
  assert.equal(store.messages.get("a").body, "who");
});

test("a thread shows what was read and what came after it, and nothing with a hole before it", () => {
  const store = loaded({ messages: [message({ id: "old", thread_seq: 1 })] });
  assert.deepEqual(store.thread("t"), []);
  store.putPage("t", { items: [message({ id: "b", thread_seq: 5 }), message({ id: "a", thread_seq: 4 })], next_cursor: "more" });
  store.apply(event("message.created", { message: message({ id: "c", thread_seq: 6 }) }));
  assert.deepEqual(store.thread("t").map((each) => each.id), ["a", "b", "c"]);
  store.putPage("t", { items: [message({ id: "x", thread_seq: 2 })] }, false);
  assert.deepEqual(store.thread("t").map((each) => each.id), ["old", "x", "a", "b", "c"]);
});

test("active runs follow the events, and an old event does not bring back what has ended", () => {
  const store = loaded();
  store.ready({ principal: { id: "me", version: 1 }, seq: seq + 2, active_runs: [] });
  store.apply(event("run.state_changed", { run: run({ state: "queued", version: 1 }) }));
  assert.equal(store.active.size, 0, "it was over when the session began");
  store.apply(event("run.state_changed", { run: run({ state: "completed", version: 3 }) }));
  store.apply(event("run.state_changed", { run: run({ id: "s", version: 1 }) }));
  assert.deepEqual([...store.active.keys()], ["s"]);
  store.apply(event("run.changed", { run: run({ id: "s", version: 4, stalled_since: "x" }) }));
  store.putSummary(run({ id: "s", version: 3 }));
  assert.equal(store.active.get("s").stalled_since, "x");
  store.apply(event("run.state_changed", { run: run({ id: "s", state: "failed", version: 5 }) }));
  assert.equal(store.active.size, 0);
});

test("one's own level survives a change of the channel, which does not tell it", () => {
  const store = loaded();
  const told = channel({ version: 2, name: "Renamed" });
  delete told.level;
  assert.deepEqual(store.apply(event("channel.updated", { channel: told })), {});
  assert.equal(store.channels.get("c").name, "Renamed");
  assert.ok(store.may("c", "write") && !store.may("c", "trigger") && !store.may("nowhere", "read"));
});

test("what changes the rights asks for a new snapshot", () => {
  const store = loaded();
  for (const type of ["access.changed", "channel.created"]) {
    assert.deepEqual(store.apply(event(type, { channel: channel({ id: "d" }) })), { snapshot: true });
  }
  assert.deepEqual(store.apply(event("thread.moved", { thread_id: "n", thread: thread({ id: "n" }) })), { snapshot: true });
});

test("a thread that moved out of sight takes everything of it along", () => {
  const store = loaded({ messages: [message()], active_runs: [run()] });
  store.apply(event("thread.moved", { thread_id: "t" }));
  assert.deepEqual([store.threads.size, store.messages.size, store.active.size], [0, 0, 0]);
});

test("a new snapshot leaves the thread that is open as it is until it was read again", () => {
  const store = loaded();
  store.putPage("t", { items: [message({ id: "b", thread_seq: 5 }), message({ id: "a", thread_seq: 4 })], next_cursor: "more" });
  store.putPage("u", { items: [message({ id: "z", thread_id: "u" })] });
  const snapshot = { seq: 200, channels: [channel()], threads: [thread()], messages: [], active_runs: [] };
  store.load(snapshot, [], "t");
  assert.deepEqual(store.thread("t").map((each) => each.id), ["a", "b"]);
  assert.deepEqual(store.thread("u"), []);
  store.apply({ ...event("message.created", { message: message({ id: "d", thread_seq: 9 }) }), seq: 201 });
  store.putPage("t", { items: [message({ id: "c", thread_seq: 8 }), message({ id: "b", thread_seq: 5, version: 2 })], next_cursor: "m" });
  assert.deepEqual(store.thread("t").map((each) => each.id), ["b", "c", "d"]);
  assert.ok(!store.messages.has("a"), "what may have changed behind a hole is forgotten");
  store.load({ ...snapshot, threads: [] }, [], "t");
  assert.deepEqual([store.messages.size, store.pages.size], [0, 0]);
});
