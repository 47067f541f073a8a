"""What a code means, in one sentence: for people who see it on a screen, and for docs/codes.md, which is made of this.

Invariant: the sentences are ours; a code that nobody gave one has none, and is then shown alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Final

from threegate.contracts.codes import CODES
from threegate.contracts.reasons import REASONS
from threegate.core.errors import EXIT_FAILED, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from threegate.trail.payloads import PAYLOADS, Payload

APPROVAL: Final[dict[str, str]] = {
    "signature_missing": "there is no signature: approve it",
    "signature_invalid": "the signature does not verify: approve again",
    "signature_file_malformed": "the .sig file is not spelled as ssh-keygen spells it: approve again",
    "signer_unknown": "the key is not one of this operator's: `threegate operator list`",
    "signer_revoked": "the key was revoked: approve with another",
    "signer_expired": "the key's or certificate's time is over, or did not begin",
    "statement_mismatch": "a genuine signature about something else (another request, a copy under another name)",
    "request_changed": "the bytes are not those that were read or signed: look again, approve again",
    "shown_changed": "the text that was signed is not what the request would be shown as now: approve again",
    "job_changed": "the same bytes would mean another job now (another version): approve again",
    "state_changed": "a stateful server was called, or its process ended, since the call was shown: ask for the call again",
    "input_missing": "a pinned input is not there any more",
    "input_changed": "an input is not the one that was declared or signed",
    "policy_changed": "settings, contracts, images or versions changed since: approve again",
    "operators_changed": "the operators' files are not the recorded ones: look, then `threegate operator record`",
    "workspace_mismatch": "another workspace, or moved: `threegate workspace adopt`; or approved before an adoption",
    "expired": "the approval's time (`approval.ttl`) is over: `threegate retry`",
    "not_yet_valid": "dated ahead of the clock: set the clocks of both machines",
    "replayed": "this id, approval or nonce was used before: `threegate retry` makes a fresh draft",
    "self_approval": "the requester cannot approve",
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
    "evidence_secret_leak": "a secret is in the evidence: revoke it",
    "evidence_pii_leak": "personal data is in the evidence",
    "argument_secret_leak": "a secret is in the arguments: revoke it",
    "event_secret_leak": "a secret is elsewhere in the event: revoke it",
    "runtime_refusal": "the runtime itself recommended to refuse",
}

OTHERS: Final[dict[str, str]] = {
    "request_invalid": "gate 1 refuses the file in approved/: the message names rule and line",
    "input_unfit": "an archive is no plain tar of files and folders, or no change set that may be applied: ask for another one",
    "rejected": "the operator said no, with their reason",
    "drill": "it is a drill: it is never signed, and nothing of it reaches an agent",
    "drill_over": "it was a drill and has ended: `threegate stats`",
    "draft_expired": "nobody decided on the draft within `approval.draft_ttl`: ask again with `threegate retry`",
    "cancelled": "the operator stopped it",
    "interrupted": "the daemon ended while it ran: `threegate retry` asks again",
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
    "arguments_unfit": "the tool's pinned schema does not take the call's arguments",
    "result_unverified": "the run's record or output is not what the trail says",
    "session_exists": "a session of this name is open or was",
    "subtree_kill_off": "the parent session does not allow ending its children",
    "nothing_to_adopt": "the workspace lies where it always lay",
    "trail_invalid": "the trail does not verify: `threegate audit verify`",
    "no_auth": "the server was asked to listen beyond loopback without a token: set THREEGATE_TOKEN",
    "no_service": "no service of this name is installed: `threegate service install`",
    "not_ours": "the unit of this name was not written by ThreeGate: it is left alone",
    "replay_has_network": "a run with network cannot be run again for comparison",
    "tools_unknown": "no server of this name, or no tool of this name in it: `threegate tools list`",
    "tools_known": "a server of this name is added: remove it first, or look at what changed with `threegate tools refresh`",
    "tools_changed": "a server of tools is not what an operator signed, or was signed again since: `threegate tools refresh`",
    "tools_fetched": "the command fetches code when it starts, so nothing could be pinned: install the server first",
    "server_not_started": "the process of a server of tools could not be started",
    "server_ended": "the process of a server of tools ended before it answered",
    "server_silent": "a server of tools did not answer in its time",
    "server_answer_too_large": "a server of tools wrote more than an answer may have",
    "server_protocol": "a server of tools sent an invalid answer: another id, two answers, or ambiguous JSON",
    "server_error": "a server of tools refused before anything was called, or offers no tools",
    "input_required": "a server of tools asked for something in the middle of a call, and got nothing",
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
    "interrupted": "the daemon ended while it ran; it never runs again automatically",
    "refused": "nothing of it ran; `reason` says why",
    "project_changed": "nothing was changed: the project is not what the change was made from; propose it again",
    "tool_error": "the tool was called, and answered with an error",
    "tools_changed": "nothing was called: the server is not what was signed any more (`threegate tools refresh`)",
    "state_changed": "nothing was called: the server was called, or its process ended, since this call was signed; ask again",
    "input_required": "the tool asked for something before it answered: ask again with it among the arguments",
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
    "worker_failed": "an internal error on the worker: please report it",
}

ROUTES: Final[dict[str, str]] = {
    "accept": "the tool call may run",
    "ask": "a person must be asked before the call may run",
    "defer": "the call needs stronger evidence, or another person, before it may run",
    "refuse": "the call may not run",
}
"""Routes of the Agent Action Contract."""


EXITS: Final[dict[str, str]] = {
    str(EXIT_OK): "fine. `run` and `run --once`: they did their work, even if requests failed",
    str(EXIT_REFUSED): "the file or act that was asked about is invalid or refused; `doctor`: a line failed",
    str(
        EXIT_FAILED
    ): "it could not be done: a program, the disk, the trail, another daemon; `run`: launches had to stop",
    str(EXIT_USAGE): "wrong usage, or no workspace here",
}
"""Exit codes of the command."""

DOCTOR: Final[dict[str, str]] = {
    "threegate": "the version that runs here, and its Python",
    "clock": "whether the clock can be right: approvals and the trail carry times",
    "ssh-keygen": "OpenSSH's program, which makes and checks every signature",
    "workspace": "whether there is one here",
    "settings": "whether threegate.toml can be read",
    "folders": "whether anybody else may write to tool-exec/, and whether every folder is a folder",
    "inbox": "who may write drafts",
    "operators": "who may approve, and whether others may change that",
    "trail": "whether the trail verifies and agrees with the head that is kept outside",
    "disk": "room for results and the trail",
    "projects": "the projects that this account can change, and why it cannot change the others",
    "daemon": "whether a daemon works in this workspace: without one nothing is started",
    "engine": "the container engine of ERA requests; without one they wait",
    "engine access": "who may speak to the engine: on most machines that is as good as being root",
    "works for you now": "the backends whose requests this account can run here now",
    "runtime": "the OCI runtime that containers run in, and its known ways out",
    "image": "the image that ERA requests run in",
    "egress_image": "the image of the proxy, the only way to a network",
    "monty": "the embedded sandbox",
    "monty worker": "whether a process of the embedded sandbox starts and answers",
    "era walls": "what a short test run tries from inside a container",
    "era: the way out": "whether a container reaches a network through the proxy, and by it alone",
    "tools": "the servers of tools that are added: whether each is what was signed, and whose rights it has",
    "agents": "the agents that `threegate agent run` finds on this account's PATH",
    "agents: libraries": "what the door and the relay to the model need; without them no agent is started",
    "agents: packages": "the Debian packages that the jail is made of (bubblewrap, socat); without them no agent is started",
    "agents: jail": "why no jail can be made here; no agent is started",
    "agents: limits": "whether memory and processes of an agent can be limited; agents start without that, and say so first",
    "agents: work copy": "whether an agent's copy of the project is an overlay, which is there at once, or a plain copy",
}
"""Lines of `threegate doctor`, by their names."""

WALLS: Final[dict[str, str]] = {
    "era: ": "a wall of the container sandbox, tried from inside by a short test run; `failure`: it did not hold, run nothing in it",
    "monty: ": "a wall of the embedded sandbox, tried from inside by a short test run; `failure`: it did not hold, run nothing in it",
    "agents: ": "a wall of the jail around agents, read back from inside one; `failure`: it does not hold, and no agent is started",
}
"""The other lines of `threegate doctor` begin so; the rest of the name says which wall."""

LOG: Final[dict[str, str]] = {
    "alone": "a signature is in approved/ without its request, or cannot follow it",
    "cancelling": "an operator asked to end a running request",
    "changing": "a draft is being written; it is looked at again",
    "checkpoint": "a trail checkpoint was signed, or could not be",
    "cluster": "what a daemon with a cluster reports about its broker and workers",
    "contracts": "the contracts folder has errors: every request that names a tool is refused until it is fixed",
    "cosigned": "a witness signed a trail checkpoint",
    "ended": "the daemon ended",
    "expired": "a draft was refused because nobody decided on it within `approval.draft_ttl`",
    "granted": "a grant covers the draft: it was put into approved/",
    "grants": "a grant cannot be read or used",
    "interrupting": "the daemon ends and stops what runs",
    "fixed": "an unfinished line at the end of the trail, or a lost move, was fixed at the start",
    "metrics": "the metrics file cannot be written",
    "notice": "a notice could not be sent, with the cause",
    "orphan": "something that a killed daemon left behind was removed",
    "proposal": "the outcome of a JSON action proposal",
    "readable": "a folder that could not be read can be again",
    "ready": "the daemon works",
    "recovered": "a request was brought to where the trail says it is",
    "recovery": "a request cannot be moved there automatically",
    "reloaded": "settings, contracts or images were read again, with what changed",
    "settings": "threegate.toml cannot be read: nothing is started until it is fixed",
    "stopped": "nothing more is launched, with the reason",
    "stopping": "a signal asked the daemon to end",
    "unreadable": "a file or folder of the inbox cannot be read",
    "verdict": "a draft was looked at; its verdict file says what was found",
    "watching": "the system does not report changes; the folders are checked at intervals",
    "witness": "a witness does not answer, or refuses",
}
"""First words of the daemon's log lines, besides states and statuses."""

HTTP: Final[dict[str, str]] = {
    "body_too_large": "the body is larger than is read",
    "body_too_slow": "the body did not arrive in time",
    "decision_log_not_writable": "decisions cannot be written down, so none is given",
    "decision_not_recorded": "the decision could not be written down: do not execute",
    "gate_not_usable": "the workspace's settings or contracts cannot be read: fix them there",
    "method_not_allowed": "this path takes another method",
    "metrics_not_readable": "the trail or a folder cannot be read by the server's account",
    "no_metrics": "the server has no workspace, or not the extra threegate[metrics]",
    "no_workspace": "the server was started without a workspace",
    "not_found": "there is nothing at this path",
    "not_judged": "the body says nothing that can be judged",
    "rate_limited": "too many requests from this address: wait as Retry-After says",
    "unauthorized": "no bearer token, or another one",
    "unsupported_media_type": "send Content-Type: application/json",
}
"""Codes of the HTTP server's answers that are no decision."""

WORDS: Final[dict[str, str]] = {
    "ok": "it is as it should be",
    "warning": "worth a look; it stops nothing",
    "failure": "it is not as it should be: fix it first",
    "error": "gate 1 refuses the file for this",
    "low": "risk: all code is on the screen, and it reaches nothing",
    "medium": "risk: it reaches a network, its data is not public, or not all its code is on the screen",
    "high": "risk: it changes things outside, or code that is not on the screen can reach out",
    "critical": "risk of a proposal: it deletes elsewhere or for good",
    "transparent": "all code that runs is on the screen or in an input that is named there",
    "opaque": "code may run that is not on the screen",
    "public": "data that anybody may see, as the request declares it",
    "internal": "data that is not public, as the request declares it",
    "confidential": "data for few, as the request declares it",
    "monty": "the embedded Python sandbox: code in the request, no network, nothing to install",
    "ERA": "a separate container for one command",
    "apply": "a change set that is written into a project, whole or not at all, and can be undone",
    "mcp": "one call of a tool of a server that the operator added",
    "none": "nothing: no network, or an authorization that nobody claims",
    "allowlist": "a network of named hosts and ports only",
    "pass": "AANA lets the call run",
    "fail": "AANA does not let the call run",
    "allow": "the contracts let the call run",
    "block": "the contracts, or the rules of proposals, do not let it run",
    "checkpoint": "the contracts ask a person first: `threegate checkpoint list`",
    "reject": "the proposal is not well-formed",
    "approval": "the proposal may become a draft, for an operator to decide on",
    "auto": "the proposal only reads; its draft is approved like any other",
    "committed": "the contracts count the call as done",
    "contract_violated": "the run's output breaks a rule of its contract",
    "user_claimed": "authorization: only a claim",
    "authenticated": "authorization: the requester is known",
    "validated": "authorization: checked, not confirmed by a person",
    "confirmed": "authorization: a person confirmed it by signature",
    "public_read": "a call that reads what anybody may see",
    "private_read": "a call that reads someone's private data",
    "write": "a call that changes something",
    "unknown": "it cannot be said",
}
"""Words of a closed list that a screen shows: risks, severities, verdicts, kinds of call."""


def description(code: str) -> str:
    """The sentence for a code or a route, or an empty text: where one code is many things, the reason before the state."""
    for table in (APPROVAL, REASONS, AANA, OTHERS, WORKER, PROPOSALS, ROUTES, STATUSES, STATES):
        if code in table:
            return _sentence(table[code])
    return ""


def descriptions(code: str) -> list[tuple[str, str]]:
    """Everything that a code of a screen or a file can mean: what kind of code it is, and its sentence."""
    tables: tuple[tuple[str, Mapping[str, str]], ...] = (
        ("reason", {**AANA, **REASONS, **OTHERS, **APPROVAL}),
        ("what a worker refuses", WORKER),
        ("status of a result", STATUSES),
        ("state of a verdict", STATES),
        ("finding about a proposal", PROPOSALS),
        ("route", ROUTES),
        ("diagnostic of a contract file", {name: item.help for name, item in CODES.items()}),
        ("kind of event", {kind: _first_words(cls) for kind, cls in PAYLOADS.items()}),
        ("exit code", EXITS),
        ("answer of the HTTP server", HTTP),
        ("line of doctor", DOCTOR),
        ("word of the daemon's log", LOG),
        ("word of a screen", WORDS),
    )
    found = [(kind, _sentence(table[code])) for kind, table in tables if code in table]
    if not found:
        found = [("line of doctor", _sentence(text)) for head, text in WALLS.items() if code.startswith(head)]
    return found


def _first_words(cls: type[Payload]) -> str:
    """The first paragraph of what a kind of event says of itself."""
    return " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())


def _sentence(text: str) -> str:
    text = text.replace("`", "")
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."
