// ShareDB with its default type json0, in memory. Its client sends one operation at a time; `preventCompose` keeps
// those that wait apart, so that each is delivered as one.

import { createServer } from "node:http";

import { HEADLINE, load, say } from "./load.js";

async function serve() {
  const [{ default: ShareDB }, { WebSocketServer }, { default: Stream }] = await Promise.all([
    import("sharedb"),
    import("ws"),
    import("@teamwork/websocket-json-stream"),
  ]);
  const backend = new ShareDB();
  const http = createServer();
  new WebSocketServer({ server: http }).on("connection", (socket) => backend.listen(new Stream(socket)));
  http.listen(0, "127.0.0.1", () => say({ port: http.address().port }));
}

async function drive(port, watchers, count, window) {
  const { default: client } = await import("sharedb/lib/client/index.js");
  const { WebSocket } = await import("ws");
  const name = `run-${process.pid}`;
  const open = async () => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}`);
    await new Promise((opened) => socket.once("open", opened));
    return new client.Connection(socket).get("runs", name);
  };
  const called = (begin) => new Promise((done, failed) => begin((error) => (error ? failed(error) : done())));
  const sender = await open();
  sender.preventCompose = true;
  await called((done) => sender.create({ headline: HEADLINE(0), metrics: { output_tokens: 0 } }, done));
  let deliveries = 0;
  for (let n = 0; n < watchers; n++) {
    const watched = await open();
    await called((done) => watched.subscribe(done));
    watched.on("op batch", (_, source) => (deliveries += source ? 0 : 1));
  }
  let answers = 0;
  const patch = (n) => {
    const op = [
      { p: ["headline"], od: sender.data.headline, oi: HEADLINE(n) },
      { p: ["metrics", "output_tokens"], na: 1 },
    ];
    sender.submitOp(op, (error) => {
      if (error) throw error;
      answers += 1;
    });
  };
  await load(watchers, count, window, { patch, got: () => deliveries, acknowledged: () => answers });
}

const [what, ...numbers] = process.argv.slice(2);
await (what === "serve" ? serve() : drive(...numbers.map(Number)));
