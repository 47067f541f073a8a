"""`threegate reject`."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli.invocation import JsonFlag, emit_json, say, wants_json, warn, workspace_here

app = typer.Typer()


@app.command()
def reject(
    which: Annotated[str, typer.Argument(metavar="ID|FILE", help="A draft: its id, or inbox/TR-….md")],
    reason: Annotated[str, typer.Option("--reason", help="Told to the agent and kept in the trail.")] = "",
    json_: JsonFlag = False,
) -> None:
    """Say no to a draft: a copy goes to refused/, the agent gets a verdict and a result."""
    from threegate.acts.reject import reject_draft
    from threegate.launch.context import open_context
    from threegate.review.reviewed_draft import find_draft
    from threegate.setup.init import account

    context = open_context(workspace_here())
    done = reject_draft(context, find_draft(context.workspace, which), reason=reason, actor=account())
    if wants_json(json_):
        emit_json(
            {"file": str(done.path), "request_id": done.request_id, "draft_removed": done.draft_removed}
        )
        return
    say(f"rejected {done.path}")
    if not done.draft_removed:
        warn("the draft's file changed since it was read and was left where it is")
