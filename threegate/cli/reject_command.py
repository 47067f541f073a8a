"""`threegate reject`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli.invocation import JsonFlag, emit_json, say, wants_json, warn, workspace_here

app = typer.Typer()


@app.command()
def reject(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A draft: inbox/TR-….md")],
    reason: Annotated[str, typer.Option("--reason", help="Told to the agent and kept in the trail.")] = "",
    json_: JsonFlag = False,
) -> None:
    """Say no to a draft: a copy goes to refused/, the agent gets a verdict and a result."""
    from threegate.acts.reject import reject_draft
    from threegate.launch.context import open_context
    from threegate.setup.init import account

    done = reject_draft(open_context(workspace_here()), file, reason=reason, actor=account())
    if wants_json(json_):
        emit_json(
            {"file": str(done.path), "request_id": done.request_id, "draft_removed": done.draft_removed}
        )
        return
    say(f"rejected {done.path}")
    if not done.draft_removed:
        warn("the draft's file changed since it was read and was left where it is")
