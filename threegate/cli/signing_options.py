"""Options of all commands that sign: `--as`, `--key`, `--yes`, and the question before the signature.

Invariant: nothing is signed before the person has agreed, at the prompt or with `--yes`. A command that
rejects or stops something needs no further confirmation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from threegate.acts.approve import known_operators
from threegate.acts.signed_acts import OperatorDecision, decide
from threegate.acts.signing_key import Acting, acting_operator
from threegate.cli import tab_completion
from threegate.cli.invocation import (
    confirmed,
    on_terminal,
    screen_width,
    warn,
)
from threegate.core.errors import EXIT_REFUSED, InvalidInput
from threegate.launch.context import Context
from threegate.launch.launch_problem import read_operators
from threegate.setup.init import account

NameOption = Annotated[
    str,
    typer.Option(
        "--as",
        metavar="NAME",
        help="Who signs; default: the operator that the key belongs to.",
        autocompletion=tab_completion.operators,
    ),
]
KeyOption = Annotated[
    Path | None,
    typer.Option("--key", metavar="KEY", help="A private key or .pub; default: yours in ssh-agent or ~/.ssh."),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask (required without a terminal).")]

NOT_APPROVED: Final = "not approved; nothing was changed"


def acting_here(context: Context, name: str, key: Path | None) -> Acting:
    """The operator who signs, and the key. Raises InvalidInput if it is ambiguous."""
    return acting_operator(known_operators(context), name=name, key=key)


def decision_here(
    context: Context, kind: str, about: Mapping[str, Any], name: str, key: Path | None
) -> OperatorDecision:
    """Who rejects or stops: the operator of an available key, or the user who runs the command.

    Raises InvalidInput for a `name` or `key` that belongs to no operator. A named `key` must sign, or it is
    an error.
    """
    acting = _at_hand(context, name, key)
    return decide(context, kind, about, account=account(), acting=acting, ask=key is not None)


def actor_here(context: Context, name: str, key: Path | None) -> str:
    """The same person as the trail's actor; needs no key."""
    acting = _at_hand(context, name, key)
    return account() if acting is None else f"operator:{acting.name}"


def _at_hand(context: Context, name: str, key: Path | None) -> Acting | None:
    try:
        return acting_operator(read_operators(context.workspace), name=name, key=key)
    except InvalidInput:
        if name or key is not None:
            raise
        return None


def ask(question: str, yes: bool) -> None:
    """Get the operator's consent, from `--yes` or at the prompt. Raises InvalidInput without a terminal and
    on a narrow one, Exit if refused.
    """
    if yes:
        return
    if not on_terminal():
        raise InvalidInput("not on a terminal: read the screen above, then give --yes")
    screen_width()
    if not confirmed(question):
        warn(NOT_APPROVED)
        raise typer.Exit(EXIT_REFUSED)
