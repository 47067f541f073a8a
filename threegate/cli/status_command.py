"""`threegate status`: what is waiting, and for whom."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from threegate.cli.application import application_here
from threegate.cli.invocation import (
    JsonFlag,
    PlainFlag,
    emit_json,
    on_terminal,
    put,
    redraw,
    say,
    screen_height,
    screen_width,
    wants_json,
    workspace_here,
)
from threegate.core.workspace import Workspace
from threegate.review.asked import AskedReader
from threegate.review.readiness import Readiness
from threegate.review.results import list_results
from threegate.review.status import NOTHING_HERE, Line, count_ended, count_void, health_rows, status_lines, worker_rows
from threegate.review.status_screen import all_rows, screen_rows
from threegate.runners.backend import DoctorLine
from threegate.runners.machine import worker_lines
from threegate.trail.trail import Trail

_LAST: Final = 20
"""Ended requests that are shown where nobody says how many."""


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Refresh on every change, until Ctrl-C.")] = False,
    ended: Annotated[
        int | None,
        typer.Option("--ended", min=0, metavar="N", help="Show the last N that ended too (--json, --watch: 20)."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show each open request in full, on as many rows as it takes.")
    ] = False,
    results: Annotated[bool, typer.Option("--results", help="List the results instead, oldest first.")] = False,
    plain: PlainFlag = False,
    json_: JsonFlag = False,
) -> None:
    """Show what is waiting and running, and who must act.

    All on one screen: what to look at first on top, drafts of a group in one row, and what does not fit is counted.

    Examples: threegate status --ended 20
              threegate status --watch
              threegate status --results
    """
    workspace = workspace_here()
    if results:
        _list_results(workspace, as_json=wants_json(json_))
        return
    if watch and on_terminal() and not wants_json(json_) and (application := application_here(plain)) is not None:
        from threegate.cli.review_command import in_application  # late: it approves, and `status` only looks

        return in_application(application, "", None, undecided=False, ended=_LAST if ended is None else ended)
    trail = Trail(workspace)
    reader, health = AskedReader(workspace, trail), Readiness(workspace, trail=trail)
    before: object = None
    shown_ended = ended if ended is not None else _LAST if wants_json(json_) else 0
    while True:
        lines = status_lines(workspace, ended=shown_ended, reader=reader)
        shown = [line.to_json() for line in lines]
        workers = worker_lines(workspace)
        looked, as_json = health.look(), wants_json(json_)
        rows: list[str] = []
        steady: object = [{**row, "heard_utc": None} for row in workers or []]  # JSON: not each beat
        if not as_json:
            steady = rows = worker_rows(workers or [], now=datetime.now(UTC), width=screen_width())
        if (now := (shown, steady, looked)) != before:
            before = now
            if as_json:
                whole = {
                    "workspace": str(workspace.root),
                    "health": {line.name: {"state": line.state, "seen": line.seen} for line in looked},
                    "requests": shown,
                }
                emit_json(whole if workers is None else {**whole, "workers": workers})
            else:
                if watch:
                    redraw()
                tail = _not_shown(workspace) if ended is None else []
                put(_rows(lines, looked, [*tail, *rows], everything=everything))
        if not watch:
            return
        time.sleep(0.5)


def _list_results(workspace: Workspace, *, as_json: bool) -> None:
    rows = list_results(workspace)
    if as_json:
        emit_json({"results": [row.to_json() for row in rows]})
        return
    for row in rows:
        reason = f"  {row.reason}" if row.reason else ""
        say(f"{row.created_utc}  {row.status:<16} {row.request_id}  {row.file}{reason}")
    if not rows:
        say("no results yet")


def _not_shown(workspace: Workspace) -> list[str]:
    """How many requests have ended, and how many of them because their approval became void."""
    lines = []
    if void := count_void(workspace):
        what = "1 approval became" if void == 1 else f"{void} approvals became"
        lines.append(f"void: {what} void in the last day; why, and what to type: threegate status --ended {_LAST}")
    if hidden := count_ended(workspace):
        lines.append(f"ended: {hidden}; the last ones: threegate status --ended {_LAST}")
    return lines


def _rows(lines: list[Line], looked: list[DoctorLine], tail: list[str], *, everything: bool) -> list[str]:
    """The checks, the requests, and `tail` below them."""
    width, now = screen_width(), datetime.now(UTC)
    head = health_rows(looked, width=width)
    if not lines and not tail:
        return [*head, "", NOTHING_HERE]
    if everything:
        return [*head, *all_rows(lines, now=now, width=width), *tail]
    height = screen_height() - len(head) - len(tail)
    return [*head, *screen_rows(lines, now=now, width=width, height=height), *tail]
