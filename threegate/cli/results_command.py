"""`threegate results [ID]`: list the results, or print those of one request."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli import tab_completion
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    emit_json,
    put_foreign,
    say,
    wants_json,
    workspace_here,
)
from threegate.core.errors import InvalidInput

app = typer.Typer()


@app.command()
def results(
    request_id: Annotated[
        str, argument("[ID]", "A request or a result; default: list all.", tab_completion.with_result)
    ] = "",
    json_: JsonFlag = False,
) -> None:
    """List the results, or print those of one request.

    Example: threegate results TR-20261122-101500Z-sum
    """
    from threegate.review.results import list_results

    workspace = workspace_here()
    rows = list_results(workspace, request_id or None)
    if request_id and not rows:
        raise InvalidInput(f"{request_id}: no result; see: threegate results, threegate status")
    if wants_json(json_):
        emit_json({"results": [row.to_json(with_text=bool(request_id)) for row in rows]})
        return
    if request_id:
        for row in rows:
            put_foreign(row.text)
        return
    for row in rows:
        reason = f"  {row.reason}" if row.reason else ""
        say(f"{row.created_utc}  {row.status:<16} {row.request_id}  {row.file}{reason}")
    if not rows:
        say("no results yet")
