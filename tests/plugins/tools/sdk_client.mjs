// The official TypeScript SDK as a client: lists and calls what `node sdk_client.mjs JSON` names, prints what it got as JSON.
// {"modules": FOLDER, "servers": {NAME: {"command", "args", "env", "cwd"}}, "calls": [[NAME, TOOL, ARGUMENTS], …],
//  "cancelled": [NAME, TOOL, ARGUMENTS, a part of a progress message]}
import { createRequire } from "node:module";

const asked = JSON.parse(process.argv[2]);
const load = createRequire(asked.modules + "/");
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");

const clients = {};
const listed = {};
for (const [name, server] of Object.entries(asked.servers)) {
  clients[name] = new Client({ name: "threegate", version: "0" });
  await clients[name].connect(new StdioClientTransport(server));
  listed[name] = (await clients[name].listTools()).tools;
}
const answers = await Promise.all(
  asked.calls.map(([name, tool, args]) =>
    clients[name].callTool({ name: tool, arguments: args }, undefined, { timeout: 120000 }).catch((error) => ({
      thrown: error.message,
    })),
  ),
);
const progress = [];
let cancelled = null;
if (asked.cancelled) {
  const [name, tool, args, part] = asked.cancelled;
  const stop = new AbortController();
  const onprogress = (said) => {
    progress.push(said);
    if ((said.message ?? "").includes(part)) stop.abort("enough");
  };
  const options = { onprogress, signal: stop.signal, timeout: 120000, resetTimeoutOnProgress: true };
  cancelled = await clients[name].callTool({ name: tool, arguments: args }, undefined, options).then(
    () => "answered",
    (error) => String(error),
  );
}
console.log(JSON.stringify({ listed, answers, progress, cancelled }));
for (const client of Object.values(clients)) await client.close();
