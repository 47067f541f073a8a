"""`threegate audit export`: the trail for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli import tab_completion
from threegate.cli.invocation import JsonFlag, emit_json, say, wants_json, workspace_here
from threegate.cli.progress import busy
from threegate.plugins.evidence.export import export_trail
from threegate.review.named_request import find_request


def export(
    format_: Annotated[str, typer.Option("--format", help="csv, jsonl, in-toto or ack.")] = "jsonl",
    out: Annotated[
        Path | None,
        typer.Option("--out", help="A file (csv, jsonl, ack) or a folder (in-toto); default: stdout."),
    ] = None,
    request: Annotated[
        str,
        typer.Option(
            "--request", metavar="ID|FILE", help="Only this request.", autocompletion=tab_completion.with_result
        ),
    ] = "",
    json_: JsonFlag = False,
) -> None:
    """Export the trail for other programs.

    Formats: csv, jsonl, a trace for AgentAck (ack), or one signed in-toto statement per run.

    Example: threegate audit export --format csv --out trail.csv
    """
    workspace = workspace_here()
    request_id = find_request(workspace, request).request_id or request if request else None
    with busy("exporting the trail"):
        count = export_trail(workspace, format_, out, request_id=request_id)
    if out is not None and wants_json(json_):
        emit_json({"path": str(out), "written": count})
    elif out is not None:
        say(f"{out}: {count} written")
