"""How a request went, in a line or two, for the person who has just approved it."""

from __future__ import annotations

from collections.abc import Iterator

from threegate.plugins.changes.action import ProjectChange
from threegate.review.show import Shown
from threegate.trail.event import class_of
from threegate.trail.payloads.run_events import End


def outcome_lines(shown: Shown, threegate: str) -> Iterator[str]:
    """Its status; after a change of a project, how to revert that. `threegate`: how the program is called."""
    request = shown.report.request if shown.report is not None else None
    status, reason = "waits", ""
    for event in shown.events:
        kind = class_of(event["type"])
        if kind is not None and issubclass(kind, End):
            status, reason = kind.from_data(event["data"]).result_status, event["data"].get("reason") or ""
    if status == "succeeded" and request is not None and isinstance(request.action, ProjectChange):
        yield f"applied   {shown.request_id}: the project {request.action.project} has the change"
        yield f"undo      {threegate} project undo {shown.request_id}"
        return
    yield f"{status:<9} {shown.request_id}{f': {reason}' if reason else ''}"
    yield f"see       {threegate} show {shown.request_id}"
