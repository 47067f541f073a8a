"""What operators do with sessions and workflows: open, close, show, kill.

Invariant: an act is an event of the trail and nothing else; the sessions are derived from the events. Ending
a whole workflow requires an operator's signature over exactly this workflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from threegate.acts.cancel import cancel_request
from threegate.acts.signed_acts import OperatorDecision
from threegate.contracts.session_table import SessionTable
from threegate.contracts.state import Reason
from threegate.core.durable import disk_reserve
from threegate.core.errors import InvalidInput, Refused
from threegate.launch.context import Context
from threegate.trail import moves
from threegate.trail.payloads import SessionKilled, SessionOpened
from threegate.trail.trail import LockedTrail

KILL = "threegate-kill/1"
SCOPES = ("session", "subtree", "workflow")


@dataclass(frozen=True, slots=True)
class Killed:
    """What was killed: sessions, and requests that the daemon was asked to stop."""

    sessions: tuple[str, ...]
    requests: tuple[str, ...]


def session_table(context: Context, held: LockedTrail) -> SessionTable:
    """The sessions according to the trail. Raises InvalidInput if there are no contracts that compile."""
    compiled = context.policy.contracts
    if not compiled.ok:
        raise InvalidInput("the contracts do not compile; fix them first: threegate contracts check")
    if compiled.empty:
        raise InvalidInput("there are no contracts, so there are no sessions; see: threegate contracts new TOOL")
    return context.contracts.view(held, context.policy)


def open_session(
    context: Context,
    session_id: str,
    *,
    actor: str,
    requester: str = "",
    workflow: str | None = None,
    role: str | None = None,
    parent: str | None = None,
) -> None:
    """Open a session. Raises Refused as `SessionTable.open`, InvalidInput, TrailError."""
    if session_id.startswith("default:"):
        raise Refused(
            "session_exists",
            "names that start with default: are reserved for the requesters' own sessions; choose another",
        )
    with context.trail.locked() as held:
        table = session_table(context, held)
        trial = SessionTable.from_json(context.policy.contracts, table.to_json())
        trial.open(session_id, requester=requester, workflow=workflow, role=role, parent=parent)
        opened = SessionOpened(session=session_id, requester=requester)
        if (member := trial.members.get(session_id)) is not None:
            opened = replace(opened, workflow=member.workflow, role=member.role, parent=member.parent)
        moves.announce(held, opened, actor=actor)
        session_table(context, held)


def close_session(context: Context, session_id: str, *, actor: str) -> tuple[Reason, ...]:
    """Close a session normally; return the lower bounds that it missed. Raises Refused, InvalidInput."""
    with disk_reserve(context.workspace.reserve), context.trail.locked() as held:
        table = session_table(context, held)
        _known_session(table, session_id)
        trial = SessionTable.from_json(context.policy.contracts, table.to_json())
        reasons = trial.close(session_id)
        ended = [key for key, item in trial.sessions.items() if item.killed and not table.sessions[key].killed]
        running = sorted({call_id for key in ended if key != session_id for call_id in table.sessions[key].pending})
        closed = SessionKilled(scope="close", name=session_id, missed=tuple(item.path for item in reasons))
        moves.announce(held, closed, actor=actor)
        session_table(context, held)
    _stop(context, running, actor, f"session {session_id} was closed")
    return reasons


def _stop(context: Context, requests: Iterable[str], actor: str, reason: str) -> None:
    for request_id in requests:
        cancel_request(context, request_id, by=OperatorDecision(actor), reason=reason, wait_seconds=0)


def _known_session(table: SessionTable, session_id: str) -> None:
    if session_id not in table.sessions:
        raise Refused("unknown_session", f"no session {session_id}; see: threegate contracts sessions")


def kill_about(context: Context, scope: str, name: str) -> Mapping[str, Any]:
    """What a kill affects, checked against the existing sessions. Raises Refused, InvalidInput."""
    with context.trail.locked() as held:
        trial = SessionTable.from_json(context.policy.contracts, session_table(context, held).to_json())
        trial.kill(scope, name)
    return {"scope": scope, "name": name}


def kill(context: Context, scope: str, name: str, *, by: OperatorDecision) -> Killed:
    """Kill a session, a session with its descendants, or (signed) a workflow, and the requests running in
    them. A full disk does not prevent it.

    Raises Refused (`signature_missing` for a workflow without one), InvalidInput, TrailError.
    """
    about = kill_about(context, scope, name)
    # With an account to fall back on, the decision would count even if the signature does not.
    if scope == "workflow" and (by.signed is None or by.account):
        raise Refused("signature_missing", "ending a workflow needs an operator's signature")
    with disk_reserve(context.workspace.reserve), context.trail.locked() as held:
        table = session_table(context, held)
        trial = SessionTable.from_json(context.policy.contracts, table.to_json())
        sessions = trial.kill(scope, name)
        running = sorted({call_id for key in sessions for call_id in table.sessions[key].pending})
        killed = SessionKilled(scope=scope, name=name, sessions=tuple(sessions[:64]))
        actor, signed = by.checked(context, held, KILL, about)
        if signed is not None:
            killed = replace(killed, **signed.to_data())
        moves.announce(held, killed, actor=actor)
        session_table(context, held)
    _stop(context, running, actor, f"{scope} {name} was killed")
    return Killed(tuple(sessions), tuple(running))
