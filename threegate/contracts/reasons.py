"""The reason codes of decisions, and what each means."""

from __future__ import annotations

from typing import Final

REASONS: Final[dict[str, str]] = {
    "contracts_do_not_compile": (
        "The contracts folder has errors, so nothing in it is used and every request is refused."
    ),
    "no_contracts": "The contracts folder is empty: there is no contract gate, and the request passes it.",
    "no_contract": "No contract describes this tool; a tool without a contract does not run.",
    "unknown_session": "The operator has not opened that session for this requester.",
    "session_state_lost": "What the session did cannot be known any more: a file that the trail names is missing.",
    "session_killed": "The operator ended the session.",
    "session_closed": "The operator closed the session.",
    "circuit_open": "Too many blocked or failed calls in a row ended the session for good.",
    "workflow_killed": "The operator ended the workflow.",
    "parent_closed": "The parent session ended; its child gets no new step.",
    "unknown_role": "workflow.yaml declares no such role.",
    "unknown_workflow": "There is no such workflow.",
    "handoff_undeclared": "workflow.yaml has no handoff between these roles.",
    "handoff_artifact_missing": "The parent session has not delivered an artifact that the handoff requires.",
    "workflow_limit_exceeded": "A limit over all sessions of the workflow is used up.",
    "resource_busy": "Another session has a step pending on the shared resource; it is free when that ends.",
    "resource_owned": "Another session writes to the shared resource until it ends.",
    "tool_mismatch": "The request is not what the named tool's contract (`implements`) says it is.",
    "wrong_phase": "The tool may not run in the session's phase.",
    "forbidden_in_state": "A tool that ran before forbids this one (`forbids_after`).",
    "rate_limited": "The tool's service answered 429; the tool waits as its contract says.",
    "session_limit_exceeded": "A session limit is used up: of the session, the requester or the workspace.",
    "loop_detected": "The same call was made too often within the last calls.",
    "call_malformed": "The call has no meaning that can be judged.",
    "arguments_too_wide": "A path of the contract selects more values in the arguments than are evaluated.",
    "risk_blocked": "The side effect is not let through (`gate`, `risk_defaults`).",
    "policy_denied": "A deny rule is about this principal, or there is a policy and no principal.",
    "policy_not_allowed": "Allow rules speak of this tool and none is about this principal.",
    "label_gate": "A label of the session closes this tool.",
    "precondition_not_met": "What must have happened before did not.",
    "argument_invariant": "An argument breaks a rule of argument_value_invariants or of the tool's schema.",
    "execution_constraint": "An argument breaks a rule of execution_constraints.",
    "input_invariant": "An argument breaks a rule of assertions.input_invariants.",
    "output_invariant": "The output breaks a rule of assertions.output_invariants: the outcome is contract_violated.",
    "evidence_missing": "evidence_class local_transaction, and there is no /out/result.json.",
    "ref_unbound": (
        "Nothing was bound to the slot that the argument must repeat, or no call of the tool that `from_output` "
        "names ended yet."
    ),
    "ref_mismatch": "The argument is not the value that was bound, or breaks a `from_output` rule.",
    "aggregate_exceeded": "The call would take a total of the session above its bound.",
    "aggregate_below": (
        "The call would take a total of the session below its bound, or the session was closed below it."
    ),
    "aggregate_unmeasurable": "The value that counts towards a total is missing or no number.",
    "envelope_violated": "The value leaves the envelope that an earlier call set.",
    "envelope_unset": "The call that sets the envelope did not happen yet.",
    "envelope_unmeasurable": "The value of an envelope is missing or no number.",
    "checkpoint_required": "A person must approve this call first: threegate contracts checkpoints.",
    "checkpoint_denied": "A person said no.",
    "checkpoint_timed_out": "Nobody approved the call in time.",
}

PASSING: Final = frozenset({"rate_limited", "resource_busy"})
"""Reasons that pass by themselves: the request waits instead of being refused."""
