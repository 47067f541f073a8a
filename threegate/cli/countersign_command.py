"""`threegate countersign`: add a further operator's signature."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threegate.cli import tab_completion
from threegate.cli.approve_command import show, show_group
from threegate.cli.invocation import JsonFlag, argument, context_here, emit_json, say, wants_json
from threegate.cli.signing_options import KeyOption, NameOption, YesOption, acting_here, ask

if TYPE_CHECKING:
    from threegate.review.countersign import Countersigned

app = typer.Typer()


@app.command()
def countersign(
    file: Annotated[Path, argument("ID|FILE", "A request in approved/: its id or file.", tab_completion.waiting)],
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    full: Annotated[bool, typer.Option("--full", help="Show everything in full.")] = False,
    group: Annotated[
        bool,
        typer.Option("--group", help="Also sign all waiting requests that were approved with it, once."),
    ] = False,
    json_: JsonFlag = False,
) -> None:
    """Add a second operator's signature to an approved request.

    With --group, sign all waiting requests that were approved together with it.

    Example: threegate countersign TR-20261122-101500Z-sum --as bob
    """
    from threegate.review.countersign import countersign as add_signature
    from threegate.review.countersign import countersign_all, open_waiting, waiting_group

    context = context_here()
    acting = acting_here(context, name, key)
    quiet = wants_json(json_)
    rows: list[dict[str, object]] = []
    if group:
        waiting, opened = waiting_group(context, file, acting.name)
        reader = show_group(opened, context, acting.name, full=full, to_stderr=quiet)
        ask(f"Countersign these {len(waiting)} as {acting.name}?", yes)
        reading = None if yes else reader.read()
        for done in countersign_all(context, waiting, acting.name, acting.key, reading=reading):
            rows.append(_row(done, quiet=quiet))
    else:
        with open_waiting(context, file) as (prepared, reviewed):
            reader = show(reviewed, context, acting.name, full=full, to_stderr=quiet)
            ask(f"Countersign as {acting.name}?", yes)
            reading = None if yes else reader.read()
            done = add_signature(context, prepared, acting.name, acting.key, reading=reading)
            rows.append(_row(done, quiet=quiet))
    if quiet:
        emit_json(rows if group else rows[0])


def _row(done: Countersigned, *, quiet: bool) -> dict[str, object]:
    """Report what was done; with `--json`, return the object to print."""
    if not quiet:
        say(f"countersigned {done.path}")
        say("waiting for another operator" if done.missing else "the quorum is met")
    return {
        "file": str(done.path),
        "countersigned_by": done.name,
        "key": done.fingerprint,
        "quorum_missing": done.missing,
    }
