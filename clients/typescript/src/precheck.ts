/**
 * The Agent Action Contract v1: may this tool call run now?
 *
 * Invariant: whatever goes wrong is a well-formed envelope that says refuse. A function behind `gateTool` is called only
 * with the arguments that were described, and only when `shouldExecuteTool` holds for the gate's own answer to that call.
 */

import { AGENT_ACTION_EVENT, AGENT_ACTION_RESULT } from "./generated/schemas.js";
import type { AgentActionEvent, AgentActionResult } from "./generated/types.js";
import { copied } from "./copied.js";
import { jsonText, NotSent } from "./json.js";
import { isObject, problemsOf, type Problem, type Schema } from "./schema.js";
import { ask, failed, type ClientOptions, type Failure } from "./transport.js";

export const CONTRACT_VERSION = "aana.agent_tool_precheck.v1";

/** What a gated call came to. `aana` is what the contract's own sample returns for a blocked call. */
export type GateOutcome<Value> =
  | { blocked: false; value: Value; decision: AgentActionResult }
  | { blocked: true; aana: AgentActionResult["architecture_decision"]; decision: AgentActionResult };

/** What a broader envelope of AANA knows besides, and what to use for a tool call. */
const BROADER_ROUTES: Readonly<Record<string, string>> = {
  revise: "use ask, and check the revised call again",
  retrieve: "use defer, and check again with the evidence that was retrieved",
};
const NAME_CHARS = 200;

/** Ask the gate about a tool call. Never rejects: where there is no decision, the envelope says refuse and why. */
export async function checkToolPrecheck(event: AgentActionEvent, options: ClientOptions): Promise<AgentActionResult> {
  const answer = await ask("pre-tool-check", event, options);
  if ("failure" in answer) return refusal(answer.failure);
  const { value, sent } = answer;
  if (problemsOf(AGENT_ACTION_RESULT, value).length > 0) return notAnEnvelope();
  const envelope = value as unknown as AgentActionResult;
  return !shouldExecuteTool(envelope) || isAbout(envelope, sent) ? envelope : notAnEnvelope();
}

/** Whether an envelope lets the tool run: every line of the contract's execution rule. Any other value is no. */
export function shouldExecuteTool(envelope: unknown): boolean {
  try {
    if (!isObject(envelope)) return false;
    const { aix, architecture_decision: architecture } = envelope;
    return (
      envelope["gate_decision"] === "pass" &&
      envelope["recommended_action"] === "accept" &&
      isObject(architecture) &&
      architecture["route"] === "accept" &&
      isEmpty(envelope["hard_blockers"]) &&
      isObject(aix) &&
      isEmpty(aix["hard_blockers"]) &&
      isEmpty(envelope["validation_errors"])
    );
  } catch {
    return false;
  }
}

/**
 * A function that is called only when the gate accepts the call that `describe` makes of its arguments.
 *
 * The arguments are copied once (structuredClone); what was described is what runs, whatever happens to the caller's own
 * objects meanwhile. A blocked call is a value, not an exception. What `fn` itself throws is passed on.
 */
export function gateTool<Arguments extends unknown[], Value>(
  fn: (...args: Arguments) => Value,
  describe: (...args: Arguments) => AgentActionEvent | Promise<AgentActionEvent>,
  options: ClientOptions,
): (...args: Arguments) => Promise<GateOutcome<Awaited<Value>>> {
  return async function (this: unknown, ...args: Arguments) {
    let taken: Arguments;
    let event: AgentActionEvent;
    try {
      taken = copied(args);
      event = await describe(...structuredClone(taken));
    } catch {
      return blocked(refusal(failed("tool_not_described", "the call could not be described, so it was not checked").failure));
    }
    const decision = await checkToolPrecheck(event, options);
    if (!shouldExecuteTool(decision)) return blocked(decision);
    if (options.signal?.aborted) return blocked(refusal(failed("call_aborted", "the signal was aborted before the tool ran").failure));
    return { blocked: false, value: await fn.apply(this, taken), decision };
  };
}

/** What is wrong with the form of an event, without asking a server; an empty list for a well-formed one. */
export function validateEvent(event: unknown): Problem[] {
  return validate(event, ({ allOf, ...form }, value) => {
    const found = problemsOf(form, value);
    const wanted = isObject(value) ? value["recommended_route"] : undefined;
    if (typeof wanted === "string" && Object.hasOwn(BROADER_ROUTES, wanted)) {
      const message = `${wanted} is a route for answers and workflows, not for a tool call: ${BROADER_ROUTES[wanted]}`;
      return found.map((problem) => (problem.path === "recommended_route" ? { ...problem, message } : problem));
    }
    const named = isObject(value) && Object.hasOwn(value, "schema_version");
    return found.length === 0 && named ? problemsOf({ allOf }, value) : found;
  }, AGENT_ACTION_EVENT);
}

/** Check a value as it would be sent: through JSON, within the server's bounds. */
export function validate(
  value: unknown,
  check: (schema: Schema, value: unknown) => Problem[],
  schema: Schema,
): Problem[] {
  try {
    return check(schema, JSON.parse(jsonText(value)));
  } catch (error) {
    return [{ path: "", message: error instanceof NotSent ? error.message : "cannot be checked" }];
  }
}

/**
 * An event of the contract, from names as TypeScript writes them; what is undefined is left out. It has no
 * `schema_version`: an event that recommends more than its state allows is judged, not refused.
 */
export function toolPrecheckEvent(input: {
  toolName: string;
  toolCategory: AgentActionEvent["tool_category"];
  authorizationState: AgentActionEvent["authorization_state"];
  evidenceRefs: AgentActionEvent["evidence_refs"];
  riskDomain: AgentActionEvent["risk_domain"];
  proposedArguments: AgentActionEvent["proposed_arguments"];
  recommendedRoute?: AgentActionEvent["recommended_route"];
  requestId?: string;
  agentId?: string;
  userIntent?: string;
  authorizationSubject?: NonNullable<AgentActionEvent["authorization_subject"]>;
}): AgentActionEvent {
  return {
    tool_name: input.toolName,
    tool_category: input.toolCategory,
    authorization_state: input.authorizationState,
    evidence_refs: input.evidenceRefs,
    risk_domain: input.riskDomain,
    proposed_arguments: input.proposedArguments,
    recommended_route: input.recommendedRoute ?? "accept",
    ...(input.requestId === undefined ? {} : { request_id: input.requestId }),
    ...(input.agentId === undefined ? {} : { agent_id: input.agentId }),
    ...(input.userIntent === undefined ? {} : { user_intent: input.userIntent }),
    ...(input.authorizationSubject === undefined ? {} : { authorization_subject: input.authorizationSubject }),
  };
}

function blocked(decision: AgentActionResult): { blocked: true; aana: AgentActionResult["architecture_decision"]; decision: AgentActionResult } {
  return { blocked: true, aana: decision.architecture_decision, decision };
}

/** Whether an accepting envelope is about the call that was sent, not about another one. */
function isAbout(envelope: AgentActionResult, sent: Record<string, unknown>): boolean {
  const name = sent["tool_name"];
  return (
    typeof name === "string" &&
    envelope.tool_name === [...name].slice(0, NAME_CHARS).join("") &&
    envelope.tool_category === sent["tool_category"] &&
    envelope.risk_domain === sent["risk_domain"]
  );
}

function isEmpty(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

function notAnEnvelope(): AgentActionResult {
  return refusal(failed("gate_answer_malformed", "the answer is no well-formed envelope of this call").failure);
}

/** The envelope for a call that the gate did not decide on. */
function refusal({ code, message }: Failure): AgentActionResult {
  const blockers = [code];
  const states = { declared_state: "none", evidence_supported_state: "none", effective_state: "none" } as const;
  return {
    contract_version: CONTRACT_VERSION,
    route: "refuse",
    tool_name: null,
    tool_category: null,
    effective_category: "unknown",
    risk_domain: null,
    gate_decision: "fail",
    recommended_action: "refuse",
    candidate_gate: "fail",
    aana_route: "refuse",
    runtime_recommended_route: null,
    execution_allowed: false,
    hard_blockers: [...blockers],
    deviations: [],
    aix: {
      score: 0,
      components: { P: 0, C: 0, F: 0 },
      decision: "refuse",
      hard_blockers: [...blockers],
      thresholds: {},
    },
    architecture_decision: {
      route: "refuse",
      gate_decision: "fail",
      execution_allowed: false,
      hard_blockers: [...blockers],
      aix_score: 0,
      authorization_state: "none",
      recovery: "Do not execute.",
    },
    authorization: { ...states },
    validation_errors: [{ path: "", message }],
    reasons: [code],
    evidence_report: {
      checked_ref_count: 0,
      used_source_ids: [],
      contradictory_source_ids: [],
      missing_source_ids: [],
      stale_source_ids: [],
      warning_codes: [],
    },
    audit_safe_log_event: {
      type: "aana_decision/1",
      request_id: null,
      agent_id: null,
      tool_name: null,
      tool_category: null,
      effective_category: "unknown",
      risk_domain: null,
      declared_state: "none",
      supported_state: "none",
      effective_state: "none",
      recommended_route: null,
      route: "refuse",
      gate_decision: "fail",
      hard_blockers: [...blockers],
      deviations: [],
      aix_score: 0,
      argument_keys: [],
      evidence_source_ids: [],
    },
  };
}
