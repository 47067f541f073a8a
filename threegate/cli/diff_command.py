"""`threegate diff`: two requests beside each other."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli.approve_command import put
from threegate.cli.invocation import JsonFlag, emit_json, screen_width, wants_json, workspace_here

app = typer.Typer()


@app.command()
def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A request: id, file name or path.")],
    second: Annotated[
        str,
        typer.Argument(
            metavar="B", help="Another; without it, A is compared with the last finished of its slug."
        ),
    ] = "",
    full: Annotated[bool, typer.Option("--full", help="Shorten nothing.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Compare what two requests mean: every field, inputs by digest and, for text, by content."""
    from threegate.review.compare import compare
    from threegate.review.screen import render_comparison

    found = compare(workspace_here(), first, second)
    if wants_json(json_):
        emit_json(
            {
                "before": str(found.before),
                "after": str(found.after),
                "differences": [
                    {"name": item.name, "before": item.before, "after": item.after}
                    for item in found.differences
                ],
            }
        )
        return
    put(render_comparison(found, width=screen_width(), full=full))
