"""`threegate diff`: two requests beside each other."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from threegate.cli.approve_command import put
from threegate.cli.invocation import JsonFlag, emit_json, screen_width, wants_json, workspace_here

app = typer.Typer()
_LINES = 200


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
    from threegate.shown.escaped_lines import Title, field, quoted

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
    width = screen_width()
    lines = field("before", f"{found.before.parent.name}/{found.before.name}", width=width)
    lines += field("after", f"{found.after.parent.name}/{found.after.name}", width=width)
    if not found.differences:
        lines.append("  no difference in meaning")
    for item in found.differences:
        changed = difflib.unified_diff(item.before.split("\n"), item.after.split("\n"), lineterm="", n=2)
        text = [line for line in changed if not line.startswith(("---", "+++"))]
        lines += ["", *map(Title, field(item.name, f"{len(text)} lines", width=width))]
        lines += quoted("\n".join(text), width=width, limit=None if full else _LINES)
    put(lines)
