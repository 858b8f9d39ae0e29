import assert from "node:assert/strict";
import { test } from "node:test";

import { Runs } from "../../livebox/web/runs.js";

const ID = "r";
const patch = (base, version, value) => ({
  run_id: ID, base_version: base, version, ops: [{ op: "add", path: "/headline", value }],
});

function stand(server = { id: ID, version: 1 }) {
  const fetches = [];
  const later = [];
  const told = [];
  const runs = new Runs((id) => new Promise((resolve, reject) => fetches.push({ id, resolve, reject })),
    (id) => told.push(id), (run) => later.push(run));
  const answer = async (run = server) => {
    fetches.shift().resolve(run);
    await new Promise(setImmediate);
  };
  return { runs, fetches, later, told, answer };
}

test("a patch for the version that is held is applied; an old one changes nothing", () => {
  const { runs, fetches } = stand();
  runs.put({ id: ID, version: 4 });
  runs.patch(patch(4, 7, "new"));
  assert.deepEqual(runs.get(ID), { id: ID, version: 7, headline: "new" });
  runs.patch(patch(4, 5, "old"));
  runs.put({ id: ID, version: 6 });
  assert.equal(runs.get(ID).headline, "new");
  assert.equal(fetches.length, 0);
});

test("a gap is fetched once, and what came meanwhile is applied to what was fetched", async () => {
  const { runs, fetches, answer } = stand();
  runs.put({ id: ID, version: 1 });
  runs.patch(patch(2, 3, "three"));
  runs.patch(patch(3, 4, "four"));
  runs.patch(patch(4, 5, "five"));
  assert.equal(fetches.length, 1);
  await answer({ id: ID, version: 4, headline: "four" });
  assert.deepEqual(runs.get(ID), { id: ID, version: 5, headline: "five" });
  assert.equal(fetches.length, 0);
});

test("a fetch that brought too little is repeated", async () => {
  const { runs, fetches, later, answer } = stand();
  runs.put({ id: ID, version: 1 });
  runs.patch(patch(6, 7, "seven"));
  await answer({ id: ID, version: 5 });
  assert.equal(runs.get(ID).version, 5);
  later.shift()();
  assert.equal(fetches.length, 1);
  await answer({ id: ID, version: 8, headline: "eight" });
  assert.deepEqual([runs.get(ID).headline, fetches.length, later.length], ["eight", 0, 0]);
});

test("a patch that does not fit its base is a gap too", async () => {
  const { runs, fetches, answer } = stand();
  runs.put({ id: ID, version: 1 });
  runs.patch({ run_id: ID, base_version: 1, version: 2, ops: [{ op: "remove", path: "/headline" }] });
  assert.equal(runs.get(ID).version, 1);
  assert.equal(fetches.length, 1);
  await answer({ id: ID, version: 2 });
  assert.equal(runs.get(ID).version, 2);
});

test("an event asks for the document only when no frame brings it soon", async () => {
  const { runs, fetches, later, answer } = stand();
  runs.hint(ID, 3);
  assert.equal(later.length, 0, "an unknown run is nobody's concern");
  runs.put({ id: ID, version: 1 });
  runs.hint(ID, 2);
  runs.hint(ID, 3);
  runs.patch(patch(1, 2, "two"));
  later.shift()();
  assert.equal(fetches.length, 0);
  later.shift()();
  assert.equal(fetches.length, 1);
  await answer({ id: ID, version: 3 });
  assert.equal(runs.get(ID).version, 3);
});

test("a run that may not be seen is gone, with what was known of it", async () => {
  const { runs, told, answer } = stand();
  runs.put({ id: ID, version: 1 });
  runs.fetch(ID);
  await answer(null);
  assert.equal(runs.get(ID), undefined);
  assert.ok(runs.isGone(ID));
  assert.equal(told.length, 2);
});

test("no answer leaves what is known, and the next document heals", async () => {
  const { runs, fetches } = stand();
  runs.put({ id: ID, version: 1 });
  runs.patch(patch(2, 3, "three"));
  fetches.shift().reject(new Error("unreachable"));
  await new Promise(setImmediate);
  assert.equal(runs.get(ID).version, 1);
  runs.put({ id: ID, version: 9 });
  assert.equal(runs.get(ID).version, 9);
});

test("what is known can be looked through", async () => {
  const { runs, answer } = stand();
  runs.put({ id: ID, version: 1 });
  runs.want("other");
  assert.deepEqual(runs.known(), [{ id: ID, version: 1 }]);
  await answer({ id: "other", version: 2 });
  assert.equal(runs.known().length, 2);
  runs.clear();
  assert.deepEqual(runs.known(), []);
});
