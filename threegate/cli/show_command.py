"""`threegate show`: everything about one request."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

import typer

from threegate.approval.shown.escaped_lines import fact, fitted, own, render_sections
from threegate.cli import tab_completion
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    context_here,
    emit_data,
    emit_json,
    one_by_one,
    put,
    put_foreign,
    redraw,
    say,
    screen_width,
    threegate_here,
    wants_json,
    warn,
    workspace_here,
)
from threegate.core.errors import InvalidInput, ThreeGateError, TrailError, WrongUsage
from threegate.core.workspace import Workspace
from threegate.request.exposure import exposure_lines
from threegate.review.compare import compare
from threegate.review.follow import follow
from threegate.review.named_request import ENDED, find_request
from threegate.review.preview import pages
from threegate.review.results import list_results
from threegate.review.screen import render_comparison, render_page
from threegate.review.show import Shown, as_approved, open_input, results_of, show_request, with_fitness
from threegate.review.status import VOID_CODES, Line, RequestEntry, folder_name, is_draft_folder, line_rows, output_row
from threegate.trail.event import NOT_KNOWN, class_of
from threegate.trail.payloads import ApprovalAbandoned, under_grant
from threegate.trail.story import readable


def show(
    which: Annotated[
        list[str],
        argument("ID|FILE", "Requests: ids, files, slugs or beginnings of these.", tab_completion.any_request),
    ],
    input_name: Annotated[
        str,
        typer.Option(
            "--input",
            metavar="NAME",
            help="Print this input file in full instead: the pinned bytes, or those the draft declares.",
        ),
    ] = "",
    approved: Annotated[
        bool,
        typer.Option("--as-approved", help="Print the stored text that the approval's signature covers."),
    ] = False,
    follow_: Annotated[
        bool,
        typer.Option("--follow", help="Follow its status and last line of output until it ends."),
    ] = False,
    result: Annotated[
        bool, typer.Option("--result", help="Print its results instead; the name may also be one of a result.")
    ] = False,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            metavar="ID|FILE|last",
            help="Compare it with another request; last: the last finished one with the same slug.",
            autocompletion=tab_completion.any_request,
        ),
    ] = "",
    full: Annotated[bool, typer.Option("--full", help="With --against: show everything in full.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Show everything known about one request.

    Examples: threegate show sum
              threegate show TR-20261122-101500Z-sum
              threegate show TR-20261122-101500Z-sum --follow
              threegate show TR-20261122-101500Z-sum --result
              threegate show TR-20261122-101500Z-sum --against TR-20261123-090000Z-sum
    """
    instead = {"--input": input_name, "--as-approved": approved, "--follow": follow_, "--result": result}
    if len(given := [name for name, value in {**instead, "--against": against}.items() if value]) > 1:
        raise WrongUsage(f"{' and '.join(given)} print different things; give one of them")
    if given and not result and len(which) > 1:
        raise WrongUsage(f"{given[0]} takes one request; name the others by themselves")
    if input_name and wants_json(json_):
        raise WrongUsage("--input prints text for a person; leave out --input or --json")
    workspace = workspace_here()
    one = which[0]
    if approved:
        _say_as_approved(one)
    elif result:
        _show_results(workspace, which, as_json=wants_json(json_))
    elif against:
        _compare(workspace, one, "" if against == "last" else against, full=full, as_json=wants_json(json_))
    elif input_name:
        _show_input(workspace, show_request(workspace, one), input_name)
    elif follow_:
        _follow(workspace, show_request(workspace, one), as_json=wants_json(json_))
    else:
        _show_all(workspace, which, as_json=wants_json(json_))


def _show_all(workspace: Workspace, which: list[str], *, as_json: bool) -> None:
    """Everything about each, in order."""
    found: list[object] = []

    def show_one(one: str) -> None:
        shown = with_fitness(workspace, show_request(workspace, one))
        if as_json:
            found.append(shown.to_json())
        else:
            _say_everything(shown)
            _say_card(shown)

    code = one_by_one([partial(show_one, one) for one in which])
    if as_json and found:
        emit_json(found[0] if len(which) == 1 else found)
    if code:
        raise typer.Exit(code)


def _say_everything(shown: Shown) -> None:
    _tell("request", f"{shown.request_id}")
    if shown.path is not None:
        say(f"file      {shown.path}")
    request = shown.report.request if shown.report else None
    if request is not None:
        created = f"{request.created_utc:%Y-%m-%dT%H:%M:%SZ}"
        _tell("asked by", f"{request.requested_by} (as the file says), created {created}")
        _tell("purpose", request.purpose)
        cost = f"cpu {request.cpu_limit}, {request.memory_limit_mb} MiB, {request.time_limit_sec} s"
        if not request.action.runs_code:
            cost = f"{request.time_limit_sec} s, {request.action.does}"
        _tell("runs in", f"{request.backend}, {cost}")
        hosts = ", ".join(f"{target.host}:{target.port}" for target in request.network_allowlist)
        _tell("network", hosts or request.network)
        if request.action.words:
            _tell("argv", "  ".join(repr(word) for word in request.action.words))
        if shown.report is not None and shown.report.exposure is not None:
            opacity, reach = exposure_lines(shown.report.exposure)
            _tell("opacity", opacity)
            _tell("reach", reach)
        for item in request.inputs:
            _tell("input", f"{item.name} sha256 {item.sha256}")
    if shown.report is not None:
        for finding in shown.report.findings:
            _tell(finding.severity, f"line {finding.line}: {finding.rule} {finding.message}")
    if shown.verdict is not None:
        reason = f" ({shown.verdict.reason})" if shown.verdict.reason else ""
        _tell("verdict", f"{shown.verdict.state}{reason}")
        void = [event["data"] for event in shown.events if event["data"].get("reason") in VOID_CODES]
        if shown.verdict.state == "refused" and void:  # in our words, with names of settings
            _tell("why", str(void[-1].get("message", "")))
        judgement = shown.verdict.judgement
        if judgement is not None:
            contract = judgement.get("contract") or {}
            _tell("judged", f"AANA {judgement.get('route')}, contract {contract.get('verdict')}")
    for event in shown.events:
        facts = event["data"]
        detail = "  ".join(str(facts[key]) for key in ("reason", "status", "approved_by") if facts.get(key))
        if event["type"] == "approved" and facts.get("grant"):
            detail = under_grant(str(facts["grant"]), facts.get("approved_by"))
        if event["type"] == "approval_abandoned":
            detail = ApprovalAbandoned.from_data(facts).sentence()
        if class_of(event["type"]) is None:
            detail = NOT_KNOWN
        detail = readable(detail)
        say(f"{event['seq']:>6}    {event['time']}  {event['type']:<12} {event['actor']}  {detail}".rstrip())
    for path in shown.results:
        say(f"result    {path}")


def _say_card(shown: Shown) -> None:
    """Until it has run or is refused, the whole card, as the terminal application and the page show it; then, how to
    get it.
    """
    workspace = workspace_here()
    path, folder = shown.path, folder_name(workspace, shown.path.parent) if shown.path is not None else ""
    if path is None or not (is_draft_folder(folder) or folder in ("approved", "running")):
        if shown.request_id and any(event["data"].get("shown_sha256") for event in shown.events):
            say(f"card      {threegate_here(workspace)} show {shown.request_id} --as-approved", copied=True)
        return
    from threegate.review.draft_sources import place_of  # late: they load the gates
    from threegate.review.request_view import view_request, view_sections

    try:
        view = view_request(context_here(), RequestEntry.of(folder, path, place_of(workspace, path).lstat()))
    except TrailError:
        raise
    except (ThreeGateError, OSError) as error:  # a setting or contract that cannot be read hides nothing of the above
        warn(f"the card of {shown.request_id} cannot be shown: {error}")
        return
    card = view_sections(replace(view, findings=(), story=()))  # which are above
    put(render_sections(card, width=screen_width(), full=True))


def _tell(label: str, text: str) -> None:
    """One of our labels with a text next to it, over as many rows as needed. Only our labels start a row."""
    first, *rest = own(text, width=screen_width(), indent=10)
    put([f"{label:<10}{first[10:]}", *rest])


def _follow(workspace: Workspace, request: Shown, *, as_json: bool) -> None:
    """On a terminal, redraw the same rows; elsewhere, print a row or a JSON line for each change."""
    redraws = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not as_json
    rows: list[str] = []
    before: Line | None = None
    for line in follow(workspace, request):
        changed = before is None or (line.state, line.reason) != (before.state, before.reason)
        if as_json:
            if line != before:
                emit_data(json.dumps(line.to_json()) + "\n")
        elif redraws or changed:
            if rows and redraws:
                redraw(len(rows))
            rows = line_rows(line, now=datetime.now(UTC), width=screen_width())
            put(rows)
        elif before is not None and line.output is not None and line.output != before.output:
            put([output_row(line.output, width=screen_width())])
        before = line
    if not as_json and request.request_id:
        for path in results_of(workspace, request.request_id):
            say(f"result    {path}")


def _show_input(workspace: Workspace, shown: Shown, name: str) -> None:
    """Print an input, a page at a time."""
    width = screen_width()
    with open_input(workspace, shown, name) as (item, copy):
        put(fact("sha256", item.sha256, width=width))
        for page in pages(item, copy):
            put(render_page(name, page, width=width))


def _show_results(workspace: Workspace, which: list[str], *, as_json: bool) -> None:
    rows = []
    for one in which:
        found = list_results(workspace, one) if one.startswith("TS-") else []
        if not found:
            named = find_request(workspace, one, ENDED)
            found = list_results(workspace, named.request_id or one)
        if not found:
            raise InvalidInput(f"{one}: no result; see: threegate status --results, threegate status")
        rows += found
    if as_json:
        emit_json({"results": [row.to_json(with_text=True) for row in rows]})
        return
    for row in rows:
        put_foreign(row.text)


def _compare(workspace: Workspace, which: str, other: str, *, full: bool, as_json: bool) -> None:
    """Field by field; inputs by digest and, if they are text, by content."""
    found = compare(workspace, which, other)
    if as_json:
        emit_json(
            {
                "before": str(found.before),
                "after": str(found.after),
                "differences": [
                    {"name": item.name, "before": item.before, "after": item.after} for item in found.differences
                ],
            }
        )
        return
    put(render_comparison(found, width=screen_width(), full=full))


def _say_as_approved(which: str) -> None:
    """On a terminal, wrap to its width; elsewhere, print byte for byte, so that the sha256 is the signed
    one.
    """
    text = as_approved(workspace_here(), which)
    if not sys.stdout.isatty():
        emit_data(text)
        return
    for line in text.decode().removesuffix("\n").split("\n"):
        for piece in fitted(line, width=screen_width()):
            say(piece)
