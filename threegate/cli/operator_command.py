"""`threegate operator`: add, list, revoke, record."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from threegate.acts.operator import add_operator, list_operators, record_operators, revoke_operator
from threegate.cli import tab_completion
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    emit_json,
    report,
    say,
    wants_json,
    warn,
    workspace_here,
)
from threegate.core.errors import EXIT_REFUSED, InvalidInput, ThreeGateError, WrongUsage
from threegate.runners.machine import machine_of
from threegate.setup.init import account, read_public_key

app = typer.Typer()


@app.command("add")
def add(
    name: Annotated[str, argument("NAME", "The operator's name; an existing one gets a further key.")],
    key: Annotated[Path, typer.Option("--key", metavar="PUB", help="Their public key file.")],
    authority: Annotated[
        bool, typer.Option("--cert-authority", help="The key is a CA that signs certificates for this name.")
    ] = False,
    valid_after: Annotated[
        str, typer.Option("--valid-after", metavar="YYYYMMDDZ", help="The key is valid from this time (UTC).")
    ] = "",
    valid_before: Annotated[
        str,
        typer.Option("--valid-before", metavar="YYYYMMDDZ", help="The key is valid until this time (UTC)."),
    ] = "",
    json_: JsonFlag = False,
) -> None:
    """Add an operator, who can then approve requests.

    Example: threegate operator add bob --key bob.pub
    """
    entry = add_operator(
        workspace_here(),
        name,
        read_public_key(key),
        actor=account(),
        authority=authority,
        valid_after=_moment(valid_after),
        valid_before=_moment(valid_before),
    )
    value = {"operator": entry.name, "key": entry.key.fingerprint, "authority": entry.authority}
    report(json_, value, chain([f"added {entry.name} {entry.key.type} {entry.key.fingerprint}"], _copies()))


@app.command("list")
def list_(json_: JsonFlag = False) -> None:
    """List who can approve, with which keys and passkeys.

    Exit 2 if the files differ from what was recorded.

    Example: threegate operator list
    """
    lines, problem = list_operators(workspace_here())
    if wants_json(json_):
        emit_json(
            {
                "problem": problem,
                "operators": [
                    {
                        "name": line.name,
                        "key": line.fingerprint,
                        "type": line.type,
                        "authority": line.authority,
                        "valid_after": _shown(line.valid_after),
                        "valid_before": _shown(line.valid_before),
                        "revoked": line.revoked,
                        "origin": line.origin,
                    }
                    for line in lines
                ],
            }
        )
    else:
        for line in lines:
            notes = [
                "cert-authority" if line.authority else "",
                f"passkey for {line.origin}" if line.origin else "",
                f"from {_shown(line.valid_after)}" if line.valid_after else "",
                f"until {_shown(line.valid_before)}" if line.valid_before else "",
                {True: "REVOKED", None: "see the KRL", False: ""}[line.revoked],
            ]
            say(" ".join(filter(None, [line.name, line.type, line.fingerprint, *notes])))
    if problem is not None:
        warn(problem)
        raise typer.Exit(EXIT_REFUSED)


@app.command("revoke")
def revoke(
    which: Annotated[str, argument("NAME|SHA256:…", "A name (all its keys) or one key.", tab_completion.operators)],
    json_: JsonFlag = False,
) -> None:
    """Take away the right to approve.

    Waiting requests that this operator or key approved no longer run.

    Example: threegate operator revoke bob
    """
    concerned = revoke_operator(workspace_here(), which, actor=account())
    value = {"revoked": [{"name": entry.name, "key": entry.key.fingerprint} for entry in concerned]}
    lines = (f"revoked {entry.name} {entry.key.fingerprint}" for entry in concerned)
    report(json_, value, chain(lines, _copies()))


@app.command("record")
def record(
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that you checked the files.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Record the operators' files after a manual change.

    Example: threegate operator record --yes
    """
    if not yes:
        raise WrongUsage("check tool-exec/operators and operators.revoked first, then give --yes")
    current = record_operators(workspace_here(), actor=account())
    operators, revoked, passkeys = current.digests
    value = {"operators_sha256": operators, "revoked_sha256": revoked, "passkeys_sha256": passkeys}
    report(json_, value, [f"recorded {len(current.entries)} keys, operators {operators}"])


def _copies() -> Iterator[str]:
    """What is to be done where other machines run requests."""
    workspace = workspace_here()
    try:
        settings = workspace.load_settings()
    except ThreeGateError:  # who may approve can be changed all the same
        return
    yield from machine_of(settings).copies(workspace, settings)


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    for form in ("%Y%m%dZ", "%Y%m%d%H%M%SZ"):
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise InvalidInput(f"{text}: not a date of the form 20270101Z or 20270101120000Z")


def _shown(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"
