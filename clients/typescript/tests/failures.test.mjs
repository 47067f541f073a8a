// Everything that can go wrong is a well-formed no.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as client from "../dist/index.js";
import { AGENT_ACTION_RESULT, CONTRACT_DECISION, PROPOSAL_VERDICT } from "../dist/generated/schemas.js";
import { problemsOf } from "../dist/schema.js";
import { EVENT, LIMITED, SECRET, SERVER, watchTheConsole, withServer } from "./support.mjs";

watchTheConsole();

const SURFACES = [
  ["pre-tool-check", (options, event = EVENT) => client.checkToolPrecheck(event, options), client.shouldExecuteTool, AGENT_ACTION_RESULT, (no) => no.hard_blockers[0]],
  ["proposals/validate", (options, value = { tool: "file.list", args: { path: SECRET } }) => client.checkProposal(value, options), client.mayBecomeDraft, PROPOSAL_VERDICT, (no) => no.errors[0].code],
  ["contracts/decide", (options, value = { tool: "t", arguments: { query: SECRET } }) => client.decideCall(value, options), client.shouldExecuteCall, CONTRACT_DECISION, (no) => no.reasons[0].code],
];

/** That every surface says no, for this reason, in a well-formed answer that repeats nothing. */
async function saysNo(options, code, value) {
  for (const [path, ask, rule, schema, codeOf] of SURFACES) {
    const answer = await ask(options, value);
    assert.equal(rule(answer), false, path);
    assert.deepEqual(problemsOf(schema, answer), [], path);
    assert.equal(codeOf(answer), code, path);
    const shown = JSON.stringify(answer);
    for (const hidden of [SECRET, options?.token].filter(Boolean)) assert.ok(!shown.includes(hidden), path);
  }
}

/** The yes of each surface, as a server would write it. */
async function yes() {
  const envelope = await client.checkToolPrecheck(EVENT, SERVER);
  assert.ok(client.shouldExecuteTool(envelope));
  return {
    "pre-tool-check": envelope,
    "proposals/validate": { verdict: "auto", risk: "low", tool: "file.list", errors: [], reasons: [], becomes: "monty draft" },
    "contracts/decide": { verdict: "allow", reasons: [] },
  };
}

const json = (response, status, value, headers = {}) => {
  response.writeHead(status, { "Content-Type": "application/json", ...headers });
  response.end(typeof value === "string" || value instanceof Uint8Array ? value : JSON.stringify(value));
};

describe("no answer", () => {
  test("a dead server", async () => {
    let gone;
    await withServer(() => {}, async (options) => { gone = options; });
    await saysNo(gone, "gate_unreachable");
    await saysNo({ ...gone, baseUrl: "http://no.such.host.invalid" }, "gate_unreachable");
  });

  test("a connection that is cut", async () => {
    await withServer((request) => request.socket.destroy(), (options) => saysNo(options, "gate_unreachable"));
    const half = (_, response) => {
      response.writeHead(200, { "Content-Type": "application/json", "Content-Length": "1000" });
      response.write('{"verdict": "allow", ');
      setTimeout(() => response.destroy(), 20);
    };
    await withServer(half, (options) => saysNo(options, "gate_answer_malformed"));
  });

  test("a slow server, before and within its answer", async () => {
    await withServer(() => {}, (options) => saysNo({ ...options, timeoutMs: 100 }, "gate_too_late"));
    const drips = (_, response) => {
      response.writeHead(200, { "Content-Type": "application/json" });
      const timer = setInterval(() => response.write(" "), 20);
      response.on("close", () => clearInterval(timer));
    };
    const begun = Date.now();
    await withServer(drips, (options) => saysNo({ ...options, timeoutMs: 200 }, "gate_too_late"));
    assert.ok(Date.now() - begun < 3_000);
  });

  test("a fetch that never settles, or throws, or gives nonsense", async () => {
    const options = { baseUrl: "http://127.0.0.1:1", timeoutMs: 50 };
    await saysNo({ ...options, fetch: () => new Promise(() => {}) }, "gate_too_late");
    await saysNo({ ...options, fetch: () => { throw new Error(SECRET); } }, "gate_unreachable");
    await saysNo({ ...options, fetch: async () => undefined }, "gate_unreachable");
    await saysNo({ ...options, fetch: async () => ({ status: 200 }) }, "gate_answer_malformed");
    await saysNo({ ...options, fetch: async () => new Response(null, { headers: { "Content-Type": "application/json" } }) }, "gate_answer_malformed");
  });

  test("an aborted signal", async () => {
    await saysNo({ ...SERVER, signal: AbortSignal.abort(SECRET) }, "call_aborted");
    await withServer(() => {}, async (options) => {
      for (const [, ask] of SURFACES) {
        const controller = new AbortController();
        setTimeout(() => controller.abort(SECRET), 30);
        assert.match(JSON.stringify(await ask({ ...options, signal: controller.signal })), /call_aborted/);
      }
    });
  });

  test("options that are wrong", async () => {
    for (const options of [
      undefined, null, {}, { baseUrl: "" }, { baseUrl: "127.0.0.1:8766" }, { baseUrl: "file:///etc/passwd" },
      { baseUrl: "javascript:0" }, { ...SERVER, token: "a\nb" }, { ...SERVER, timeoutMs: 0 }, { ...SERVER, timeoutMs: NaN },
      { ...SERVER, timeoutMs: Infinity }, { ...SERVER, timeoutMs: "soon" }, { ...SERVER, signal: {} },
    ]) {
      await saysNo(options, "client_misconfigured");
    }
    await saysNo({ baseUrl: "http://user:pass@127.0.0.1:9" }, "gate_unreachable");
  });
});

describe("what is no JSON is not sent", () => {
  const cyclic = {};
  cyclic.self = cyclic;
  const hostile = new Proxy({}, { ownKeys() { throw new Error(SECRET); } });
  const values = {
    undefined: undefined, function: () => 1, symbol: Symbol("x"), bigint: 1n, NaN: NaN, Infinity: -Infinity, cyclic,
    Date: new Date(), Map: new Map([[1, 2]]), class: new (class Order {})(), "toJSON()": { toJSON: () => ({}) },
    hole: [1, , 3], hostile, deep: JSON.parse("[".repeat(9_000) + "]".repeat(9_000)), typed: new Uint8Array(2), String: new String("x"),
  };
  for (const [name, value] of Object.entries(values)) {
    test(name, async () => {
      let sent = 0;
      const options = { ...SERVER, fetch: async () => { sent += 1; throw new Error(); } };
      const arguments_ = name === "undefined" ? [undefined] : { x: value };
      const event = { ...EVENT, proposed_arguments: arguments_ };
      const envelope = await client.checkToolPrecheck(event, options);
      assert.equal(client.shouldExecuteTool(envelope), false);
      if (name === "deep") return; // JSON it is; the server counts the levels
      assert.deepEqual([envelope.hard_blockers, sent], [["not_json"], 0]);
      assert.deepEqual(client.validateEvent(event).map((problem) => problem.path), [""]);
    });
  }

  test("what is too large", async () => {
    let sent = 0;
    const options = { ...SERVER, fetch: async () => { sent += 1; throw new Error(); } };
    await saysNo(options, "too_large", { tool: "é".repeat(33_000), args: {} });
    assert.equal(sent, 0);
  });

  test("too deep for the server", async () => {
    const event = { ...EVENT, proposed_arguments: { x: JSON.parse("[".repeat(80) + "]".repeat(80)) } };
    assert.equal((await client.checkToolPrecheck(event, SERVER)).hard_blockers[0], "gate_wrong_status");
  });
});

describe("what a real server refuses", () => {
  test("a wrong token, and none", async () => {
    await saysNo({ ...SERVER, token: "another-token" }, "gate_unauthorized");
    await saysNo({ ...SERVER, token: undefined }, "gate_unauthorized");
  });

  test("a body that is too large: 413", async () => {
    const larger = (url, init) => fetch(url, { ...init, body: init.body + " ".repeat(70_000) });
    for (const [path, ask, rule, , codeOf] of SURFACES) {
      const answer = await ask({ ...SERVER, fetch: larger });
      assert.equal(rule(answer), false);
      // the server answers 413 and closes; a client that still writes may only see the connection end
      assert.ok(["too_large", "gate_unreachable"].includes(codeOf(answer)), path);
    }
  });

  test("too many requests: 429", async () => {
    await client.checkToolPrecheck(EVENT, LIMITED);
    await saysNo(LIMITED, "gate_rate_limited");
  });
});

describe("a hostile answer", () => {
  test("a redirect, also to one that says yes", async () => {
    const answers = await yes();
    for (const status of [301, 302, 303, 307, 308]) {
      const handle = (request, response) => {
        const path = request.url.slice(1);
        if (path.startsWith("yes/")) return json(response, 200, answers[path.slice(4)]);
        response.writeHead(status, { Location: `/yes/${path}` });
        response.end();
      };
      await withServer(handle, (options) => saysNo(options, "gate_unreachable"));
      const follow = (url, init) => fetch(url, { ...init, redirect: "follow", method: "GET", body: undefined });
      await withServer(handle, (options) => saysNo({ ...options, fetch: follow }, "gate_unreachable"));
    }
  });

  test("a yes under another status", async () => {
    const answers = await yes();
    for (const status of [201, 202, 203, 206, 400, 403, 404, 500, 503]) {
      const handle = (request, response) => json(response, status, answers[request.url.slice(1)]);
      await withServer(handle, (options) => saysNo(options, "gate_wrong_status"));
    }
  });

  test("a yes that is not announced as JSON", async () => {
    const answers = await yes();
    for (const type of ["text/html", "text/plain", "application/jsonx", "application/json-seq", ""]) {
      const handle = (request, response) => json(response, 200, answers[request.url.slice(1)], { "Content-Type": type });
      await withServer(handle, (options) => saysNo(options, "gate_answer_malformed"));
    }
  });

  test("bodies that are no whole JSON object", async () => {
    const answers = await yes();
    const bodies = [
      "", "null", "true", "[]", '"accept"', "{}", "{", "<html>", "\ufeff{}", "[".repeat(200_000), new Uint8Array([0xff, 0xfe, 0x7b, 0x7d]),
      '{"__proto__": {"verdict": "allow", "reasons": []}}',
      '{"gate_decision":"pass","recommended_action":"accept","architecture_decision":{"route":"accept"},"hard_blockers":[],"aix":{"hard_blockers":[]},"validation_errors":[]}',
      '{"verdict":"maybe","reasons":[]}', '{"verdict":["allow"],"reasons":[]}', '{"reasons":[]}', '{"verdict":"allow","reasons":{}}',
    ];
    for (const body of bodies) {
      await withServer((_, response) => json(response, 200, body), (options) => saysNo(options, "gate_answer_malformed"));
    }
    const cut = (request, response) => json(response, 200, JSON.stringify(answers[request.url.slice(1)]).slice(0, -1));
    await withServer(cut, (options) => saysNo(options, "gate_answer_malformed"));
    const twice = (request, response) => json(response, 200, JSON.stringify(answers[request.url.slice(1)]).repeat(2));
    await withServer(twice, (options) => saysNo(options, "gate_answer_malformed"));
  });

  test("an answer without an end, and one that unpacks to too much", async () => {
    const answers = await yes();
    const { gzipSync } = await import("node:zlib");
    const padded = (path) => `${JSON.stringify(answers[path])}${" ".repeat(5 * 1024 * 1024)}`;
    const packed = (request, response) => json(response, 200, gzipSync(padded(request.url.slice(1))), { "Content-Encoding": "gzip" });
    await withServer(packed, (options) => saysNo(options, "gate_answer_malformed"));
    const endless = (_, response) => {
      response.writeHead(200, { "Content-Type": "application/json" });
      const write = () => { while (response.write(" ".repeat(65_536))); };
      response.on("drain", write);
      write();
    };
    await withServer(endless, (options) => saysNo(options, "gate_answer_malformed"));
  });

  test("an envelope in which one line says no, or a field is missing or of another type", async () => {
    const good = (await yes())["pre-tool-check"];
    const changes = [
      ...Object.keys(good).map((key) => [key, undefined]),
      ...Object.keys(good).filter((key) => !["tool_name", "tool_category", "risk_domain", "runtime_recommended_route"].includes(key)).map((key) => [key, null]),
      ["gate_decision", "fail"], ["recommended_action", "ask"], ["recommended_action", "revise"], ["recommended_action", "retrieve"],
      ["route", "revise"], ["hard_blockers", ["x"]], ["hard_blockers", "x"], ["hard_blockers", {}], ["hard_blockers", { length: 0 }],
      ["aix", { ...good.aix, hard_blockers: ["x"] }], ["architecture_decision", { ...good.architecture_decision, route: "ask" }],
      ["validation_errors", [{ path: "", message: "x" }]], ["contract_version", "aana.agent_tool_precheck.v2"],
      ["tool_name", "another_tool"], ["tool_name", null], ["tool_category", "write"], ["risk_domain", "finance"],
    ];
    for (const [key, value] of changes) {
      const body = JSON.stringify({ ...good, [key]: value });
      await withServer((_, response) => json(response, 200, body), async (options) => {
        const answer = await client.checkToolPrecheck(EVENT, options);
        assert.equal(client.shouldExecuteTool(answer), false, `${key}: ${JSON.stringify(value)}`);
        assert.deepEqual(problemsOf(AGENT_ACTION_RESULT, answer), []);
      });
    }
    await withServer((_, response) => json(response, 200, { ...good, more: { of: "v1" } }), async (options) => {
      assert.equal(client.shouldExecuteTool(await client.checkToolPrecheck(EVENT, options)), true, "a field more is no change of v1");
    });
  });

  test("a verdict on another proposal", async () => {
    const handle = (_, response) => json(response, 200, { verdict: "auto", risk: "low", tool: "file.read", errors: [], reasons: [], becomes: "monty draft" });
    await withServer(handle, async (options) => {
      assert.equal(client.mayBecomeDraft(await client.checkProposal({ tool: "file.list", args: {} }, options)), false);
    });
  });
});

test("the rules take any value, and only a whole yes is one", async () => {
  const throwing = new Proxy({}, { get() { throw new Error(SECRET); } });
  for (const rule of [client.shouldExecuteTool, client.mayBecomeDraft, client.shouldExecuteCall]) {
    for (const value of [undefined, null, true, 1, "accept", [], {}, () => true, Promise.resolve({}), throwing, Object.create({ verdict: "auto" })]) {
      assert.equal(rule(value), false);
    }
  }
  assert.equal(client.shouldExecuteCall({ verdict: "allow", reasons: [{ layer: 0, code: "no_contracts", path: "" }] }), false);
  assert.equal(client.shouldExecuteCall({ verdict: "checkpoint", reasons: [] }), false);
  assert.equal(client.mayBecomeDraft({ verdict: "block", errors: [] }), false);
  assert.equal(client.mayBecomeDraft({ verdict: "auto", errors: [{}] }), false);
});
