"""``threegate checkpoint``: answer a contract checkpoint, a signed decision that a contract requires of a
person.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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

if TYPE_CHECKING:
    from threegate.acts.contract_checkpoint_answers import OpenCheckpoint

app = typer.Typer(no_args_is_help=True, add_completion=False)

RequestId = Annotated[
    str, argument("REQUEST_ID", "A request shown by `threegate checkpoint list`.", tab_completion.checkpoints)
]


@app.command("list")
def list_(json_: JsonFlag = False) -> None:
    """List the requests that are waiting for a person.

    Example: threegate checkpoint list
    """
    from threegate.acts.contract_checkpoint_answers import open_checkpoints

    items = open_checkpoints(context_here())
    if wants_json(json_):
        emit_json([item.to_json() for item in items])
        return
    for item in items:
        _show(item)
    if not items:
        say("nothing is waiting for an answer")


def _show(item: OpenCheckpoint) -> None:
    from threegate.approval.shown.escaped_lines import field

    since = f", asked {item.asked:%Y-%m-%d %H:%M:%SZ}" if item.asked else ""
    say(f"{item.request_id}  {item.tool}  session {item.session_id}{since}")
    for demand in item.decision.checkpoints:
        say(f"  {demand.name}: answer within {demand.timeout_seconds:g} s; otherwise {demand.on_timeout}")
        for label, value in demand.context:
            put(field(label, json.dumps(value, ensure_ascii=True), width=screen_width(), limit=None))


@app.command()
def approve(request_id: RequestId, name: NameOption = "", key: KeyOption = None, yes: YesOption = False) -> None:
    """Let exactly this call run.

    Example: threegate checkpoint approve TR-20261122-101500Z-sum
    """
    _answer(request_id, name, key, yes, approve=True)


@app.command()
def deny(request_id: RequestId, name: NameOption = "", key: KeyOption = None, yes: YesOption = False) -> None:
    """Refuse this call.

    Example: threegate checkpoint deny TR-20261122-101500Z-sum
    """
    _answer(request_id, name, key, yes, approve=False)


def _answer(request_id: str, name: str, key: Path | None, yes: bool, *, approve: bool) -> None:
    from threegate.acts.contract_checkpoint_answers import ANSWER, answer, answer_about, open_checkpoint
    from threegate.acts.signed_acts import sign_act

    context = context_here()
    acting = acting_here(context, name, key)
    item = open_checkpoint(context, request_id)
    _show(item)
    word = "approve" if approve else "deny"
    ask(f"Sign as {acting.name} and {word} this call?", yes)
    answer(context, item, sign_act(context, acting, ANSWER, answer_about(item, approve=approve)), approve=approve)
    say(f"{'approved' if approve else 'denied'} {request_id}")
