"""The trail as a story: one sentence for each event, in plain words.

Invariant: a sentence says nothing that its event does not say; every type of event has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from threegate.trail.event import Event, format_time

_Data = Any


def _short(value: object) -> str:
    text = str(value)
    return text[:12] if len(text) == 64 else text


def _reason(data: _Data) -> str:
    parts = [str(data[key]) for key in ("reason", "message", "what") if data.get(key)]
    return f": {' - '.join(parts)}" if parts else ""


def _file(data: _Data) -> str:
    return f" {data['file']}" if data.get("file") else ""


def _validated(data: _Data) -> str:
    rules = data.get("rules") or []
    found = f"; findings: {', '.join(map(str, rules))}" if rules else "; nothing was found"
    return f"checked the draft{_file(data)}: {'well-formed' if data.get('valid') else 'not valid'}{found}"


def _approved(data: _Data) -> str:
    by = f" by {data['approved_by']}" if data.get("approved_by") else ""
    bits = [
        f"{name} {_short(data[key])}"
        for key, name in (
            ("request_sha256", "request"),
            ("approval_sha256", "statement"),
            ("fingerprint", "key"),
        )
        if data.get(key)
    ]
    return f"approved and signed{by}{' (' + ', '.join(bits) + ')' if bits else ''}"


def _finished(data: _Data) -> str:
    outputs = data.get("outputs") or {}
    code = f", exit code {data['exit_code']}" if data.get("exit_code") is not None else ""
    wall = f" after {data['wall_ms']} ms" if data.get("wall_ms") is not None else ""
    names = f"; came out: {', '.join(sorted(outputs))}" if outputs else "; no output files"
    reached = f"; reached {', '.join(map(str, data['reached']))}" if data.get("reached") else ""
    return f"the run ended as {data.get('status', 'finished')}{code}{wall}{names}{reached}"


def _place(data: _Data) -> str:
    """Where it ran, when not here: the worker and its machine."""
    return f" on worker {data['worker']} (machine {data.get('machine', '?')})" if "worker" in data else ""


_SENTENCES: Final[dict[str, Callable[[_Data], str]]] = {
    "workspace_created": lambda data: f"the workspace was made at {data.get('path', '?')}",
    "observed": lambda data: f"saw{_file(data)}{_reason(data)}",
    "validated": _validated,
    "quarantined": lambda data: f"put aside{_file(data)}{_reason(data)}",
    "proposed": lambda data: f"a proposal became the draft{_file(data)}",
    "approved": _approved,
    "countersigned": lambda data: f"countersigned by {data.get('countersigned_by', data.get('by', '?'))}",
    "rejected": lambda data: f"rejected{_reason(data)}",
    "promoted": lambda data: f"put into approved/ by hand{_file(data)}",
    "refused": lambda data: f"refused, nothing ran{_reason(data)}",
    "waiting": lambda data: f"waits{_reason(data)}",
    "cleared": lambda data: (
        f"all gates said yes{', AANA route ' + str(data['route']) if data.get('route') else ''}"
    ),
    "claimed": lambda data: f"claimed for its one run (job {_short(data.get('job_sha256', '?'))})",
    "started": lambda data: f"started in {data.get('backend', 'its sandbox')}{_place(data)}",
    "finished": _finished,
    "interrupted": lambda data: f"interrupted; it is never run again{_reason(data)}",
    "cancel_requested": lambda data: f"asked to cancel it{_reason(data)}",
    "cancelled": lambda data: f"cancelled{_reason(data)}",
    "approval_abandoned": lambda data: (
        f"the approval never reached its folder{_reason(data)}; the id is free"
    ),
    "replayed": lambda data: f"ran again to compare: {data.get('outcome', data.get('status', '?'))}",
    "applied": lambda data: f"applied to the project{_reason(data)}",
    "pruned": lambda data: f"removed what nothing needs: {data.get('removed', data.get('files', '?'))} files",
    "workspace_adopted": lambda data: f"adopted as epoch {data.get('epoch', '?')}{_reason(data)}",
    "granted": lambda data: (
        f"a standing grant was given: {_short(data.get('grant', data.get('grant_id', '?')))}"
    ),
    "grant_revoked": lambda data: (
        f"a standing grant was revoked: {_short(data.get('grant', data.get('grant_id', '?')))}"
    ),
    "session_opened": lambda data: f"session {data.get('session_id', '?')} was opened",
    "session_killed": lambda data: f"session {data.get('session_id', '?')} was killed{_reason(data)}",
    "checkpoint_answered": lambda data: f"answered a contract's question: {data.get('answer', '?')}",
    "rotated": lambda data: f"this file of the trail was closed at {data.get('size', '?')} events",
    "delivered": lambda data: f"delivered{_file(data)}",
    "operator_added": lambda data: f"operator {data.get('name', data.get('operator', '?'))} was added",
    "operator_revoked": lambda data: f"operator {data.get('name', data.get('operator', '?'))} was revoked",
    "settings_changed": lambda data: f"the settings changed{_reason(data)}",
    "checkpoint": lambda data: f"signed a checkpoint of {data.get('size', '?')} events",
}


def sentence(event: Event) -> str:
    """One sentence about an event. Trail texts are printable ASCII already."""
    return _SENTENCES[event.type](event.data)


def story_line(event: Event) -> str:
    """``2026-11-22 05:06:07  #12  TR-id  operator  sentence``"""
    moment = f"{event.time[:10]} {event.time[11:19]}"
    about = f"{event.request_id}: " if event.request_id else ""
    return f"{moment}  #{event.seq:<5} {event.actor:<18} {about}{sentence(event)}"


def select(
    events: Iterable[Event],
    *,
    request_id: str | None = None,
    since: datetime | None = None,
    types: frozenset[str] = frozenset(),
) -> Iterator[Event]:
    """The events of one request, from a moment on, of some types; no filter lets all through."""
    first = format_time(since.astimezone(UTC)) if since else ""
    for event in events:
        if request_id is not None and event.request_id != request_id:
            continue
        if event.time >= first and (not types or event.type in types):
            yield event
