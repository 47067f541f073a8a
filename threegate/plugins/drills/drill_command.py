"""`threegate operator drills`: turn drills on or off, and show how they went."""

from __future__ import annotations

import typer

from threegate.audit.practice import practice_of
from threegate.cli.invocation import JsonFlag, context_here, emit_json, say, wants_json, workspace_here
from threegate.cli.signing_options import KeyOption, NameOption, acting_here
from threegate.plugins.drills.drills import set_drills
from threegate.plugins.drills.section import DrillSettings
from threegate.trail.trail import Trail

app = typer.Typer(help="Practise reading with drafts that must not be approved.", no_args_is_help=True)


@app.command("on")
def on(name: NameOption = "", key: KeyOption = None, json_: JsonFlag = False) -> None:
    """Consent to drills; signed with your key.

    Now and then the daemon places a draft that must not be approved.

    Example: threegate operator drills on
    """
    _set(name, key, json_, on=True)


@app.command("off")
def off(name: NameOption = "", key: KeyOption = None, json_: JsonFlag = False) -> None:
    """End drills; signed with your key.

    An open drill is withdrawn.

    Example: threegate operator drills off
    """
    _set(name, key, json_, on=False)


def _set(name: str, key: KeyOption, json_: bool, *, on: bool) -> None:
    context = context_here()
    acting = acting_here(context, name, key)
    set_drills(context, acting, on=on)
    if wants_json(json_):
        emit_json({"drills": on, "by": acting.name})
    elif on:
        every = context.policy.settings.section(DrillSettings).every / 86400
        say(f"drills are on: about every {every:g} days there is a draft that must not be approved")
    else:
        say("drills are off")


@app.command("status")
def status(json_: JsonFlag = False) -> None:
    """Show whether drills are on, since when, and how they went.

    It does not reveal whether one is open.

    Example: threegate operator drills status
    """
    workspace = workspace_here()
    found = practice_of(Trail(workspace).events())
    drills = found.drills
    if wants_json(json_):
        every = workspace.load_settings().section(DrillSettings).every
        emit_json({"on": drills.on, "since": drills.since, "by": drills.by, "every": every, **drills.to_json()})
        return
    if not drills.since:
        say("drills were never on; an operator consents with: threegate operator drills on")
        return
    say(f"drills are {'on' if drills.on else 'off'} since {drills.since[:19]}Z, by {drills.by}")
    for label, value in drills.lines():
        say(f"{label:<22} {value}")
