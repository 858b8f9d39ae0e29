import assert from "node:assert/strict";
import { test } from "node:test";

import { Misfit, apply, keysOf, ordered } from "../../livebox/web/document.js";

const add = (path, value) => ({ op: "add", path, value });

test("operations change a copy, in order", () => {
  const before = { version: 1, plan: { items: { a: { title: "A" } } }, headline: "x" };
  const kept = structuredClone(before);
  const after = apply(before, [
    add("/plan/items/b", { title: "B" }),
    { op: "replace", path: "/plan/items/a/title", value: "AA" },
    { op: "remove", path: "/headline" },
  ]);
  assert.deepEqual(after, { version: 1, plan: { items: { a: { title: "AA" }, b: { title: "B" } } } });
  assert.deepEqual(before, kept);
});

test("containers come with the first member below them, and only then", () => {
  assert.deepEqual(apply({}, [add("/jobs/a", { name: "A" })]), { jobs: { a: { name: "A" } } });
  assert.throws(() => apply({}, [{ op: "replace", path: "/jobs/a", value: 1 }]), Misfit);
});

test("what does not fit is no guess", () => {
  for (const op of [
    { op: "remove", path: "/nothing" },
    { op: "replace", path: "/nothing", value: 1 },
    add("/headline/deeper", 1),
    { op: "move", from: "/a", path: "/b" },
    add("", 1),
    add("headline", 1),
  ]) assert.throws(() => apply({ headline: "x" }, [op]), Misfit, JSON.stringify(op));
});

test("keys are names, whatever they look like", () => {
  assert.deepEqual(keysOf("/a~1b/m~0n/"), ["a/b", "m~n", ""]);
  const after = apply({ jobs: {} }, [add("/jobs/constructor", 1), add("/jobs/0", 2), add("/jobs/-", 3), add("/jobs/__proto__", 4)]);
  assert.deepEqual(Object.keys(after.jobs).sort(), ["-", "0", "__proto__", "constructor"]);
  assert.equal(Object.getPrototypeOf(after.jobs), Object.prototype);
  assert.equal({}.polluted, undefined);
  assert.throws(() => apply({}, [add("/toString/x", 1), { op: "remove", path: "/constructor" }]), Misfit);
});

test("members are shown by ordinal, then by key", () => {
  const keys = ordered({ z: { ordinal: 1 }, b: { ordinal: 2 }, a: { ordinal: 2 }, c: {} }).map(([key]) => key);
  assert.deepEqual(keys, ["c", "z", "a", "b"]);
  assert.deepEqual(ordered(undefined), []);
});
