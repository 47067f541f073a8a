"""`threegate apply`: show what a finished write or cleanup would change, ask, sign, change it."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli.approve_command import put
from threegate.cli.invocation import JsonFlag, emit_json, say, screen_width, wants_json, workspace_here
from threegate.cli.signing_options import KeyOption, NameOption, YesOption, acting_here, ask

app = typer.Typer()


@app.command()
def apply(
    request_id: Annotated[str, typer.Argument(metavar="REQUEST_ID", help="A finished write or cleanup.")],
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    json_: JsonFlag = False,
) -> None:
    """Apply a finished write or cleanup to the project, with a backup."""
    from threegate.acts.apply import apply_change, plan_change
    from threegate.acts.proposal_finished import APPLY
    from threegate.acts.signed_acts import sign_act
    from threegate.launch.context import open_context
    from threegate.shown.escaped_lines import quoted

    context = open_context(workspace_here())
    quiet = wants_json(json_)
    acting = acting_here(context, name, key)
    change = plan_change(context, request_id)
    put(quoted(change.shown, width=screen_width(to_stderr=quiet)), to_stderr=quiet)
    ask(f"Sign as {acting.name} and change {change.project.root}?", yes)
    backup = apply_change(context, change, sign_act(context, acting, APPLY, change.about))
    if quiet:
        emit_json({"request_id": request_id, "applied": dict(change.about), "backup": str(backup)})
    else:
        say(f"applied   {request_id}")
        say(f"backup    {backup}")
