"""What a code means, in one sentence: for people who see it on a screen, and for docs/codes.md, which is made of this.

Invariant: the sentences are ours; a code that nobody gave one has none, and is then shown alone.
"""

from __future__ import annotations

from typing import Final

from threegate.contracts.reasons import REASONS

APPROVAL: Final[dict[str, str]] = {
    "signature_missing": "there is no signature: approve it",
    "signature_invalid": "the signature does not verify: approve anew",
    "signature_file_malformed": "the .sig file is not spelled as ssh-keygen spells it: approve anew",
    "signer_unknown": "the key is not one of this operator's: `threegate operator list`",
    "signer_revoked": "the key was revoked: approve with another",
    "signer_expired": "the key's or certificate's time is over, or did not begin",
    "statement_mismatch": "a genuine signature about something else (another request, a copy under another name)",
    "request_changed": "the bytes are not those that were read or signed: look again, approve anew",
    "shown_changed": "the text that was signed is not what the request would be shown as now: approve anew",
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

AANA: Final[dict[str, str]] = {
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

OTHERS: Final[dict[str, str]] = {
    "request_invalid": "gate 1 refuses the file in approved/: the message names rule and line",
    "input_unfit": "an archive is no plain tar of files and folders, or no change set that may be applied: ask for another one",
    "rejected": "the operator said no, with their reason",
    "cancelled": "the operator stopped it",
    "interrupted": "the daemon ended while it ran: `threegate retry` asks anew",
    "folder_replaced": "a folder of the workspace is a link or is gone: put the folder back (`threegate doctor`)",
    "id_taken": "another account's file used the proposal's request_id first: change the proposal",
    "no_backend": "waits: the sandbox is not there (`threegate doctor`)",
    "not_approved": "it is a draft: use `threegate reject`",
    "already_ended": "there is nothing left to stop",
    "unknown_request": "no draft of this name: `threegate status`",
    "unreadable": "an entry of the inbox that is no readable request file",
    "too_many_events": "one owner's files would flood the trail; the rest of the minute is only counted",
    "torn_tail": "the trail's torn end was set aside after a crash; work goes on",
    "program_missing": "the sandbox image lacks the program: name another, or let the operator build an image that has it",
    "proposal_changed": "what the proposal becomes is not what the draft says: let it be drafted again",
    "project_changed": "the project is not what the change was made from: have it proposed again",
    "project_unknown": "no project of this name is registered: `threegate project list`",
    "project_not_writable": "waits: the daemon may not change the project, or another change of it is being made",
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

STATUSES: Final[dict[str, str]] = {
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
    "project_changed": "nothing was changed: the project is not what the change was made from; propose it again",
}

STATES: Final[dict[str, str]] = {
    "draft": "a draft that passed gate 1 and waits for an operator: `threegate approve`",
    "invalid": "gate 1 refuses the draft: fix what its findings name",
    "approved": "signed, and waits for the daemon",
    "waiting": "signed, and waits for what `reason` names",
    "running": "the daemon claimed it, and it runs",
    "finished": "it ran; its result says how",
    "rejected": "the operator said no to the draft",
}
"""States of a verdict, besides the statuses."""

PROPOSALS: Final[dict[str, str]] = {
    "json": "the proposal is no strict JSON object",
    "version": "another schemaVersion than the one that is known",
    "tool": "the schema knows 25 tools, spelled exactly",
    "missing": "a required key is not there",
    "unknown_key": "a key that the schema does not know",
    "type": "a value of another type than the schema asks for",
    "range": "a number outside of its bounds",
    "glob": "project.cleanup_safe takes paths, no globs: name each path",
    "length": "a text or list that is too short or too long",
    "risk": "no risk of the four, or a lower one than the tool needs",
    "uri": "no http or https address, or one with credentials",
    "date_time": "createdAt is no date and time (RFC 3339)",
    "drafted_before": "the same proposal was drafted before; its draft or result is under the same id",
    "verdict_only": "the tool has no draft: the verdict is the answer",
    "no_draft": "the proposal is allowed and could not be drafted: `problem` in its verdict says why",
    "installs": "installing is never allowed",
    "path_outside": "the path leaves the project",
    "path_hidden": "the path has a hidden character",
    "path_device": "the path names a device",
    "path_too_long": "the path is too long",
    "path_own": "the path belongs to ThreeGate itself",
    "path_guard": "writing to the settings of a guard",
    "url_private": "a private host, which needs allowPrivate and a declared risk of high",
    "url_metadata": "a cloud's metadata host, never",
    "url_name": "a host name that no allowlist takes",
    "sensitive": "typing into a field for a secret, or typing what looks like one",
    "argv_refused": "the rules for commands refuse it",
    "argv_destroys": "the command destroys",
    "argv_encodes": "the command names an encoder or eval",
    "argv_metacharacters": "an argument has what a shell acts on: pass the text in a file",
    "argv_command_inside": "an argument is itself a command that may not run",
    "argv_inline_deletion": "an argument is code that deletes",
    "argv_hidden": "an argument has a line break or a hidden character",
    "argv_secret": "an argument is a secret",
    "argv_critical": "it deletes data elsewhere or for good",
    "argv_unusual": "the program is not among the usual ones",
    "cwd": "a folder that a request cannot start in",
    "gate_1": "the finished draft does not pass the rules of requests",
}

WORKER: Final[dict[str, str]] = {
    "envelope_invalid": "the envelope was not signed by the workspace, or was changed on its way",
    "envelope_expired": "it came too late, or its inputs did: clocks, or a slow net",
    "envelope_misdirected": "it was made for another worker",
    "worker_unfit": "the worker's doctor found something: its own log and `threegate status` say what",
    "worker_full": "the worker has no room: it gives less than the daemon believes",
    "no_token": "the daemon gave no start token: it was cancelled, or given up, meanwhile",
    "worker_failed": "a mistake of ThreeGate itself on the worker: please report it",
}

ROUTES: Final[dict[str, str]] = {
    "accept": "the tool call may run",
    "ask": "somebody has to be asked before the call may run",
    "defer": "the call needs stronger evidence, or somebody else, before it may run",
    "refuse": "the call may not run",
}
"""Routes of the Agent Action Contract."""


def meaning(code: str) -> str:
    """The sentence for a code or a route, or an empty text."""
    for table in (APPROVAL, REASONS, AANA, OTHERS, WORKER, PROPOSALS, ROUTES, STATUSES, STATES):
        if code in table:
            text = table[code].replace("`", "")
            return f"{text[0].upper()}{text[1:].removesuffix('.')}."
    return ""
