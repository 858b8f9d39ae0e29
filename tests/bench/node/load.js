// The load for a peer: patches, up to a window ahead of what all watchers have got.

import { createInterface } from "node:readline";

const WARM_UP = 0.2;

export const HEADLINE = (n) => `Reading page ${n} of the folder and noting what changed`;

/** `patch(n)` sends the n-th patch; `got()` says how many deliveries there were, `acknowledged()` how many answers. */
export async function load(watchers, count, window, { patch, got, acknowledged }) {
  const warm = Math.floor(count * WARM_UP);
  const done = () => Math.min(acknowledged(), Math.floor(got() / watchers));
  const send = async (from, to) => {
    let sent = from;
    while (done() < to) {
      for (; sent < to && sent < done() + window; sent++) patch(sent);
      await new Promise(setImmediate);
    }
  };
  await send(0, warm);
  say({ warm });
  const lines = createInterface({ input: process.stdin });
  await new Promise((go) => lines.once("line", go));
  const before = got();
  const begun = performance.now();
  await send(warm, count);
  say({ count: count - warm, deliveries: got() - before, seconds: (performance.now() - begun) / 1000 });
  await new Promise((end) => lines.once("close", end));
  process.exit(0);
}

export function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}
