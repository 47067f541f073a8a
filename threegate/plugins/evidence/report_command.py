"""`threegate audit report`: the trail as a page for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli.invocation import JsonFlag, emit_json, moment_of, say, wants_json, workspace_here
from threegate.cli.progress import busy
from threegate.plugins.evidence.trail_report import write_report


def report(
    out: Annotated[Path, typer.Option("--out", help="The HTML file to write.")] = Path("report.html"),
    since: Annotated[str, typer.Option("--since", metavar="WHEN", help="Only requests since then.")] = "",
    json_: JsonFlag = False,
) -> None:
    """Write the trail as one self-contained HTML page.

    It shows requests, decisions, durations, artifacts and the verification.

    Example: threegate audit report --out report.html --since 30d
    """
    with busy("verifying the trail and writing the page"):
        count = write_report(workspace_here(), out, since=moment_of(since) if since else None)
    if wants_json(json_):
        emit_json({"path": str(out), "requests": count})
    else:
        say(f"{out}: {count} requests")
