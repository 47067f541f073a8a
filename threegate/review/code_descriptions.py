"""What each code means, in one sentence, for screens and for docs/codes.md, which is generated from this.

Invariant: the sentences are ours; a code without a sentence is shown alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Final

from threegate.contracts.codes import CODES
from threegate.contracts.reasons import REASONS
from threegate.core.errors import EXIT_FAILED, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from threegate.trail.event import known_kinds
from threegate.trail.payloads import Payload

APPROVAL: Final[dict[str, str]] = {
    "signature_missing": "there is no signature: approve it",
    "signature_invalid": "the signature does not verify: approve again",
    "signature_file_malformed": "the .sig file is not in the format that ssh-keygen writes: approve again",
    "signer_unknown": "the key is not one of this operator's: `threegate operator list`",
    "signer_revoked": "the key was revoked: approve with another",
    "signer_expired": "the key or certificate has expired or is not valid yet",
    "statement_mismatch": "a genuine signature about something else (another request, a copy under another name)",
    "request_changed": "the bytes differ from those that were read or signed: review and approve again",
    "shown_changed": "a setting in the text that was signed changed since: `threegate draft --again ID`, then approve",
    "job_changed": "the same bytes would now mean a different job: `threegate draft --again ID`, then approve",
    "state_changed": "a stateful server was called, or its process ended, since the call was shown: request "
    "the call again",
    "input_missing": "a pinned input no longer exists",
    "input_changed": "an input differs from the one that was declared or signed",
    "policy_changed": "settings, contracts or versions changed since: `threegate draft --again ID`, then approve",
    "operators_changed": "the operators' files differ from the recorded ones: check them, then `threegate "
    "operator record --yes`",
    "workspace_mismatch": "another workspace, or moved: `threegate settings adopt`; or approved before an adoption",
    "expired": "the approval has expired (`approval.ttl`): `threegate draft --again ID`",
    "not_yet_valid": "dated ahead of the clock: set the clocks of both machines",
    "replayed": "this id, approval or nonce was used before: `threegate draft --again ID` makes a fresh draft",
    "approval_void": "its file was not in approved/ when a daemon started, so the trail calls the approval void: "
    "approve again",
    "unknown_event": "its history has an event of a kind that is not known here: install the plugin or the version "
    "that wrote it, or reject it",
    "event_unreadable": "an event of a plugin names what it used up in a form that cannot be read: nothing is "
    "launched; `threegate audit verify`",
    "self_approval": "the requester cannot approve",
    "quorum_missing": "waiting for further operators: `threegate approve`",
    "clock_went_back": "the clock is behind the trail: set it (see faq.md)",
    "backend_off": "its backend is of a plugin that is off (plugins.off in threegate.toml)",
    "approval_not_judged": "nobody signed it itself, and what covers it belongs to a plugin that is off or absent: "
    "turn that on, or `threegate cancel ID`, `threegate draft --again ID` and approve the new draft",
    "grants_off": "standing grants are off: `grants.allow`",
    "grant_missing": "the grant is not valid: `threegate grant list`",
    "grant_used_up": "the grant has no uses left: make a new one",
    "grant_mismatch": "the grant is not for this request",
}

AANA: Final[dict[str, str]] = {
    "contract_normalization_failed": "the event is not well-formed",
    "unknown_tool_category": "it is unknown whether the call reads or writes: a person must look",
    "category_contradicts_tool_name": "declared as a public read, but named like an action",
    "public_read_identity_bound_misclassified": "declared as a public read, but tied to a person or account",
    "private_read_not_authenticated": "a private read needs an authenticated subject",
    "write_missing_authorization": "a write without any authorization",
    "write_missing_validation_or_confirmation": "a write needs validation and confirmation",
    "write_missing_explicit_confirmation": "a write needs an explicit confirmation",
    "high_risk_write_missing_explicit_confirmation": "the same, in a domain of high risk",
    "authorization_state_not_supported_by_evidence": "more was claimed than the evidence supports",
    "evidence_missing_authorization": "according to the evidence, authorization is missing",
    "missing_evidence_refs": "a consequential call without evidence",
    "unsafe_redaction_status": "evidence that is not redacted",
    "stale_evidence": "evidence that is too old, or of unknown age",
    "invalid_retrieved_at": "the evidence's time cannot be read",
    "contradictory_evidence": "evidence that contradicts the call",
    "evidence_marks_missing_information": "according to the evidence, information is missing",
    "evidence_secret_leak": "a secret is in the evidence: revoke it",
    "evidence_pii_leak": "personal data is in the evidence",
    "argument_secret_leak": "a secret is in the arguments: revoke it",
    "event_secret_leak": "a secret is elsewhere in the event: revoke it",
    "runtime_refusal": "the runtime itself recommended refusing",
}

OTHERS: Final[dict[str, str]] = {
    "request_invalid": "gate 1 refuses the file in approved/: the message names rule and line",
    "input_unfit": "an archive is not a plain tar of files and folders, or not a change set that may be "
    "applied: ask for another one",
    "rejected": "the operator rejected it, with a reason",
    "changes_requested": "the operator asked for changes: the words are for the requester alone",
    "superseded": "a part of its change was taken as a draft of its own: `threegate show ID` names it",
    "part_unknown": "the draft names a change that it is a part of, and the trail does not say so: reject it",
    "drill": "it is a drill: it is never signed, and no agent sees it",
    "drill_over": "it was a drill and has ended: `threegate audit stats`",
    "draft_expired": "nobody decided on the draft within `approval.draft_ttl`: ask again with `threegate draft "
    "--again ID`",
    "cancelled": "the operator stopped it",
    "interrupted": "the daemon or its worker ended while it ran: `threegate draft --again ID` asks again",
    "folder_replaced": "a folder of the workspace is a link or is missing: restore the folder (`threegate doctor`)",
    "id_taken": "another account's file used the proposal's request_id first: change the proposal",
    "in_use": "another process or thread uses this decision (decisions.md)",
    "caller_absent": "waiting: the program that makes this call has not used its decision yet (decisions.md)",
    "no_backend": "waiting: the sandbox is not available (`threegate doctor`)",
    "not_approved": "it is a draft: use `threegate reject ID`",
    "already_ended": "there is nothing left to stop",
    "unknown_request": "no draft with this name: `threegate status`",
    "unreadable": "an entry in the inbox is not a readable request file",
    "too_many_events": "one owner's files would flood the trail; the rest of the minute is only counted",
    "torn_tail": "the trail's torn end was set aside after a crash; work continues",
    "program_missing": (
        "the sandbox image lacks the program: name another, or let the operator build an image that has it"
    ),
    "input_undeclared": "the command names a file of /in that no declared input brings: declare it, or name another",
    "script_unfit": "the Python that the command runs would not be loaded: it does not parse, or a module is missing",
    "source_missing": "the plugin that made the draft is off or absent, and only it can check the draft",
    "proposal_changed": "the proposal would now become a different draft: have it drafted again",
    "project_changed": "the project differs from the one the change was made from: have it proposed again",
    "project_unknown": "no project with this name is registered: `threegate project list`",
    "project_not_writable": "waiting: the daemon may not change the project, or is making another change in it",
    "host_unasked": "the draft is not what an agent's run asked for with request_host: reject it",
    "host_closed": "the host was taken back from the run, or the run has ended",
    "arguments_unfit": "the call's arguments do not match the tool's pinned schema",
    "result_unverified": "the run's record or output does not match the trail",
    "session_exists": "a session with this name exists or existed",
    "subtree_kill_off": "the parent session does not allow ending its children",
    "nothing_to_adopt": "the workspace has not moved",
    "trail_invalid": "the trail does not verify: `threegate audit verify`",
    "no_auth": "the server may not listen beyond loopback without a token: set THREEGATE_TOKEN",
    "no_service": "no service with this name is installed: `threegate settings service install`",
    "not_ours": "the unit with this name was not written by ThreeGate and is left unchanged",
    "replay_has_network": "a run with network cannot be run again for comparison",
    "tools_unknown": "no such server, or no such tool of it, or not one for this run: `threegate tools list`",
    "tools_known": "a server with this name exists: remove it first, or see what changed with `threegate "
    "tools refresh NAME`",
    "tools_changed": "a tool server differs from what an operator signed, or was signed again since: "
    "`threegate tools refresh NAME`",
    "tools_unsafe": "the code of a tool server could be exchanged: others or the server itself may write it, "
    "or the folder has much more in it",
    "url_refused": "the URL of a tool server, or one that it names, is not https, leads elsewhere, or to an address "
    "that is not public",
    "tools_fetched": "the command fetches code when it starts, so nothing could be pinned: install the server first",
    "login_required": "a remote server needs a login, or its login is lost or over: `threegate tools login NAME`",
    "login_refused": "a login ended without a token, because something of it was not as it must be: nothing is kept; "
    "log in again, or ask who runs the server",
    "login_account": "only the account that runs the daemon can log in to a remote server: run it as that account",
    "server_not_started": "the process of a tool server could not be started",
    "server_ended": "the process of a tool server exited before it answered",
    "server_silent": "a tool server did not answer in time",
    "server_answer_too_large": "a tool server sent more than the limit for an answer",
    "server_protocol": "a tool server sent an invalid answer: a wrong id, two answers, or ambiguous JSON",
    "server_error": "a tool server refused before anything was called, or offers no tools",
    "input_required": "a tool server asked for something during a call and got nothing",
}

STATUSES: Final[dict[str, str]] = {
    "succeeded": "it ran to completion with exit code 0",
    "exited": "the command ran to its end with an exit code from 1 to 124, which may be its answer",
    "failed": "an error ended it, or it finished with an exit code above 124",
    "timed_out": "stopped at time_limit_sec",
    "out_of_memory": "stopped at memory_limit_mb",
    "process_limit": "stopped at the limit on processes",
    "output_exceeded": "stopped at a limit on /out, stdout or stderr",
    "cancelled": "stopped by the operator, or because its parent session ended",
    "unavailable": "not one instruction ran: the sandbox could not be created",
    "interrupted": "the daemon ended while it ran; it never runs again automatically",
    "refused": "it did not run; `reason` says why",
    "project_changed": "nothing was changed: the project differs from the one the change was made from; "
    "propose it again",
    "tool_error": "the tool was called, and answered with an error",
    "tools_changed": (
        "nothing was called: the server no longer matches what was signed (`threegate tools refresh NAME`)"
    ),
    "state_changed": (
        "nothing was called: the server was called, or its process ended, since this call was signed; ask again"
    ),
    "login_required": "nothing was called: the server wants a login, or another one (`threegate tools login NAME`)",
    "input_required": "the tool asked for something before it answered: call it again with that in the arguments",
}

STATES: Final[dict[str, str]] = {
    "draft": "a draft that passed gate 1 and is waiting for an operator: `threegate approve`",
    "invalid": "gate 1 refuses the draft: fix what its findings name",
    "approved": "signed, and waiting for the daemon",
    "waiting": "signed, and waiting for what `reason` names",
    "running": "the daemon claimed it and it is running",
    "finished": "it ran, and its result says how; a proposal without a draft: its verdict is the answer",
    "rejected": "the operator rejected the draft",
}
"""States of a verdict, apart from the statuses."""

PROPOSALS: Final[dict[str, str]] = {
    "json": "the proposal is not a strict JSON object",
    "version": "an unknown schemaVersion",
    "tool": "an unknown tool: the schema has 25 tools, spelled exactly",
    "missing": "a required key is missing",
    "unknown_key": "a key that is not in the schema",
    "type": "a value whose type differs from the schema",
    "range": "a number out of range",
    "glob": "project.cleanup_safe takes paths, not globs: name each path",
    "length": "a text or list that is too short or too long",
    "risk": "not one of the four risks, or lower than the tool requires",
    "uri": "not an http or https address, or one with credentials",
    "date_time": "createdAt is not a date and time (RFC 3339)",
    "drafted_before": "the same proposal was drafted before; its draft or result has the same id",
    "verdict_only": "the tool has no draft: the verdict is the answer",
    "no_draft": "the proposal is allowed and could not be drafted: `problem` in its verdict says why",
    "installs": "installing is never allowed",
    "path_outside": "the path leaves the project",
    "path_hidden": "the path contains a hidden character",
    "path_device": "the path names a device",
    "path_too_long": "the path is too long",
    "path_own": "the path belongs to ThreeGate itself",
    "path_guard": "it would write to the settings of a guard",
    "url_private": "a private host, which needs allowPrivate and a declared risk of high",
    "url_metadata": "a cloud metadata host, which is never allowed",
    "url_name": "a host name that no allowlist accepts",
    "sensitive": "typing into a field for a secret, or typing what looks like one",
    "argv_refused": "the rules for commands refuse it",
    "argv_destroys": "the command is destructive",
    "argv_encodes": "the command names an encoder or eval",
    "argv_metacharacters": "an argument contains shell syntax: pass the text in a file",
    "argv_command_inside": "an argument is itself a command that may not run",
    "argv_inline_deletion": "an argument is code that deletes",
    "argv_hidden": "an argument contains a line break or a hidden character",
    "argv_secret": "an argument is a secret",
    "argv_critical": "it deletes data elsewhere or for good",
    "argv_unusual": "the program is not on the list of common programs",
    "cwd": "a folder in which a request cannot start",
    "gate_1": "the finished draft breaks a rule for requests",
}

WORKER: Final[dict[str, str]] = {
    "envelope_invalid": "the envelope was not signed by the workspace, or was changed in transit",
    "envelope_expired": "it or its inputs arrived too late: check the clocks and the network",
    "envelope_misdirected": "it was made for another worker",
    "worker_unfit": "the worker's doctor found a problem: see its log and `threegate status`",
    "worker_full": "the worker has less capacity than the daemon expected",
    "no_token": "the daemon gave no start token: the request was cancelled or given up meanwhile",
    "worker_failed": "an internal error on the worker: please report it",
}

ROUTES: Final[dict[str, str]] = {
    "accept": "the tool call may run",
    "ask": "a person must be asked before the call may run",
    "defer": "the call needs stronger evidence or another person before it may run",
    "refuse": "the call may not run",
}
"""Routes of the Agent Action Contract."""


EXITS: Final[dict[str, str]] = {
    str(EXIT_OK): "success. For `run` and `run --once`: the daemon did its work, even if requests failed",
    str(EXIT_REFUSED): "the file or action is invalid or refused; `doctor`: a check failed",
    str(
        EXIT_FAILED
    ): "it could not be done because of a program, the disk, the trail or another daemon; `run`: launches had to stop",
    str(EXIT_USAGE): "wrong usage, or no workspace here",
}
"""Exit codes of the command line."""

DOCTOR: Final[dict[str, str]] = {
    "threegate": "the installed version and its Python",
    "clock": "whether the clock is plausible: approvals and the trail contain times",
    "ssh-keygen": "OpenSSH's program, which makes and checks every signature",
    "workspace": "whether there is a workspace here",
    "settings": "whether threegate.toml can be read",
    "folders": "whether others may write to tool-exec/, and whether every folder is a real folder",
    "inbox": "who may write drafts",
    "operators": "who may approve, and whether others may change that",
    "trail": "whether the trail verifies and agrees with the head stored outside",
    "disk": "room for results and the trail",
    "plugins": "the plugins: which are on, which are off, and which are missing here",
    "projects": "the projects that this account can change, and why it cannot change the others",
    "daemon": "whether a daemon is running for this workspace: without one nothing is started",
    "bubblewrap": "whether ERA requests can run without a container engine: bubblewrap, user namespaces, the root",
    "era root": "the root file system of runs without an engine, and the digest that their approvals name",
    "era network": "what a run without an engine lacks for the hosts of its allowlist",
    "era limits": "whether the kernel enforces all limits of runs without an engine, or memory is only watched",
    "engine": "the container engine of ERA requests; without one they run in bubblewrap",
    "workers": "how many workers of a cluster accept work, where they run everything",
    "cluster: ": "a worker of the cluster: its version, its operators, and when it was last heard",
    "cluster: certificates": "the certificates of daemon, CA and broker, and how long they are valid",
    "engine access": "who may access the engine: on most machines that is equivalent to root",
    "works for you now": "the backends whose requests this account can run here now",
    "runtime": "the OCI runtime that containers run in, and its known escapes",
    "image": "the image in which ERA requests run",
    "egress_image": "the image of the proxy, the only way to a network",
    "monty": "the embedded sandbox",
    "monty worker": "whether a process of the embedded sandbox starts and answers",
    "era walls": "what a short test run tries from inside the sandbox for commands",
    "era: the way out": "whether a container reaches a network through the proxy, and only through it",
    "tools": "the tool servers: whether each matches what was signed, and whose rights it has",
    "agents": "the agents that `threegate agent run PROFILE` finds on this account's PATH",
    "agents: libraries": "the libraries for the agent's MCP server and the relay to the model; without them "
    "no agent is started",
    "agents: packages": (
        "the Debian packages that the jail is made of (bubblewrap, socat); without them no agent is started"
    ),
    "agents: jail": "why no jail can be made here; no agent is started",
    "agents: limits": "whether memory of an agent can be limited; without a limit, agents start with a warning",
    "agents: work copy": "whether an agent's copy of the project is an overlay, which is ready at once, or a "
    "plain copy",
}
"""Lines of `threegate doctor`, by name."""

WALLS: Final[dict[str, str]] = {
    "era: ": "a restriction of the sandbox for commands, tested from inside by a short run; `failure`: it was "
    "broken, run nothing in it",
    "monty: ": "a restriction of the embedded sandbox, tested from inside by a short run; `failure`: it was "
    "broken, run nothing in it",
    "agents: ": "a restriction of the agents' jail, read back from inside one; `failure`: it is not in "
    "force, and no agent is started",
}
"""Prefixes of the other lines of `threegate doctor`; the rest of the name says which restriction."""

LOG: Final[dict[str, str]] = {
    "alone": "a signature is in approved/ without its request, or could not be moved with it",
    "cancelling": "an operator asked to end a running request",
    "changing": "a draft is being written; it is checked again later",
    "checkpoint": "a trail checkpoint was signed or could not be signed",
    "cluster": "what a daemon with a cluster reports about its broker and workers",
    "contracts": "the contracts folder has errors: every request that names a tool is refused until it is fixed",
    "cosigned": "a witness signed a trail checkpoint",
    "ended": "the daemon exited",
    "expired": "a draft was refused because no operator decided on it within `approval.draft_ttl`",
    "full": "the disk has no space (bytes or inodes): what finds none is tried again; make room",
    "granted": "a grant covers the draft: it was moved to approved/",
    "grants": "a grant cannot be read or used",
    "interrupting": "the daemon is exiting and stops running requests",
    "fixed": "an unfinished line at the end of the trail, or a lost move, was fixed at startup",
    "metrics": "the metrics file cannot be written",
    "notice": "a notice could not be sent, with the cause",
    "orphan": "something that a killed daemon left behind was removed",
    "proposal": "the outcome of a JSON action proposal",
    "readable": "a folder that could not be read is readable again",
    "ready": "the daemon is running",
    "recovered": "a request was moved to the folder that the trail says",
    "recovery": "a request could not be moved there automatically",
    "reloaded": "settings, contracts or images were reloaded, with what changed",
    "settings": "threegate.toml cannot be read: nothing is started until it is fixed",
    "space": "the disk was full and has space again",
    "stopped": "launches have stopped, with the reason",
    "stopping": "a signal told the daemon to exit",
    "unreadable": "a file or folder in the inbox cannot be read",
    "verdict": "a draft was checked; its verdict file has the findings",
    "watching": "the system reports no file changes; the folders are checked at intervals",
    "witness": "a witness does not answer, or refuses",
}
"""First words of the daemon's log lines, apart from states and statuses."""

HTTP: Final[dict[str, str]] = {
    "body_too_large": "the body is too large",
    "body_too_slow": "the body did not arrive in time",
    "decision_log_not_writable": "decisions cannot be recorded, so none is returned",
    "decision_not_recorded": "the decision could not be recorded: do not execute",
    "gate_not_usable": "the workspace's settings or contracts cannot be read: fix them there",
    "method_not_allowed": "this path expects another method",
    "metrics_not_readable": "the trail or a folder cannot be read by the server's account",
    "no_metrics": "the server has no workspace, lacks the extra threegate[metrics], or its plugin evidence is off",
    "no_workspace": "the server was started without a workspace",
    "not_found": "there is nothing at this path",
    "not_judged": "the body contains nothing that can be judged",
    "rate_limited": "too many requests from this address: wait as Retry-After says",
    "wrong_host": "without a token the server answers only to a Host of this machine",
    "unauthorized": "the bearer token is missing or wrong",
    "unsupported_media_type": "send Content-Type: application/json",
}
"""Error codes of the HTTP server."""

WORDS: Final[dict[str, str]] = {
    "ok": "everything is in order",
    "warning": "worth a look; it blocks nothing",
    "failure": "a problem: fix it first",
    "error": "gate 1 refuses the file because of this",
    "low": "risk: all code is on the screen, and it reaches nothing",
    "medium": "risk: it reaches a network, its data is not public, or not all its code is on the screen",
    "high": "risk: it changes things outside, or code that is not on the screen can reach out",
    "critical": "risk of a proposal: it deletes elsewhere or for good",
    "transparent": "all code that runs is on the screen or in an input named there",
    "opaque": "code may run that is not on the screen",
    "public": "data that anyone may see, according to the request",
    "internal": "data that is not public, according to the request",
    "confidential": "data for few people, according to the request",
    "monty": "the embedded Python sandbox: code in the request, no network, nothing to install",
    "ERA": "a separate container for one command",
    "apply": "a change set that is written into a project, completely or not at all, and can be undone",
    "mcp": "one tool call to a server that the operator added",
    "reach": "one host by HTTPS, for the run of an agent that asks and until it ends",
    "none": "none: no network, or no claim of authorization",
    "allowlist": "a network of named hosts and ports only",
    "pass": "AANA lets the call run",
    "fail": "AANA does not let the call run",
    "allow": "the contracts let the call run",
    "block": "the contracts, or the rules of proposals, do not let it run",
    "checkpoint": "the contracts require a person's answer first: `threegate contracts checkpoints`",
    "reject": "the proposal is not well-formed",
    "approval": "the proposal may become a draft, for an operator to decide on",
    "auto": "the proposal only reads; its draft is approved like any other",
    "committed": "the contracts count the call as done",
    "contract_violated": "the run's output breaks a rule of its contract",
    "user_claimed": "authorization: only a claim",
    "authenticated": "authorization: the requester is known",
    "validated": "authorization: checked, not confirmed by a person",
    "confirmed": "authorization: a person confirmed it by signature",
    "public_read": "a call that reads public data",
    "private_read": "a call that reads someone's private data",
    "write": "a call that changes something",
    "unknown": "it is not known",
}
"""Words of a closed set that a screen shows: risks, severities, verdicts, kinds of call."""


def description(code: str) -> str:
    """The sentence for a code or a route, a reason before a state; empty if there is none."""
    for table in (APPROVAL, REASONS, AANA, OTHERS, WORKER, PROPOSALS, ROUTES, STATUSES, STATES):
        if code in table:
            return _sentence(table[code])
    return ""


def descriptions(code: str) -> list[tuple[str, str]]:
    """Every meaning of a code on a screen or in a file: the kind of code and its sentence."""
    tables: tuple[tuple[str, Mapping[str, str]], ...] = (
        ("reason", {**AANA, **REASONS, **OTHERS, **APPROVAL}),
        ("what a worker refuses", WORKER),
        ("status of a result", STATUSES),
        ("state of a verdict", STATES),
        ("finding about a proposal", PROPOSALS),
        ("route", ROUTES),
        ("diagnostic of a contract file", {name: item.help for name, item in CODES.items()}),
        ("kind of event", {kind: _first_words(cls) for kind, cls in known_kinds().items()}),
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
    """The first paragraph of the docstring of an event type."""
    return " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())


def _sentence(text: str) -> str:
    text = text.replace("`", "")
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."
