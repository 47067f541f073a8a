"""`threegate show`: one request, whole."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from threegate.cli.invocation import JsonFlag, emit_json, say, screen_width, wants_json, workspace_here

app = typer.Typer()


@app.command()
def show(
    which: Annotated[str, typer.Argument(metavar="ID|FILE", help="A request id, a file name, or a path.")],
    approved: Annotated[
        bool,
        typer.Option(
            "--as-approved", help="Print the text that the approval's signature covers, as it was kept."
        ),
    ] = False,
    json_: JsonFlag = False,
) -> None:
    """Show everything that is known about one request."""
    if approved:
        _say_as_approved(which)
        return
    from threegate.request.exposure import exposure_lines
    from threegate.review.show import show_request

    shown = show_request(workspace_here(), which)
    if wants_json(json_):
        emit_json(shown.to_json())
        return
    say(f"request   {shown.request_id}")
    if shown.path is not None:
        say(f"file      {shown.path}")
    request = shown.report.request if shown.report else None
    if request is not None:
        say(
            f"asked by  {request.requested_by} (as the file says), created {request.created_utc:%Y-%m-%dT%H:%M:%SZ}"
        )
        say(f"purpose   {request.purpose}")
        say(
            f"runs in   {request.backend}, cpu {request.cpu_limit}, {request.memory_limit_mb} MiB, {request.time_limit_sec} s"
        )
        hosts = ", ".join(f"{target.host}:{target.port}" for target in request.network_allowlist)
        say(f"network   {hosts or request.network}")
        if request.argv is not None:
            say("argv      " + "  ".join(repr(word) for word in request.argv))
        if shown.report is not None and shown.report.exposure is not None:
            opacity, reach = exposure_lines(shown.report.exposure)
            say(f"opacity   {opacity}")
            say(f"reach     {reach}")
        for item in request.inputs:
            say(f"input     {item.name} sha256 {item.sha256}")
    if shown.report is not None:
        for finding in shown.report.findings:
            say(f"{finding.severity:<9} line {finding.line}: {finding.rule} {finding.message}")
    if shown.verdict is not None:
        reason = f" ({shown.verdict.reason})" if shown.verdict.reason else ""
        say(f"verdict   {shown.verdict.state}{reason}")
        judgement = shown.verdict.judgement
        if judgement is not None:
            contract = judgement.get("contract") or {}
            say(f"judged    AANA {judgement.get('route')}, contract {contract.get('verdict')}")
    for event in shown.events:
        facts = event["data"]
        detail = "  ".join(str(facts[key]) for key in ("reason", "status", "approved_by") if facts.get(key))
        say(f"{event['seq']:>6}    {event['time']}  {event['type']:<12} {event['actor']}  {detail}".rstrip())
    for path in shown.results:
        say(f"result    {path}")


def _say_as_approved(which: str) -> None:
    """On a terminal at its width; elsewhere byte for byte, so that its sha256 is the signed one."""
    from threegate.review.show import as_approved
    from threegate.shown.escaped_lines import fitted

    text = as_approved(workspace_here(), which)
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        return
    for line in text.decode().removesuffix("\n").split("\n"):
        for piece in fitted(line, width=screen_width()):
            typer.echo(piece)
