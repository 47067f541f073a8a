// What the tests share: the server that the caller started, servers that misbehave, and a watch on what is printed.
import { createServer } from "node:http";
import { after, before } from "node:test";
import assert from "node:assert/strict";

export const SERVER = { baseUrl: process.env.THREEGATE_URL, token: process.env.THREEGATE_TOKEN, timeoutMs: 20_000 };
export const LIMITED = { ...SERVER, baseUrl: process.env.THREEGATE_LIMITED_URL };
export const SECRET = "canary-value-of-an-argument";
export const EVENT = {
  tool_name: "search_docs",
  tool_category: "public_read",
  authorization_state: "none",
  evidence_refs: [],
  risk_domain: "research",
  proposed_arguments: { query: SECRET },
  recommended_route: "accept",
};

/** A server whose answers `handle` writes; `use` gets the options to reach it. */
export async function withServer(handle, use) {
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => handle(request, response));
    request.on("error", () => {});
    response.on("error", () => {});
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await use({ baseUrl: `http://127.0.0.1:${server.address().port}`, token: "token-of-a-test", timeoutMs: 5_000 });
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

/** Nothing that a test file does prints through the console, whatever fails. */
export function watchTheConsole() {
  const printed = [];
  const own = {};
  before(() => {
    for (const name of ["log", "info", "warn", "error", "debug", "trace"]) {
      own[name] = console[name];
      console[name] = (...values) => printed.push(values);
    }
  });
  after(() => {
    Object.assign(console, own);
    assert.deepEqual(printed, []);
  });
}
