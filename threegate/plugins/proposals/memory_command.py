"""`threegate project note`: the notes that proposals may search, and the proposed notes that wait for approval."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.acts.signed_acts import sign_act
from threegate.approval.shown.escaped_lines import quoted
from threegate.cli import tab_completion
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    context_here,
    emit_json,
    put,
    say,
    screen_width,
    wants_json,
)
from threegate.cli.signing_options import KeyOption, NameOption, YesOption, acting_here, ask
from threegate.plugins.proposals.memory import APPLY, notes, proposed_note, remove_note, store_note
from threegate.review.named_request import finished_id
from threegate.setup.init import account

app = typer.Typer(help="Store, list and remove notes that proposals may search.", no_args_is_help=True)


@app.command()
def approve(
    which: Annotated[str, argument("ID|FILE", "A finished memory.propose request.", tab_completion.ran)],
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    json_: JsonFlag = False,
) -> None:
    """Store a proposed note.

    Example: threegate project note approve TR-20261122-101500Z-note
    """
    context = context_here()
    quiet = wants_json(json_)
    acting = acting_here(context, name, key)
    request_id = finished_id(context, which, exact=yes)
    proposed = proposed_note(context, request_id)
    lines = quoted(str(proposed.note["content"]), width=screen_width(to_stderr=quiet))
    put(["the note:", *lines], err=quiet)
    ask(f"Sign as {acting.name} and store this note?", yes)
    store_note(context, proposed, sign_act(context, acting, APPLY, proposed.about))
    if quiet:
        emit_json({"request_id": request_id, "note": dict(proposed.note)})
    else:
        say(f"stored    {request_id}")


@app.command()
def remove(
    which: Annotated[str, argument("FILE:LINE|ID", "A note shown by `threegate project note list`.")],
    yes: YesOption = False,
    json_: JsonFlag = False,
) -> None:
    """Remove a stored note; the trail keeps its digest.

    Example: threegate project note remove notes.jsonl:3
    """
    ask(f"Remove the note {which}?", yes)
    note = remove_note(context_here(), which, actor=account())
    if wants_json(json_):
        emit_json({"removed": note})
    else:
        say(f"removed   {note['file']}:{note['line']}  {note['content']}")


@app.command("list")
def list_notes(json_: JsonFlag = False) -> None:
    """List the stored notes.

    Example: threegate project note list
    """
    found = notes(context_here())
    if wants_json(json_):
        emit_json(found)
        return
    for note in found:
        mark = " (sensitive)" if note.get("sensitive") else ""
        say(f"{note['file']}:{note['line']}{mark}  {note['content']}")
