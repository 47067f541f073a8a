"""`threegate diff`: compare two requests."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli import tab_completion
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    emit_json,
    put,
    screen_width,
    wants_json,
    workspace_here,
)

app = typer.Typer()


@app.command()
def diff(
    first: Annotated[str, argument("A", "A request: id, file name or path.", tab_completion.any_request)],
    second: Annotated[
        str,
        argument(
            "B",
            "Another request; default: the last finished request with the same slug as A.",
            tab_completion.any_request,
        ),
    ] = "",
    full: Annotated[bool, typer.Option("--full", help="Show everything in full.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Compare two requests, field by field.

    Inputs are compared by digest and, if they are text, by content.

    Example: threegate diff TR-20261122-101500Z-sum TR-20261123-090000Z-sum
    """
    from threegate.review.compare import compare
    from threegate.review.screen import render_comparison

    found = compare(workspace_here(), first, second)
    if wants_json(json_):
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
