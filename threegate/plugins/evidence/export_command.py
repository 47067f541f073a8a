"""`threegate audit export`: the trail for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli import tab_completion
from threegate.cli.invocation import say, workspace_here
from threegate.cli.progress import busy

app = typer.Typer()


@app.command()
def export(
    format_: Annotated[str, typer.Option("--format", help="csv, jsonl, in-toto or ack.")] = "jsonl",
    out: Annotated[
        Path | None,
        typer.Option("--out", help="A file (csv, jsonl, ack) or a folder (in-toto); default: stdout."),
    ] = None,
    request: Annotated[
        str,
        typer.Option("--request", metavar="ID", help="Only this request.", autocompletion=tab_completion.with_result),
    ] = "",
) -> None:
    """Export the trail for other programs.

    Formats: csv, jsonl, a trace for AgentAck (ack), or one signed in-toto statement per run.

    Example: threegate audit export --format csv --out trail.csv
    """
    from threegate.plugins.evidence.export import export_trail

    with busy("exporting the trail"):
        count = export_trail(workspace_here(), format_, out, request_id=request or None)
    if out is not None:
        say(f"{out}: {count} written")
