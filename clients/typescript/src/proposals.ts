/**
 * JSON action proposals: what would ThreeGate say of this one?
 *
 * Invariant: where there is no verdict, the verdict is reject. Nothing runs by a verdict: auto and approval mean that the
 * proposal may become a draft, which a person signs.
 */

import { ACTION_PROPOSAL, PROPOSAL_VERDICT } from "./generated/schemas.js";
import type { ActionProposal, ProposalVerdict } from "./generated/types.js";
import { validate } from "./precheck.js";
import { isObject, problemsOf, type Problem } from "./schema.js";
import { ask, failed, type ClientOptions, type Failure } from "./transport.js";

/** Ask for the verdict on a proposal. Never rejects. */
export async function checkProposal(proposal: ActionProposal, options: ClientOptions): Promise<ProposalVerdict> {
  const answer = await ask("proposals/validate", proposal, options);
  if ("failure" in answer) return rejected(answer.failure);
  const { value, sent } = answer;
  const verdict = value as unknown as ProposalVerdict;
  if (problemsOf(PROPOSAL_VERDICT, value).length > 0 || (mayBecomeDraft(value) && verdict.tool !== sent["tool"])) {
    return rejected(failed("gate_answer_malformed", "the answer is no well-formed verdict on this proposal").failure);
  }
  return verdict;
}

/** Whether a verdict lets the proposal become a draft. Any other value is no. */
export function mayBecomeDraft(verdict: unknown): boolean {
  try {
    if (!isObject(verdict) || !Array.isArray(verdict["errors"]) || verdict["errors"].length > 0) return false;
    return verdict["verdict"] === "auto" || verdict["verdict"] === "approval";
  } catch {
    return false;
  }
}

/** What is wrong with the form of a proposal, without asking a server. Formats (uri, date-time) are the server's to check. */
export function validateProposal(proposal: unknown): Problem[] {
  return validate(proposal, problemsOf, ACTION_PROPOSAL);
}

function rejected({ code, message }: Failure): ProposalVerdict {
  return {
    verdict: "reject",
    schema_valid: false,
    risk: null,
    tool: null,
    errors: [{ path: "", code, message }],
    reasons: [],
    becomes: "nothing",
  };
}
