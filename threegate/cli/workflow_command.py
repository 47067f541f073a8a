"""``threegate workflow``: the workflows of the contract gate."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli import tab_completion
from threegate.cli.invocation import JsonFlag, argument, context_here, emit_json, say, wants_json
from threegate.cli.signing_options import KeyOption, NameOption, YesOption

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command()
def show(
    workflow: Annotated[str, argument("[WORKFLOW]", "One workflow; default: all.", tab_completion.workflows)] = "",
    json_: JsonFlag = False,
) -> None:
    """Show workflows with their sessions, owners and state.

    Example: threegate workflow show monthly
    """
    from threegate.acts.session_acts import session_table
    from threegate.core.errors import Refused

    context = context_here()
    with context.trail.locked() as held:
        table = session_table(context, held)
    if workflow and workflow not in table.workflows:
        raise Refused("unknown_workflow", f"no workflow {workflow}; see: threegate workflow show")
    names = [workflow] if workflow else sorted(table.workflows)
    values = [
        {
            "workflow": name,
            **table.workflows[name].to_json(),
            "sessions": {
                key: {**member.to_json(), "state": table.sessions[key].killed or "open"}
                for key, member in sorted(table.members.items())
                if member.workflow == name
            },
        }
        for name in names
    ]
    if wants_json(json_):
        emit_json(values)
        return
    for value in values:
        say(f"{value['workflow']}  {'killed' if value['killed'] else 'open'}")
        for key, member in value["sessions"].items():
            parent = f"  under {member['parent']}" if member["parent"] else ""
            say(f"  {key}  {member['role']}  {member['state']}{parent}")
        for resource, owner in value["owners"].items():
            say(f"  {resource} is owned by {owner}")
    if not values:
        say("no workflow has been used yet")


@app.command()
def kill(
    workflow: Annotated[
        str, argument("WORKFLOW", "A workflow shown by `threegate workflow show`.", tab_completion.workflows)
    ],
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
) -> None:
    """End a workflow with all its sessions.

    It needs your signature.

    Example: threegate workflow kill monthly
    """
    from threegate.cli.kill_command import kill_and_tell

    kill_and_tell("workflow", workflow, name=name, key=key, yes=yes)
