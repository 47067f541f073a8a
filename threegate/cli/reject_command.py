"""`threegate reject`."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli.invocation import JsonFlag, emit_json, say, wants_json, warn, workspace_here
from threegate.cli.signing_options import KeyOption, NameOption, actor_here, decision_here

app = typer.Typer()


@app.command()
def reject(
    which: Annotated[str, typer.Argument(metavar="ID|FILE", help="A draft: its id, or inbox/TR-….md")],
    reason: Annotated[str, typer.Option("--reason", help="Told to the agent and kept in the trail.")] = "",
    name: NameOption = "",
    key: KeyOption = None,
    json_: JsonFlag = False,
) -> None:
    """Say no to a draft: a copy goes to refused/, the agent gets a verdict and a result. Signed where your key asks nothing."""
    from threegate.acts.reject import REJECT, reject_about, reject_draft
    from threegate.cli.approve_command import reveal
    from threegate.launch.context import open_context
    from threegate.review.reviewed_draft import find_draft, read_draft

    context = open_context(workspace_here())
    draft = read_draft(context.workspace, find_draft(context.workspace, which))
    if draft.drill is not None:
        actor = actor_here(context, name, key)
        reveal(context, draft, "caught", actor=actor, reason=reason, json_=wants_json(json_))
        return
    by = decision_here(context, REJECT, reject_about(draft, reason), name, key)
    done = reject_draft(context, draft, reason=reason, by=by)
    if wants_json(json_):
        emit_json(
            {"file": str(done.path), "request_id": done.request_id, "draft_removed": done.draft_removed}
        )
        return
    say(f"rejected {done.path}")
    if not done.draft_removed:
        warn("the draft's file changed since it was read and was left where it is")
