/** Asks a ThreeGate server before a tool runs. Whatever goes wrong means no. */

export { checkToolPrecheck, CONTRACT_VERSION, gateTool, shouldExecuteTool, toolPrecheckEvent, validateEvent } from "./precheck.js";
export type { GateOutcome } from "./precheck.js";
export { checkProposal, mayBecomeDraft, validateProposal } from "./proposals.js";
export { decideCall, gateCall, shouldExecuteCall, validateCall } from "./contracts.js";
export type { CallOutcome, ContractCall } from "./contracts.js";
export type { ClientOptions, FailureCode } from "./transport.js";
export type { Problem } from "./schema.js";
export type {
  ActionProposal,
  AgentActionEvent,
  AgentActionResult,
  ContractDecision,
  ContractLine,
  ProposalVerdict,
} from "./generated/types.js";
