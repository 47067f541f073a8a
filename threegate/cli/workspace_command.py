"""`threegate workspace adopt`: continue a restored, copied or moved workspace under a new epoch."""

from __future__ import annotations

import typer

from threegate.cli.invocation import JsonFlag, context_here, emit_json, say, wants_json
from threegate.cli.signing_options import KeyOption, NameOption, YesOption, acting_here, ask

app = typer.Typer(no_args_is_help=True)


@app.callback()
def workspace() -> None:
    """Adopt a moved or restored workspace."""


@app.command()
def adopt(
    as_: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    json_: JsonFlag = False,
) -> None:
    """Report why launches stopped, and continue from here.

    Earlier approvals become void.

    Example: threegate workspace adopt --as alice --key ~/.ssh/id_ed25519
    """
    from threegate.acts.adopt import adopt as adopt_now
    from threegate.acts.adopt import adopt_about

    context = context_here()
    about = adopt_about(context)
    if not wants_json(json_):
        say(f"{about['path']}: {about['problem']}")
        say(f"the trail ends at event {about['seq']}; epoch {about['epoch']} begins and earlier approvals become void")
    ask("Adopt this workspace?", yes)
    done = adopt_now(context, acting_here(context, as_, key), about)
    if wants_json(json_):
        emit_json({"epoch": done.epoch, "problem": done.problem, "new_key": done.new_key})
        return
    say(f"adopted: epoch {done.epoch}")
    if done.new_key:
        say("a new workspace key was created; keep the output of: threegate audit checkpoint")
