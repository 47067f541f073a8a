"""The sessions of a workspace on disk: a fold over the trail, with a cache file that saves reading it again.

Invariant: a session's state is a function of the trail's events (and of the files whose digests they name),
folded in order under the compiled contracts; `.state/sessions.json` is only that fold up to `trail_seq` and
may be deleted at any time. If a file is missing, the session is blocked: `session_state_lost`.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from threegate.contracts.calls import plans_of
from threegate.contracts.session_table import SessionTable
from threegate.contracts.state import Answer, Call, CallOutcome, Decision, Session
from threegate.core import durable, limits
from threegate.core.canonical import StrictJSONError, canonical_bytes, loads_strict
from threegate.core.errors import Refused
from threegate.trail.payloads import (
    Cancelled,
    Claimed,
    ContractCheckpointAnswered,
    ContractMove,
    Finished,
    Interrupted,
    SessionKilled,
    SessionOpened,
    Stopped,
    Waiting,
)

if TYPE_CHECKING:
    from threegate.contracts.compiled import Compiled
    from threegate.core.workspace import Workspace
    from threegate.trail.event import Event
    from threegate.trail.trail import LockedTrail

STATE_VERSION = 1
"""Higher whenever the same events fold to another state: a kept fold of an earlier version is not read."""


class Sources(Protocol):
    """Where the fold finds data that an event names only by digest. None: missing or changed."""

    def call(self, event: Event) -> Call | None:
        """The call of a `claimed` event, from the request file."""

    def outcome(self, event: Event) -> CallOutcome | None:
        """The outcome of an event of the end, from record.json and /out/result.json."""


class SessionStore:
    """The sessions of one workspace. All methods are called under the trail's lock."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._table: SessionTable | None = None
        self._seq = 0
        self._unsaved = 0
        self._key = ""

    @property
    def path(self) -> Path:
        """The state file."""
        return self.workspace.contracts / ".state" / "sessions.json"

    def view(self, held: LockedTrail, compiled: Compiled, sources: Sources) -> SessionTable:
        """The session table according to the current trail. A state file that cannot be written only costs time."""
        table = self._table
        if table is None or self._key != compiled.sha256:
            table = self._load(held, compiled)
        self._table = None  # an event that cannot be applied may leave the table half changed: it is not kept
        for event in held.index.session_events_after(self._seq):
            _fold(table, event, sources)
            self._seq = event.seq
            self._unsaved += 1
        self._table = table
        if self._unsaved >= limits.CONTRACT_EVENTS_UNSAVED:
            with suppress(OSError):  # a full disk, for instance: then the next process folds more of the trail
                self._save(held, table)
        return table

    def _load(self, held: LockedTrail, compiled: Compiled) -> SessionTable:
        """The session table of the state file, or an empty one from which the whole trail is folded."""
        table = SessionTable(compiled)
        self._seq, self._unsaved, self._key = 0, 0, compiled.sha256
        try:
            data = durable.read_regular(self.path, max_bytes=limits.CONTRACT_STATE_BYTES)
            kept = loads_strict(data, max_bytes=limits.CONTRACT_STATE_BYTES, max_depth=2 * limits.JSON_DEPTH)
            known = held.index.hash_at(kept["trail_seq"])
            if (
                kept["version"] == STATE_VERSION
                and kept["contracts_sha256"] == compiled.sha256
                and kept["workspace_id"] == held.index.workspace_id
                and kept["trail_seq"] <= held.index.head.seq
                # A trail that was put back from a backup may have another event of this number.
                and known in (None, kept["trail_hash"])
            ):
                table = SessionTable.from_json(compiled, kept["book"])
                self._seq = kept["trail_seq"]
        except (OSError, StrictJSONError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
            pass  # a missing or unreadable cache is not a problem: the trail is folded again
        return table

    def _save(self, held: LockedTrail, table: SessionTable) -> None:
        """Save the fold; the file records the last event it includes."""
        if not self.path.parent.is_dir():
            durable.make_folder(self.path.parent)
        value = {
            "version": STATE_VERSION,
            "workspace_id": held.index.workspace_id,
            "contracts_sha256": self._key,
            "trail_seq": self._seq,
            "trail_hash": held.index.hash_at(self._seq) or "",
            "book": table.to_json(),
        }
        durable.overwrite(self.path, canonical_bytes(value) + b"\n")
        self._unsaved = 0


def _fold(table: SessionTable, event: Event, sources: Sources) -> None:
    """Apply one event."""
    match event.payload:
        case SessionOpened() as opened:
            _opened(table, opened)
        case SessionKilled() as killed:
            _killed(table, killed)
        case ContractCheckpointAnswered() as answered:
            table.answers[event.request_id or ""] = Answer(
                answered.call_sha256 or "", answered.approve, event.when, event.actor
            )
        case Waiting():
            table.asked.setdefault(event.request_id or "", event.when)
        case (Claimed() | Stopped()) as payload if payload.contract is not None:
            _moved(table, event, payload, payload.contract, sources)


def _opened(table: SessionTable, opened: SessionOpened) -> None:
    if opened.session is None:
        return
    try:
        table.open(
            opened.session,
            requester=opened.requester or "",
            workflow=opened.workflow,
            role=opened.role,
            parent=opened.parent,
        )
    except (Refused, KeyError):
        return  # the contracts no longer have this role: requests that name the session are blocked


def _killed(table: SessionTable, killed: SessionKilled) -> None:
    try:
        if killed.scope == "close":
            table.close(killed.name or "")
        else:
            table.kill(killed.scope or "", killed.name or "")
    except (Refused, KeyError):
        return  # what does not exist cannot run


def _session(table: SessionTable, contract: ContractMove) -> Session | None:
    """The session of an event; a requester's default one exists once it is used."""
    requester = contract.requester or ""
    if contract.session == f"default:{requester}":
        return table.default_session(requester)
    return table.sessions.get(contract.session or "")


def _moved(
    table: SessionTable, event: Event, payload: Claimed | Stopped, contract: ContractMove, sources: Sources
) -> None:
    """A call was claimed, ended or refused."""
    session = _session(table, contract)
    if session is None:
        return
    request_id = event.request_id or ""
    if isinstance(payload, Claimed):
        call = sources.call(event)
        if call is None:
            session.killed = "session_state_lost"
        elif isinstance(plans_of(session.rules, call), Decision):
            session.tally.steps += 1  # its contract is gone; the step still happened
            table.forget_totals()
        else:
            table.reserve(call)
    elif isinstance(payload, (Finished, Cancelled, Interrupted)):
        _ended(table, session, event, sources)
        table.asked.pop(request_id, None)
        table.answers.pop(request_id, None)
    else:
        table.note_blocked_key(session.session_id, bytes.fromhex(contract.loop or ""))
        table.asked.pop(request_id, None)
        table.answers.pop(request_id, None)


def _ended(table: SessionTable, session: Session, event: Event, sources: Sources) -> None:
    pending = session.pending.get(event.request_id or "")
    if pending is None:
        return
    if Finished.of(event) is None:
        table.release(session.session_id, pending.call.call_id)
        return
    outcome = sources.outcome(event)
    if outcome is None:
        session.pending.pop(pending.call.call_id)
        session.killed = "session_state_lost"
        return
    table.commit(pending.call, outcome, event.when)
