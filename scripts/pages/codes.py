"""docs/codes.md: every exit code, status and reason code, with what to do.

What a code means for a person is said here once; a test reads the code's own text for codes and finds each of them on
the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from threegate.contracts.reasons import REASONS
from threegate.errors import EXIT_FAILED, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from threegate.judge import WAITING_CODES
from threegate.results.model import ToolResult

EXITS = {
    EXIT_OK: "fine. `run` and `run --once`: they did their work, whatever became of the requests",
    EXIT_REFUSED: "the file or act that was asked about is invalid or refused; `doctor`: a line failed",
    EXIT_FAILED: "it could not be done: a program, the disk, the trail, another daemon; `run`: launches had to stop",
    EXIT_USAGE: "wrong usage, or no workspace here",
}

STATUSES = {
    "succeeded": "it ran to its end and the exit code is 0",
    "failed": "it ran, and ended with another exit code or an error",
    "timed_out": "stopped at time_limit_sec",
    "out_of_memory": "stopped at memory_limit_mb",
    "process_limit": "stopped at the limit of processes",
    "output_exceeded": "stopped at the limits of /out, stdout or stderr",
    "cancelled": "stopped by the operator, or by the end of its parent session",
    "unavailable": "no instruction of it ran: the sandbox could not be made",
    "interrupted": "the daemon ended while it ran; it is never run again by itself",
    "refused": "nothing of it ran; `reason` says why",
}

APPROVAL = {
    "signature_missing": "there is no signature: approve it",
    "signature_invalid": "the signature does not verify: approve anew",
    "signature_file_malformed": "the .sig file is not spelled as ssh-keygen spells it: approve anew",
    "signer_unknown": "the key is not one of this operator's: `threegate operator list`",
    "signer_revoked": "the key was revoked: approve with another",
    "signer_expired": "the key's or certificate's time is over, or did not begin",
    "statement_mismatch": "a genuine signature about something else (another request, a copy under another name)",
    "request_changed": "the bytes are not those that were read or signed: look again, approve anew",
    "job_changed": "the same bytes would mean another job now (another version): approve anew",
    "input_missing": "a pinned input is not there any more",
    "input_changed": "an input is not the one that was declared or signed",
    "policy_changed": "settings, contracts, images or versions changed since: approve anew",
    "operators_changed": "the operators' files are not the recorded ones: look, then `threegate operator record`",
    "workspace_mismatch": "another workspace, or moved: `threegate workspace adopt`; or approved before an adoption",
    "expired": "the approval's time (`approval.ttl`) is over: `threegate retry`",
    "not_yet_valid": "dated ahead of the clock: set the clocks of both machines",
    "replayed": "this id, approval or nonce was used before: `threegate retry` makes a fresh draft",
    "self_approval": "whoever asks cannot approve",
    "quorum_missing": "it waits for further operators: `threegate countersign`",
    "clock_went_back": "the clock is behind the trail: set it (see faq.md)",
    "grants_off": "standing grants are off: `approval.grants`",
    "grant_missing": "the grant does not stand: `threegate grant list`",
    "grant_used_up": "the grant's uses are used up: make a new one",
    "grant_mismatch": "the grant is not for this request",
}

AANA = {
    "contract_normalization_failed": "the event is not well-formed",
    "unknown_tool_category": "whether it reads or writes cannot be said: a person looks",
    "category_contradicts_tool_name": "called a public read, named like an action",
    "public_read_identity_bound_misclassified": "called a public read, bound to a person or account",
    "private_read_not_authenticated": "a private read needs an authenticated subject",
    "write_missing_authorization": "a write without any authorization",
    "write_missing_validation_or_confirmation": "a write needs validation and confirmation",
    "write_missing_explicit_confirmation": "a write needs an explicit confirmation",
    "high_risk_write_missing_explicit_confirmation": "the same, in a domain of high risk",
    "authorization_state_not_supported_by_evidence": "more was claimed than the evidence supports",
    "evidence_missing_authorization": "the evidence itself says that authorization is missing",
    "missing_evidence_refs": "a consequential call without evidence",
    "unsafe_redaction_status": "evidence that is not redacted",
    "stale_evidence": "evidence that is too old, or of unknown age",
    "invalid_retrieved_at": "the evidence's time cannot be read",
    "contradictory_evidence": "evidence that contradicts the call",
    "evidence_marks_missing_information": "the evidence says that information is missing",
    "evidence_secret_leak": "a secret stands in the evidence: revoke it",
    "evidence_pii_leak": "personal data stands in the evidence",
    "argument_secret_leak": "a secret stands in the arguments: revoke it",
    "event_secret_leak": "a secret stands elsewhere in the event: revoke it",
    "runtime_refusal": "the runtime itself recommended to refuse",
}

OTHERS = {
    "request_invalid": "gate 1 refuses the file in approved/: the message names rule and line",
    "rejected": "the operator said no, with their reason",
    "cancelled": "the operator stopped it",
    "interrupted": "the daemon ended while it ran: `threegate retry` asks anew",
    "no_backend": "waits: the sandbox is not there (`threegate doctor`)",
    "not_approved": "it is a draft: use `threegate reject`",
    "already_ended": "there is nothing left to stop",
    "unknown_request": "no draft of this name: `threegate status`",
    "unreadable": "an entry of the inbox that is no readable request file",
    "too_many_events": "one owner's files would flood the trail; the rest of the minute is only counted",
    "torn_tail": "the trail's torn end was set aside after a crash; work goes on",
    "proposal_changed": "what the proposal becomes is not what the draft says: let it be drafted again",
    "project_changed": "the project's files are not those that the run saw: run it again",
    "path_blocked": "the path may not be written (protected, outside of the project, or a link)",
    "result_unverified": "the run's record or output is not what the trail says",
    "session_exists": "a session of this name is open or was",
    "subtree_kill_off": "the parent session does not allow ending its children",
    "nothing_to_adopt": "the workspace lies where it always lay",
    "trail_invalid": "the trail does not verify: `threegate audit verify`",
    "no_auth": "the server was asked to listen beyond loopback without a token: set THREEGATE_TOKEN",
    "no_service": "no service of this name is installed: `threegate service install`",
    "not_ours": "the unit of this name was not written by ThreeGate: it is left alone",
    "replay_has_network": "a run with network cannot be run again for comparison",
}

WORKER = {
    "envelope_invalid": "the envelope was not signed by the workspace, or was changed on its way",
    "envelope_expired": "it came too late, or its inputs did: clocks, or a slow net",
    "envelope_misdirected": "it was made for another worker",
    "worker_unfit": "the worker's doctor found something: its own log and `threegate status` say what",
    "worker_full": "the worker has no room: it gives less than the daemon believes",
    "no_token": "the daemon gave no start token: it was cancelled, or given up, meanwhile",
    "worker_failed": "a mistake of ThreeGate itself on the worker: please report it",
}


def codes_page() -> str:
    """The whole page, ending with a newline."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Every exit code, status and reason code"
    yield ""
    yield "Made by `scripts/generate_docs.py`. Rules of gate 1 (TG…) stand in [rules.md](rules.md), diagnostics of contract"
    yield "files in [contracts.md](contracts.md), event types in [trail.md](trail.md)."
    yield from _table(
        "Exit codes of the command", "exit code", {str(code): text for code, text in EXITS.items()}
    )
    known = get_args(ToolResult.model_fields["status"].annotation)
    yield from _table("Status of a result", "status", {name: STATUSES[name] for name in known})
    yield from _table("Gate 2: approval", "reason", APPROVAL)
    waiting = ", ".join(f"`{code}`" for code in sorted(WAITING_CODES))
    yield from ("", f"{waiting} leave a request waiting; all others end it.")
    yield from _table("Gate 3a: the Agent Action Contract", "blocker", AANA)
    yield from _table("Gate 3b: contracts", "reason", REASONS)
    yield from _table("What a worker refuses (cluster.md)", "code", WORKER)
    yield from _table("Everything else", "reason", OTHERS)


def _table(title: str, what: str, rows: dict[str, str]) -> Iterator[str]:
    yield from ("", f"## {title}", "", f"| {what} | what it means, and what to do |", "|---|---|")
    for name, text in rows.items():
        yield f"| `{name}` | {text.replace('|', '/')} |"
