// A server over streamable HTTP whose every session is a process that speaks MCP over its standard streams: messages go through
// as they are, but for the names of tools, which get the prefix that the door gives them.
// node http_bridge.mjs MODULES PREFIX COMMAND ARGUMENT…   prints its URL.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";

const [modules, prefix, command, ...args] = process.argv.slice(2);
const load = createRequire(modules + "/");
const { StreamableHTTPServerTransport } = load("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
const sessions = {};

async function session() {
  const tokens = {};
  const lists = new Set();
  const process_ = new StdioClientTransport({ command, args, env: process.env });
  const http = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => void (sessions[id] = http),
  });
  http.onmessage = (message) => {
    const token = message.params?._meta?.progressToken;
    if (token !== undefined) tokens[token] = message.id;
    if (message.method === "tools/list") lists.add(message.id);
    if (message.method === "tools/call") message.params.name = prefix + message.params.name;
    void process_.send(message);
  };
  process_.onmessage = (message) => {
    const related = tokens[message.params?.progressToken];
    if (lists.has(message.id))
      for (const tool of message.result.tools)
        if (tool.name.startsWith(prefix)) tool.name = tool.name.slice(prefix.length);
    void http.send(message, related === undefined ? undefined : { relatedRequestId: related });
  };
  http.onclose = () => void process_.close();
  await process_.start();
  await http.start();
  return http;
}

const server = createServer(async (request, response) => {
  const known = sessions[request.headers["mcp-session-id"]];
  await (known ?? (await session())).handleRequest(request, response);
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
