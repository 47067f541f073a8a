"""`threegate init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.acts.operator_keys import key_to_enrol, operator_keys
from threegate.cli.invocation import JsonFlag, argument, emit_json, on_terminal, say, wants_json
from threegate.cli.key_question import key_made_here, new_key_line
from threegate.core.settings import EraSettings
from threegate.runners.era.bubblewrap_answer import bubblewrap_line, short_digest
from threegate.setup.init import free_for_workspace, init_workspace, read_public_key


def init(
    folder: Annotated[Path, argument("DIR", "The folder for the workspace.")],
    operator: Annotated[str, typer.Option("--operator", help="Name of the first operator.")] = "operator",
    key: Annotated[Path | None, typer.Option("--key", metavar="PUB", help="The operator's public key file.")] = None,
    agent: Annotated[
        str, typer.Option("--agent", metavar="USER", help="The account that may write to the inbox.")
    ] = "",
    json_: JsonFlag = False,
) -> None:
    """Make a workspace: folders, settings, key and first operator.

    The key is --key, or yours in ~/.ssh or ssh-agent, or a new one. It asks one thing, for a new key and on a terminal
    only: whether to set a passphrase.

    Example: threegate init ws --operator alice --key ~/.ssh/id_ed25519.pub
    """
    free_for_workspace(folder)
    new = None
    if key is not None:
        line, found = read_public_key(key), str(key)
    else:
        own = key_to_enrol(operator_keys())
        if own is None:
            own, is_new = key_made_here(ask=on_terminal() and not wants_json(json_))
            new = own if is_new else None
        line, found = own.line.text, own.described
    made = init_workspace(folder, line, operator=operator, agent=agent)
    if wants_json(json_):
        emit_json(
            {
                "workspace": str(made.workspace.root),
                "id": made.workspace_id,
                "operator": made.operator,
                "key": made.fingerprint,
                "new_key": str(new.private) if new is not None else None,
                "image": made.image or None,
            }
        )
        return
    say(f"workspace {made.workspace.root} ({made.workspace_id})")
    say(f"operator  {made.operator}, key {made.fingerprint} ({found})")
    if agent:
        say(f"agent     {agent} may write to inbox/ and inbox/files/, and nothing else")
    if new is not None:
        say(new_key_line(new))
    without = bubblewrap_line(EraSettings())
    if made.image:
        say(f"commands  in containers of the image {short_digest(made.image)}")
    elif without.state == "ok":
        say("commands  in bubblewrap on this machine's packages; for containers: threegate settings images")
    else:
        say(f"commands  wait: {without.seen}; {without.fix or 'or run containers: threegate settings images'}")
    say(f"next      cd {made.workspace.root} && threegate draft --help")
