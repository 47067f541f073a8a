"""`threegate retry`."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli import tab_completion
from threegate.cli.invocation import JsonFlag, argument, context_here, emit_json, say, wants_json
from threegate.core.errors import InvalidInput

app = typer.Typer()


@app.command()
def retry(
    which: Annotated[str, argument("ID|FILE", "A request that has ended.", tab_completion.ended_requests)],
    json_: JsonFlag = False,
) -> None:
    """Make a fresh draft of an ended request.

    The draft has a new id and needs a new approval.

    Example: threegate retry TR-20261122-101500Z-sum
    """
    from threegate.acts.retry import retry_request
    from threegate.review.show import show_request

    context = context_here()
    source = show_request(context.workspace, which).path
    if source is None:
        raise InvalidInput(f"{which}: its file no longer exists; write a new draft")
    done = retry_request(context, source)
    if wants_json(json_):
        emit_json(
            {
                "file": str(done.path),
                "request_id": done.request_id,
                "of": done.of,
                "restored": list(done.restored),
            }
        )
        return
    say(f"draft {done.path} ({done.request_id}, a retry of {done.of})")
    say(f"next  threegate approve {done.path}", copied=True)
