"""`threegate approval verify`: every check that a launch makes, with its result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli import tab_completion
from threegate.cli.invocation import JsonFlag, argument, context_here, emit_json, say, wants_json
from threegate.core.errors import EXIT_REFUSED

app = typer.Typer(no_args_is_help=True)


@app.callback()
def approval() -> None:
    """Verify an approval, check by check."""


@app.command("verify")
def verify(
    file: Annotated[Path, argument("ID|FILE", "A request in approved/: its id or file.", tab_completion.waiting)],
    json_: JsonFlag = False,
) -> None:
    """Run every check that a launch runs.

    Exit 2 when one fails.

    Example: threegate approval verify tool-exec/approved/TR-20261122-101500Z-sum.md
    """
    from threegate.review.countersign import verify_approval

    checks = verify_approval(context_here(), file)
    if wants_json(json_):
        emit_json(
            [{"check": item.name, "ok": item.ok, "code": item.code or None, "detail": item.detail} for item in checks]
        )
    else:
        words = {True: "ok    ", False: "FAILED", None: "-     "}
        for item in checks:
            code = f" [{item.code}]" if item.code else ""
            say(f"{words[item.ok]} {item.name:<19}{item.detail}{code}")
    if not all(item.ok for item in checks):
        raise typer.Exit(EXIT_REFUSED)
