"""`threegate operator`: add, passkey, list, revoke, record."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from threegate.cli import tab_completion
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    context_here,
    emit_json,
    on_terminal,
    say,
    wants_json,
    warn,
    workspace_here,
)
from threegate.cli.serve_command import passkey_origin
from threegate.cli.signing_options import KeyOption, NameOption, acting_here, ask
from threegate.core import limits
from threegate.core.errors import EXIT_REFUSED, InvalidInput, NoWorkspace, Unavailable

app = typer.Typer(no_args_is_help=True)


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
    from threegate.acts.operator import add_operator
    from threegate.setup.init import account, read_public_key

    entry = add_operator(
        workspace_here(),
        name,
        read_public_key(key),
        actor=account(),
        authority=authority,
        valid_after=_moment(valid_after),
        valid_before=_moment(valid_before),
    )
    if wants_json(json_):
        emit_json({"operator": entry.name, "key": entry.key.fingerprint, "authority": entry.authority})
        return
    say(f"added {entry.name} {entry.key.type} {entry.key.fingerprint}")


@app.command("passkey")
def passkey(name: NameOption = "", key: KeyOption = None, json_: JsonFlag = False) -> None:
    """Enrol a passkey of yours, signed with your SSH key.

    The command prints a link to the page of `threegate serve approve` and waits. It always asks: only
    comparing the fingerprints keeps out the passkey of someone else who had the link.

    Example: threegate operator passkey --as alice
    """
    import time

    from threegate.acts.passkeys import PASSKEY_ACT, enrol_passkey, read_made_passkey
    from threegate.acts.signed_acts import sign_act
    from threegate.setup.page_login import new_enrolment, passkey_made

    if not on_terminal():
        raise InvalidInput(
            "not on a terminal: a person must compare the passkey's fingerprint with the one on the page"
        )
    context = context_here()
    origin = passkey_origin(context.policy.settings)
    acting = acting_here(context, name, key)
    code = new_enrolment(context.workspace, acting.name)
    warn("open this link on the device you will approve from, within ten minutes:")
    say(f"{origin}/page/enrol/{code}", err=True, copied=True)
    until = time.monotonic() + limits.PAGE_LOGIN_SECONDS
    while (data := passkey_made(context.workspace, code)) is None:
        if time.monotonic() > until:
            raise Unavailable("no passkey was made within ten minutes; is `threegate serve approve` running?")
        time.sleep(0.2)
    made = read_made_passkey(data, origin)
    warn(f"passkey {made.key.fingerprint}")
    warn(f"for     {acting.name}, who can approve with it on {origin}")
    ask("Does the page show the same fingerprint? Sign its enrolment?", False)
    entry = enrol_passkey(context, acting.name, made, sign_act(context, acting, PASSKEY_ACT, made.about(acting.name)))
    if wants_json(json_):
        emit_json({"operator": entry.name, "key": entry.key.fingerprint, "origin": origin})
        return
    say(f"enrolled {entry.name} {entry.key.fingerprint} for {origin}")


@app.command("list")
def list_(json_: JsonFlag = False) -> None:
    """List who can approve, with which keys and passkeys.

    Exit 2 if the files differ from what was recorded.

    Example: threegate operator list
    """
    from threegate.acts.operator import list_operators

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
    from threegate.acts.operator import revoke_operator
    from threegate.setup.init import account

    concerned = revoke_operator(workspace_here(), which, actor=account())
    if wants_json(json_):
        emit_json({"revoked": [{"name": entry.name, "key": entry.key.fingerprint} for entry in concerned]})
        return
    for entry in concerned:
        say(f"revoked {entry.name} {entry.key.fingerprint}")


@app.command("record")
def record(
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that you checked the files.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Record the operators' files after a manual change.

    Example: threegate operator record --yes
    """
    from threegate.acts.operator import record_operators
    from threegate.setup.init import account

    if not yes:
        raise NoWorkspace("check tool-exec/operators and operators.revoked first, then give --yes")
    current = record_operators(workspace_here(), actor=account())
    operators, revoked, passkeys = current.digests
    if wants_json(json_):
        emit_json({"operators_sha256": operators, "revoked_sha256": revoked, "passkeys_sha256": passkeys})
        return
    say(f"recorded {len(current.entries)} keys, operators {operators}")


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
