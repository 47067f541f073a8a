/**
 * Decisions by a workspace's contracts, for tools that you run yourself.
 *
 * Invariant: where there is no decision, the verdict is block. A function behind `gateCall` runs only on allow without a
 * reason, with the arguments that were described, and the server learns how it ended.
 */

import { CONTRACT_DECISION, CONTRACT_LINE } from "./generated/schemas.js";
import type { ContractDecision, ContractLine } from "./generated/types.js";
import { copied } from "./copied.js";
import { jsonText } from "./json.js";
import { validate } from "./precheck.js";
import { isObject, problemsOf, type Problem } from "./schema.js";
import { ask, failed, type ClientOptions, type Failure } from "./transport.js";

/** A call of a tool, as `describe` of `gateCall` makes it; `claim` and `outcome` are the wrapper's. */
export type ContractCall = Omit<Extract<ContractLine, { tool: string }>, "claim" | "outcome">;

/** What a gated call came to. `recorded` says whether the session took the outcome; while it did not, the claim stays open. */
export type CallOutcome<Value> =
  | { blocked: false; value: Value; decision: ContractDecision; recorded: boolean }
  | { blocked: true; decision: ContractDecision };

/** Ask about a call, or tell how a claimed one ended. Never rejects. */
export async function decideCall(line: ContractLine, options: ClientOptions): Promise<ContractDecision> {
  const answer = await ask("contracts/decide", line, options);
  if ("failure" in answer) return block(answer.failure);
  const { value, sent } = answer;
  const whole = problemsOf(CONTRACT_DECISION, value).length === 0;
  if (!whole || Object.hasOwn(sent, "tool") !== Object.hasOwn(value, "verdict")) {
    return block(failed("gate_answer_malformed", "the answer is no well-formed decision").failure);
  }
  return value as unknown as ContractDecision;
}

/**
 * Whether a decision lets the call run: allow, without a reason. Any other value is no, and so is `no_contracts`, the
 * reason with which an empty contracts folder lets everything pass.
 */
export function shouldExecuteCall(decision: unknown): boolean {
  try {
    if (!isObject(decision) || decision["verdict"] !== "allow") return false;
    return Array.isArray(decision["reasons"]) && decision["reasons"].length === 0;
  } catch {
    return false;
  }
}

/** A function that is called only when the contracts allow the call that `describe` makes of its arguments (copied once). */
export function gateCall<Arguments extends unknown[], Value>(
  fn: (...args: Arguments) => Value,
  describe: (...args: Arguments) => ContractCall | Promise<ContractCall>,
  options: ClientOptions,
): (...args: Arguments) => Promise<CallOutcome<Awaited<Value>>> {
  return async function (this: unknown, ...args: Arguments) {
    let taken: Arguments;
    let line: ContractLine;
    const claim = newClaim();
    try {
      taken = copied(args);
      line = { ...(await describe(...structuredClone(taken))), claim };
    } catch {
      return { blocked: true, decision: block(failed("tool_not_described", "").failure) };
    }
    const decision = await decideCall(line, options);
    if (!shouldExecuteCall(decision)) return { blocked: true, decision };
    const telling = { ...options, signal: undefined }; // how a call ended is told whoever has lost interest in it
    if (options.signal?.aborted) {
      await decideCall({ finish: claim, outcome: "cancelled" }, telling);
      return { blocked: true, decision: block(failed("call_aborted", "").failure) };
    }
    let value: Awaited<Value>;
    try {
      value = await fn.apply(this, taken);
    } catch (error) {
      await decideCall({ finish: claim, outcome: "failed" }, telling);
      throw error;
    }
    const told = await decideCall({ finish: claim, outcome: { status: "succeeded", ...outputOf(value) } }, telling);
    return { blocked: false, value, decision, recorded: told.outcome?.status === "committed" };
  };
}

/** What is wrong with the form of a line, without asking a server. */
export function validateCall(line: unknown): Problem[] {
  return validate(line, problemsOf, CONTRACT_LINE);
}

/** The output for the rules about it, where it is JSON that fits. */
function outputOf(value: unknown): { output?: unknown } {
  try {
    jsonText({ output: value, rest: " ".repeat(1024) });
    return value === undefined ? {} : { output: value };
  } catch {
    return {};
  }
}

/** A name that no other open claim has. It is no secret; the server refuses one that is open already. */
function newClaim(): string {
  const part = (): string => Math.random().toString(36).slice(2);
  return `${Date.now().toString(36)}-${part()}${part()}`;
}

function block({ code }: Failure): ContractDecision {
  return { verdict: "block", reasons: [{ layer: 0, code, path: "" }] };
}
