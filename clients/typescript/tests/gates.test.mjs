// The client against a real server: the contract's examples, every shared event, guarded functions.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as client from "../dist/index.js";
import { EVENT, SERVER, watchTheConsole, withServer } from "./support.mjs";

watchTheConsole();

const DATA = new URL("../../../tests/data/", import.meta.url);
const lines = (name) => readFileSync(new URL(name, DATA), "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));
const ROUTES = ["accept", "ask", "defer", "refuse"];
const CASES = JSON.parse(readFileSync(new URL("../../../examples/agent_action_contract_cases.json", import.meta.url), "utf8")).cases;
const DRAFT = { tool_name: "send_email", tool_category: "write", authorization_state: "user_claimed", evidence_refs: ["draft_id:123"], risk_domain: "customer_support", proposed_arguments: { to: "customer@example.com" }, recommended_route: "accept" };

test("the example cases", async () => {
  assert.equal(CASES.length >= 4, true);
  for (const { name, event, expected_route } of CASES) {
    assert.deepEqual(client.validateEvent(event), [], name);
    const decision = await client.checkToolPrecheck(event, SERVER);
    assert.equal(decision.route, expected_route, name);
    assert.equal(client.shouldExecuteTool(decision), expected_route === "accept", name);
    assert.equal(decision.audit_safe_log_event.route, expected_route);
  }
});

test("the four examples of the contract's text, as the server's own document shows them", async () => {
  const document = await (await fetch(`${SERVER.baseUrl}/openapi.json`)).json();
  const { examples } = document.paths["/pre-tool-check"].post.requestBody.content["application/json"];
  const routes = [];
  for (const [name, { value }] of Object.entries(examples)) {
    const decision = await client.checkToolPrecheck(value, SERVER);
    assert.ok(name.endsWith(decision.route), name);
    assert.equal(client.shouldExecuteTool(decision), decision.route === "accept");
    routes.push(decision.route);
  }
  assert.deepEqual(routes, ["accept", "ask", "defer", "refuse"]);
});

test("every shared event: never laxer than the reference, now", async () => {
  const expected = [
    ...lines("aana_cases.jsonl").map(({ event, reference }) => [event, reference.route, reference.route === "accept" && reference.hard_blockers.length === 0]),
    ...lines("aana_recorded.jsonl").map(({ event, route, executes }) => [event, route, executes]),
  ];
  assert.equal(expected.length, 495);
  let executed = 0;
  for (const [event, route, executes] of expected) {
    const decision = await client.checkToolPrecheck(event, SERVER);
    const runs = client.shouldExecuteTool(decision);
    assert.ok(ROUTES.indexOf(decision.route) >= ROUTES.indexOf(route), JSON.stringify(event));
    assert.ok(executes || !runs, JSON.stringify(event));
    executed += runs;
  }
  assert.ok(executed > 0);
});

test("a guarded function runs only on accept, with what was described", async () => {
  const calls = [];
  const search = client.gateTool(
    (query) => { calls.push(query); return `found ${query.text}`; },
    (query) => ({ ...EVENT, proposed_arguments: query }),
    SERVER,
  );
  const query = { text: "contract" };
  const running = search(query);
  query.text = "changed meanwhile";
  const outcome = await running;
  assert.deepEqual([outcome.blocked, outcome.value, calls], [false, "found contract", [{ text: "contract" }]]);
  assert.equal(query.text, "changed meanwhile");

  const send = client.gateTool(() => calls.push("sent"), () => DRAFT, SERVER);
  const blocked = await send();
  assert.deepEqual([blocked.blocked, blocked.aana.route, calls.length], [true, "ask", 1]);

  for (const describe of [() => { throw new Error(); }, async () => { throw new Error(); }, () => undefined, (value) => { value.text = "x"; return EVENT; }]) {
    const guarded = client.gateTool((value) => calls.push(value), describe, SERVER);
    const outcome = await guarded({ text: "kept" });
    assert.equal(outcome.blocked, describe.length === 0);
  }
  assert.deepEqual(calls.at(-1), { text: "kept" });
  const taken = await client.gateTool(() => calls.push("no"), () => EVENT, SERVER)(() => "no JSON");
  assert.deepEqual(taken.decision.hard_blockers, ["tool_not_described"]);
  assert.equal(calls.length, 2);
  await assert.rejects(client.gateTool(() => { throw new Error("of the tool"); }, () => EVENT, SERVER)(), /of the tool/);
  const owner = { name: "me", run: client.gateTool(function () { return this.name; }, () => EVENT, SERVER) };
  assert.equal((await owner.run()).value, "me");
});

test("a gate that is gone calls nothing", async () => {
  const calls = [];
  const options = { baseUrl: "http://127.0.0.1:9", timeoutMs: 500 };
  const tool = await client.gateTool(() => calls.push(1), () => EVENT, options)();
  const call = await client.gateCall(() => calls.push(1), () => ({ tool: "send" }), options)();
  assert.deepEqual([tool.blocked, call.blocked, calls], [true, true, []]);
});

test("toolPrecheckEvent leaves out what is undefined", async () => {
  const event = client.toolPrecheckEvent({
    toolName: "get_recent_transactions", toolCategory: "private_read", authorizationState: "authenticated", evidenceRefs: ["auth.session"],
    riskDomain: "finance", proposedArguments: { account_id: "acct_redacted", limit: 10, cursor: undefined }, userIntent: "look", agentId: undefined,
  });
  assert.deepEqual(Object.keys(event).length, 8);
  assert.deepEqual(client.validateEvent(event), []);
  assert.equal(client.shouldExecuteTool(await client.checkToolPrecheck(event, SERVER)), false);
});

test("the contract's own examples have their own routes, however they are written", async () => {
  const email = { toolName: "send_email", toolCategory: "write", authorizationState: "user_claimed", evidenceRefs: ["draft_id:123"], riskDomain: "customer_support", proposedArguments: { to: "customer@example.com" } };
  const read = { toolName: "get_recent_transactions", toolCategory: "private_read", authorizationState: "none", evidenceRefs: [], riskDomain: "finance", proposedArguments: { account_id: "acct_redacted", limit: 5 } };
  for (const [input, route] of [[email, "ask"], [read, "defer"]]) {
    const event = client.toolPrecheckEvent({ ...input, recommendedRoute: "accept" });
    assert.equal("schema_version" in event, false);
    assert.deepEqual((await client.checkToolPrecheck(event, SERVER)).route, route);
  }
});

test("validateEvent names what is wrong, and what to use instead", () => {
  const paths = (event) => client.validateEvent(event).map(({ path, message }) => `${path}: ${message}`);
  assert.deepEqual(paths({ ...EVENT, recommended_route: "revise" }), ["recommended_route: revise is a route for answers and workflows, not for a tool call: use ask, and check the revised call again"]);
  assert.match(paths({ ...EVENT, recommended_route: "retrieve" })[0], /use defer/);
  assert.deepEqual(paths({ ...EVENT, evidence_refs: [" ", { source_id: "a", kind: "rumour" }, 3] }), ["evidence_refs.0: is blank", "evidence_refs.1.kind: is none of the allowed values", "evidence_refs.2: has none of the allowed forms"]);
  assert.deepEqual(paths({ ...EVENT, shadow_mode: true }), [": has an unknown key"]);
  assert.deepEqual(paths({ ...EVENT, constructor: 1 }), [": has an unknown key"]);
  assert.deepEqual(paths([]), [": is not of type object"]);
  assert.equal(paths({}).length, 7);
  const named = { ...EVENT, tool_category: "unknown", schema_version: client.CONTRACT_VERSION };
  assert.deepEqual(paths(named), ["recommended_route: is none of the allowed values"]);
  const { schema_version: _, ...unnamed } = named;
  assert.deepEqual(paths(unnamed), []);
});

test("proposals", async () => {
  const cases = lines("clawguard_cases.jsonl");
  const seen = new Set();
  for (const { case: name, proposal } of cases) {
    const verdict = await client.checkProposal(proposal, SERVER);
    assert.equal(client.mayBecomeDraft(verdict), ["auto", "approval"].includes(verdict.verdict), name);
    if (client.mayBecomeDraft(verdict)) assert.deepEqual(client.validateProposal(proposal), [], name);
    seen.add(verdict.verdict);
  }
  assert.deepEqual([...seen].sort(), ["approval", "auto", "block", "reject"]);
  assert.deepEqual(client.validateProposal({ tool: "file.read", args: {} }), [{ path: "args.path", message: "is required" }]);
  assert.equal(client.validateProposal({ tool: "file.read", args: { path: "a", maxBytes: 0 } })[0].message, "is too small");
  assert.equal(client.validateProposal({ tool: "web.search", args: { query: "a", limit: 11 } })[0].message, "is too large");
  assert.equal(client.validateProposal({ tool: "shell.dry_run", args: { argv: [] } })[0].message, "has too few items");
  assert.equal(client.validateProposal({ tool: "shell.dry_run", args: { argv: Array(33).fill("a") } })[0].message, "has too many items");
  assert.equal(client.validateProposal({ tool: "nothing", args: {} })[0].path, "tool");
});

test("calls under the workspace's contracts", async () => {
  const ran = [];
  const session_id = "typescript";
  const send = client.gateCall((n) => { ran.push(n); return { sent: n }; }, (n) => ({ tool: "send", arguments: { n }, session_id }), SERVER);
  const first = await send(1);
  assert.deepEqual([first.blocked, first.value, first.recorded], [false, { sent: 1 }, true]);
  const outside = await send(11);
  assert.deepEqual([outside.blocked, outside.decision.reasons], [true, [{ layer: 1, code: "argument_invariant", path: "$.n" }]]);
  const fails = client.gateCall(() => { throw new Error("of the tool"); }, () => ({ tool: "send", arguments: { n: 2 }, session_id }), SERVER);
  await assert.rejects(fails(), /of the tool/);
  assert.equal((await send(3)).blocked, false);
  assert.equal((await send(4)).decision.reasons[0].code, "session_limit_exceeded", "the contracts allow two calls that succeed");
  assert.equal((await client.gateCall(() => 1, () => { throw new Error(); }, SERVER)()).decision.reasons[0].code, "tool_not_described");
  assert.deepEqual(ran, [1, 3]);
  assert.deepEqual(client.validateCall({ tool: "send", arguments: { n: 1 } }), []);
  assert.equal(client.validateCall({ tool: "send", answer: "approve" }).length, 1);
  const approved = await client.decideCall({ tool: "send", arguments: { n: 1 }, answer: "approve" }, SERVER);
  assert.equal(approved.reasons[0].code, "gate_wrong_status");
});

test("an outcome that did not arrive is said", async () => {
  let asked = 0;
  const handle = (_, response) => {
    asked += 1;
    response.writeHead(asked === 1 ? 200 : 503, { "Content-Type": "application/json" });
    response.end(asked === 1 ? '{"verdict":"allow","reasons":[]}' : "{}");
  };
  await withServer(handle, async (options) => {
    const circular = {};
    circular.self = circular;
    const outcome = await client.gateCall(() => circular, () => ({ tool: "send" }), options)();
    assert.deepEqual([outcome.blocked, outcome.value, outcome.recorded, asked], [false, circular, false, 2]);
  });
});

test("the base may have a path of its own", async () => {
  const paths = [];
  const handle = (request, response) => { paths.push([request.url, request.headers.authorization]); response.end(); };
  await withServer(handle, async (options) => {
    await client.checkToolPrecheck(EVENT, { ...options, baseUrl: `${options.baseUrl}/gate/?x=1#y` });
    await client.checkToolPrecheck(EVENT, { ...options, token: undefined });
  });
  assert.deepEqual(paths, [["/gate/pre-tool-check", "Bearer token-of-a-test"], ["/pre-tool-check", undefined]]);
});

test("memory that is shared with somebody who changes it after the question is not an argument", async () => {
  const shared = new Uint8Array(new SharedArrayBuffer(1));
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  let ran = 0;
  const tool = client.gateTool(() => (ran += 1), () => EVENT, SERVER);
  const call = client.gateCall(() => (ran += 1), () => ({ tool: "t" }), SERVER);
  for (const value of [shared, shared.buffer, { deep: [shared] }, new Map([["a", shared]]), new Set([[shared]]), new Error("", { cause: shared }), memory]) {
    assert.equal((await tool(value)).decision.hard_blockers[0], "tool_not_described");
    assert.equal((await call(value)).decision.reasons[0].code, "tool_not_described");
  }
  const own = { bytes: new Uint8Array(2), again: new Map([[1, new Set([2])]]) };
  own.self = own;
  assert.equal((await tool(own)).blocked, false);
  assert.equal(ran, 1);
});

test("a description that is no call runs nothing, whatever the answer says", async () => {
  const allow = (_, response) => {
    response.writeHead(200, { "Content-Type": "application/json" });
    response.end('{"verdict":"allow","reasons":[]}');
  };
  let ran = 0;
  await withServer(allow, async (options) => {
    for (const line of [undefined, {}, { close: "s" }, { finish: "c" }, Object.create({ tool: "t" })]) {
      const outcome = await client.gateCall(() => (ran += 1), () => line, options)();
      assert.equal(outcome.decision.reasons[0].code, "gate_answer_malformed");
    }
  });
  assert.equal(ran, 0);
});

test("an abort that comes between the answer and the tool still means no, and one that comes later does not hide the outcome", async () => {
  const session_id = `aborted-${Date.now()}`;
  const envelope = JSON.stringify(await client.checkToolPrecheck(EVENT, SERVER));
  for (let ticks = 0; ticks < 40; ticks += 1) {
    for (const [gate, text, described] of [[client.gateTool, envelope, EVENT], [client.gateCall, '{"verdict":"allow","reasons":[]}', { tool: "t" }]]) {
      const controller = new AbortController();
      const answer = async () => {
        const step = (left) => queueMicrotask(() => (left > 0 ? step(left - 1) : controller.abort()));
        step(ticks);
        return new Response(text, { headers: { "Content-Type": "application/json" } });
      };
      const tool = () => assert.equal(controller.signal.aborted, false);
      await gate(tool, () => described, { ...SERVER, fetch: answer, signal: controller.signal })();
    }
  }
  const controller = new AbortController();
  const options = { ...SERVER, signal: controller.signal };
  const outcome = await client.gateCall(() => controller.abort(), () => ({ tool: "send", arguments: { n: 1 }, session_id }), options)();
  assert.deepEqual([outcome.blocked, outcome.recorded], [false, true]);
});
