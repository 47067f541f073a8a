"""The trail as a trace that AgentAck judges (trace schema 2): what was proposed, shown, decided and executed,
joined by digest.

Invariant: each field comes from one event; nothing is repaired. An execution names the approved draft only if
the claim's digests are those of the approval, so that a trail in which they differ fails the judge's rule.
Undecided and unfinished requests are left out. A whole trail is one session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from threegate.trail.event import Event
from threegate.trail.payloads import Approved, Claimed, Covering, End, Rejected, Validated

_VERSION: Final = 2
_TOOL: Final = "process"
"""AgentAck's default policy asks an approval for every operation of it."""

_Drafts = dict[tuple[str | None, str | None], tuple[str, str | None]]
"""Folder and name of a file: time and digest of the last draft in it that was well-formed."""


def ack_trace(events: Iterable[Event], session: str) -> Iterator[dict[str, Any]]:
    """The trace of a whole trail, line by line. Memory grows with drafts and requests that wait, not with the trail."""
    drafts: dict[str, _Drafts] = {}
    """By request: what its id is well-formed in. Another file that takes the id over is another draft."""
    approvals: dict[str, tuple[Event, Approved]] = {}
    grants: dict[str, str | None] = {}
    last = ""
    for event in events:
        last = event.time
        payload, request_id = event.payload, event.request_id or ""
        told = _Action(session, event, request_id or f"event-{event.seq}")
        match payload:
            case Covering():
                grants[payload.grant or ""] = payload.expires_utc
            case Validated(valid=True):
                drafts.setdefault(request_id, {})[payload.from_, payload.file] = (event.time, payload.sha256)
            case Approved():
                approvals[request_id] = (event, payload)
            case Claimed():
                given = approvals.pop(request_id, None)
                executed = payload.request_sha256
                if given is None:
                    yield told.line("action_proposed", executed)
                else:
                    draft = _draft(drafts.get(request_id, {}), *given)
                    yield from told.decided(*given, draft, grants)
                    if (executed, payload.job_sha256) == (given[1].request_sha256, given[1].job_sha256):
                        executed = draft[1]
                yield told.line("action_executed", executed, approval_id=_approval_id(payload, request_id))
            case Rejected():
                refused = {"approval_id": f"rejected-{event.seq}"}
                yield told.line("action_proposed", payload.request_sha256)
                yield told.line("approval_requested", payload.request_sha256, **refused)
                yield told.line("approval_decision", decision="deny", **refused)
                yield told.line("action_blocked", reason="rejected", **refused)
                drafts.pop(request_id, None)
            case End():
                given = approvals.pop(request_id, None)
                if given is not None:
                    draft = _draft(drafts.get(request_id, {}), *given)
                    yield from told.decided(*given, draft, grants)
                    approval_id = _approval_id(given[1], request_id)
                    yield told.line("action_blocked", reason=payload.reason or event.type, approval_id=approval_id)
                drafts.pop(request_id, None)
    if last:
        yield {"schema_version": _VERSION, "type": "session_end", "timestamp": last, "session_id": session}


def _draft(drafts: _Drafts, approved: Event, given: Approved) -> tuple[str, str | None]:
    """Of the drafts of a request the one in the file that was approved, as it was last well-formed."""
    return drafts.get((given.from_, given.file), (approved.time, given.draft_sha256))


@dataclass(frozen=True, slots=True)
class _Action:
    """One action of the trace: one request's way through the gate, written when it has ended."""

    session: str
    event: Event
    request_id: str

    def line(self, type: str, sha256: str | None = None, *, time: str = "", **more: str | None) -> dict[str, Any]:
        """A line of the trace; `sha256` is the draft's that was proposed, shown or executed."""
        value: dict[str, Any] = {
            "schema_version": _VERSION,
            "type": type,
            "timestamp": time or self.event.time,
            "session_id": self.session,
            "action_id": f"{self.request_id}#{self.event.seq}",
            "intent_id": self.request_id,
            **{name: text for name, text in more.items() if text is not None},
        }
        if type in ("action_proposed", "approval_requested", "action_executed"):
            value["action"] = {
                "tool": _TOOL,
                "operation": "run",
                "resource": self.request_id,
                "parameters": {"draft_sha256": sha256},
            }
        return value

    def decided(
        self, approved: Event, given: Approved, draft: tuple[str, str | None], grants: Mapping[str, str | None]
    ) -> Iterator[dict[str, Any]]:
        """What was proposed, what was shown, and the yes to it."""
        approval_id = _approval_id(given, self.request_id)
        shown = given.draft_sha256 or draft[1]
        expires = given.expires_utc or grants.get(given.grant or "")
        yield self.line("action_proposed", draft[1], time=draft[0])
        yield self.line("approval_requested", shown, time=approved.time, approval_id=approval_id)
        yield self.line(
            "approval_decision", time=approved.time, approval_id=approval_id, decision="allow", expires_at=expires
        )


def _approval_id(payload: Approved | Claimed, request_id: str) -> str | None:
    """The statement's digest; under a grant each request is a separate approval. None: it was not approved."""
    return f"{payload.grant}/{request_id}" if payload.grant else payload.approval_sha256
