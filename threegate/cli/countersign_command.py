"""`threegate countersign`: a further operator's signature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli.approve_command import show
from threegate.cli.invocation import JsonFlag, emit_json, say, wants_json, workspace_here
from threegate.cli.signing_options import KeyOption, NameOption, YesOption, acting_here, ask

app = typer.Typer()


@app.command()
def countersign(
    file: Annotated[Path, typer.Argument(metavar="ID|FILE", help="A request in approved/: its id or file.")],
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    full: Annotated[bool, typer.Option("--full", help="Shorten nothing on the screen.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Add a second operator's signature to an approved request."""
    from threegate.launch.context import open_context
    from threegate.review.countersign import countersign as add_signature
    from threegate.review.countersign import open_waiting

    context = open_context(workspace_here())
    acting = acting_here(context, name, key)
    quiet = wants_json(json_)
    with open_waiting(context, file) as (prepared, reviewed):
        reader = show(reviewed, context, acting.name, full=full, to_stderr=quiet)
        ask(f"Countersign as {acting.name}?", yes)
        done = add_signature(
            context, prepared, acting.name, acting.key, reading=None if yes else reader.read()
        )
    if quiet:
        emit_json(
            {
                "file": str(done.path),
                "countersigned_by": done.name,
                "key": done.fingerprint,
                "quorum_missing": done.missing,
            }
        )
        return
    say(f"countersigned {done.path}")
    say("waits for still another operator" if done.missing else "the quorum is met")
