// Socket.IO as people use it: the server counts versions, sends each patch to a room and acknowledges it.

import { createServer } from "node:http";

import { HEADLINE, load, say } from "./load.js";

const RUN = "00000000-0004-7000-8000-100000000000";

async function serve() {
  const { Server } = await import("socket.io");
  const http = createServer();
  const io = new Server(http, { transports: ["websocket"] });
  let version = 0;
  io.on("connection", (socket) => {
    socket.on("watch", (run, answer) => {
      socket.join(run);
      answer();
    });
    socket.on("patch", (patch, answer) => {
      version += 1;
      socket.to(patch.run_id).emit("updated", { ...patch, version });
      answer(version);
    });
  });
  http.listen(0, "127.0.0.1", () => say({ port: http.address().port }));
}

async function drive(port, watchers, count, window) {
  const { io } = await import("socket.io-client");
  const open = () => io(`http://127.0.0.1:${port}`, { transports: ["websocket"], forceNew: true });
  let deliveries = 0;
  for (let n = 0; n < watchers; n++) {
    const socket = open();
    socket.on("updated", () => (deliveries += 1));
    await new Promise((joined) => socket.emit("watch", RUN, joined));
  }
  const sender = open();
  let answers = 0;
  const patch = (n) => {
    const ops = [
      { op: "replace", path: "/headline", value: HEADLINE(n) },
      { op: "replace", path: "/metrics/output_tokens", value: n },
    ];
    sender.emit("patch", { run_id: RUN, base_version: n, ops }, () => (answers += 1));
  };
  await load(watchers, count, window, { patch, got: () => deliveries, acknowledged: () => answers });
}

const [what, ...numbers] = process.argv.slice(2);
await (what === "serve" ? serve() : drive(...numbers.map(Number)));
