import assert from "node:assert/strict";
import { test } from "node:test";

import { Gateway } from "../../livebox/web/gateway.js";

class World {
  sockets = [];
  timers = new Map();
  clock = 0;
  number = 0;

  open = (url) => {
    const socket = { url, readyState: 1, sent: [], closed: false, send: (text) => socket.sent.push(JSON.parse(text)) };
    socket.close = () => {
      socket.closed = true;
    };
    this.sockets.push(socket);
    return socket;
  };

  later = (run, ms) => {
    this.number += 1;
    this.timers.set(this.number, { run, at: this.clock + ms });
    return this.number;
  };

  never = (timer) => this.timers.delete(timer);
  random = () => 1;

  pass(ms) {
    const end = this.clock + ms;
    for (;;) {
      const due = [...this.timers].filter(([, timer]) => timer.at <= end).sort(([, a], [, b]) => a.at - b.at)[0];
      if (!due) break;
      this.timers.delete(due[0]);
      this.clock = due[1].at;
      due[1].run();
    }
    this.clock = end;
  }

  get socket() {
    return this.sockets.at(-1);
  }
}

const READY = { type: "ready", limits: { heartbeat_interval_ms: 20_000, focus_max: 100 } };

function stand(position) {
  const world = new World();
  const states = [];
  const frames = [];
  const gateway = new Gateway("ws://x/v1/gateway", "secret", {
    position: () => position, frame: (frame) => frames.push(frame), state: (name) => states.push(name),
  }, world);
  const say = (frame) => world.socket.onmessage({ data: JSON.stringify(frame) });
  const ready = () => {
    world.socket.onopen();
    say(READY);
  };
  return { world, gateway, states, frames, say, ready };
}

test("hello comes first, with the token in it and where to go on; then what is looked at", () => {
  const { world, gateway, states, ready } = stand(42);
  gateway.focus(["t"], []);
  gateway.start();
  assert.equal(world.socket.url, "ws://x/v1/gateway");
  ready();
  assert.deepEqual(world.socket.sent, [
    { type: "hello", id: "hello", token: "secret", resume_after: 42 },
    { type: "focus", thread_ids: ["t"], run_ids: [] },
  ]);
  assert.deepEqual(states, ["connecting", "live"]);
  gateway.focus(["t"], []);
  gateway.focus(["t", "t"], []);
  assert.equal(world.socket.sent.length, 2, "the same focus is not said again");
  gateway.focus([], ["r"]);
  assert.deepEqual(world.socket.sent[2], { type: "focus", thread_ids: [], run_ids: ["r"] });
});

test("it comes back after a lost connection, later each time, and begins anew with ready", () => {
  const { world, gateway, ready } = stand();
  gateway.start();
  ready();
  const waits = [];
  for (let turn = 0; turn < 8; turn += 1) {
    const before = world.sockets.length;
    world.socket.onclose({ code: 1006 });
    let waited = 0;
    while (world.sockets.length === before) {
      world.pass(100);
      waited += 100;
    }
    waits.push(waited);
  }
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 16_000, 20_000, 20_000]);
  ready();
  world.socket.onclose({ code: 1011 });
  world.pass(500);
  assert.equal(world.socket.sent.length, 0);
  assert.equal(world.sockets.length, 10);
});

test("bye says when to come back", () => {
  const { world, gateway, say, ready } = stand();
  gateway.start();
  ready();
  say({ type: "bye", reason: "shutdown", retry_after_ms: 3000 });
  world.socket.onclose({ code: 4001 });
  world.pass(2999);
  assert.equal(world.sockets.length, 1);
  world.pass(1);
  assert.equal(world.sockets.length, 2);
});

test("what would end in the same way is not tried again", () => {
  for (const [code, state] of [[4500, "refused"], [4503, "refused"], [4513, "refused"], [1002, "refused"], [4501, "outcast"], [4040, "outcast"]]) {
    const { world, gateway, states, ready } = stand();
    gateway.start();
    ready();
    world.socket.onclose({ code });
    world.pass(3_600_000);
    assert.equal(world.sockets.length, 1, String(code));
    assert.equal(states.at(-1), state, String(code));
    gateway.wake();
    assert.equal(world.sockets.length, 1, String(code));
  }
});

test("a connection that says nothing is asked, then left", () => {
  const { world, gateway, say, ready } = stand();
  gateway.start();
  ready();
  world.pass(15_000);
  say({ type: "event", event: {} });
  world.pass(20_000);
  assert.equal(world.socket.sent.at(-1).type, "focus", "something came: no need to ask");
  world.pass(5_000);
  assert.equal(world.socket.sent.at(-1).type, "ping");
  say({ type: "pong", reply_to: "ping" });
  assert.equal(world.sockets.length, 1);
  world.pass(60_000);
  assert.ok(world.sockets[0].closed);
  assert.ok(world.sockets.length > 1);
});

test("awake again it asks at once, or comes back at once", () => {
  const { world, gateway, ready } = stand();
  gateway.start();
  ready();
  gateway.wake();
  assert.equal(world.socket.sent.at(-1).type, "ping");
  gateway.lost();
  assert.ok(world.sockets[0].closed);
  assert.equal(world.sockets.length, 1);
  gateway.wake();
  assert.equal(world.sockets.length, 2);
  assert.equal(gateway.live, false);
});

test("a server that never says ready is left", () => {
  const { world, gateway } = stand();
  gateway.start();
  world.socket.onopen();
  world.pass(11_000);
  assert.ok(world.sockets[0].closed);
  assert.equal(world.sockets.length, 2);
});

test("stopped is stopped", () => {
  const { world, gateway, states, ready } = stand();
  gateway.start();
  ready();
  gateway.stop();
  assert.ok(world.socket.closed);
  world.pass(3_600_000);
  assert.equal(world.sockets.length, 1);
  assert.equal(states.at(-1), "stopped");
});
