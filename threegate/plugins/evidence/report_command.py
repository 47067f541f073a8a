"""`threegate audit report`: the trail as a page for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli.invocation import moment_of, say, workspace_here
from threegate.cli.progress import busy

app = typer.Typer()


@app.command()
def report(
    out: Annotated[Path, typer.Option("--out", help="The HTML file to write.")] = Path("report.html"),
    since: Annotated[str, typer.Option("--since", metavar="WHEN", help="Only requests since then.")] = "",
) -> None:
    """Write the trail as one self-contained HTML page.

    It shows requests, decisions, durations, artifacts and the verification.

    Example: threegate audit report --out report.html --since 30d
    """
    from threegate.plugins.evidence.trail_report import write_report

    with busy("verifying the trail and writing the page"):
        count = write_report(workspace_here(), out, since=moment_of(since) if since else None)
    say(f"{out}: {count} requests")
