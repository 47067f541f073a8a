"""`threegate apply`: show what a finished write or cleanup would change, ask, sign, change it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli.approve_command import ask
from threegate.cli.invocation import JsonFlag, emit_json, say, wants_json, warn, workspace_here

app = typer.Typer()


@app.command()
def apply(
    request_id: Annotated[str, typer.Argument(metavar="REQUEST_ID", help="A finished write or cleanup.")],
    name: Annotated[
        str, typer.Option("--as", metavar="NAME", help="Who applies; default: whose key it is.")
    ] = "",
    key: Annotated[
        Path | None, typer.Option("--key", metavar="KEY", help="Private key, or .pub of an agent's.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask (needed off a terminal).")] = False,
    json_: JsonFlag = False,
) -> None:
    """Apply a finished write or cleanup to the project, with a backup."""
    from threegate.acts.apply import apply_change, plan_change
    from threegate.acts.approve import known_operators
    from threegate.acts.proposal_finished import APPLY
    from threegate.acts.signed_acts import sign_act
    from threegate.acts.signing_key import acting_operator
    from threegate.launch.context import open_context

    context = open_context(workspace_here())
    quiet = wants_json(json_)
    acting = acting_operator(known_operators(context), name=name, key=key)
    change = plan_change(context, request_id)
    for line in change.shown.splitlines():
        (warn if quiet else say)(line)
    ask(f"Sign as {acting.name} and change {change.project.root}?", yes)
    backup = apply_change(context, change, sign_act(context, acting, APPLY, change.about))
    if quiet:
        emit_json({"request_id": request_id, "applied": dict(change.about), "backup": str(backup)})
    else:
        say(f"applied   {request_id}")
        say(f"backup    {backup}")
