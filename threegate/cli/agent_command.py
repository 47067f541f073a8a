"""`threegate agent prompt`: a text to give to an agent, for this workspace."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from threegate.cli import invocation

app = typer.Typer(no_args_is_help=True, help="The agent's side: what to tell an agent.")


@app.callback()
def agent() -> None:
    """The agent's side: what to tell an agent."""


@app.command()
def prompt(
    form: Annotated[
        str, typer.Option("--format", help="markdown or json (with the parts by themselves).")
    ] = "markdown",
    workspace: Annotated[
        str,
        typer.Option("--workspace", "-w", metavar="DIR", help="For this workspace; default: here or above."),
    ] = "",
    default: Annotated[
        bool, typer.Option("--default", help="For no workspace in particular: the default maxima.")
    ] = False,
    json_: invocation.JsonFlag = False,
) -> None:
    """Print a text that teaches an agent to ask, with this workspace's maxima, backends and tools."""
    if form not in ("markdown", "json"):
        raise typer.BadParameter("--format is markdown or json")
    from threegate.core.workspace import find_workspace
    from threegate.judgement.policy import load_policy
    from threegate.runners.registry import policy_facts
    from threegate.setup.agent_prompt import anywhere, place_of, prompt_json, prompt_text

    place = anywhere()
    if not default:
        found = find_workspace(explicit=workspace or invocation.ROOT.workspace or None)
        policy = load_policy(found, facts=policy_facts())
        if not policy.contracts.ok:
            invocation.warn(
                "the contracts do not hold, so every request is refused; see: threegate contracts check"
            )
        place = place_of(str(found.root), policy)
    now = datetime.now(UTC)
    if form == "json" or invocation.wants_json(json_):
        invocation.emit_json(prompt_json(place, now))
    else:
        typer.echo(invocation.safe(prompt_text(place, now)), nl=False)
