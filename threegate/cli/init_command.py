"""`threegate init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli.invocation import JsonFlag, argument, emit_json, say, wants_json
from threegate.core.settings import EraSettings
from threegate.runners.era.bubblewrap_answer import bubblewrap_line, short_digest
from threegate.setup.init import init_workspace


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

    It asks nothing.

    Example: threegate init ws --operator alice --key ~/.ssh/id_ed25519.pub
    """
    made = init_workspace(folder, operator=operator, public_key=key, agent=agent)
    if wants_json(json_):
        emit_json(
            {
                "workspace": str(made.workspace.root),
                "id": made.workspace_id,
                "operator": made.operator,
                "public_key": str(made.public_key),
                "new_key": str(made.new_key) if made.new_key else None,
                "image": made.image or None,
            }
        )
        return
    say(f"workspace {made.workspace.root} ({made.workspace_id})")
    say(f"operator  {made.operator}, key {made.public_key}")
    if agent:
        say(f"agent     {agent} may write to inbox/ and inbox/files/, and nothing else")
    if made.new_key:
        say(f"new key   {made.new_key} (created without a passphrase; add one with ssh-keygen -p)")
    without = bubblewrap_line(EraSettings())
    if made.image:
        say(f"commands  in containers of the image {short_digest(made.image)}")
    elif without.state == "ok":
        say("commands  in bubblewrap on this machine's packages; for containers: threegate settings images")
    else:
        say(f"commands  wait: {without.seen}; {without.fix or 'or run containers: threegate settings images'}")
    say(f"next      cd {made.workspace.root} && threegate draft --help")
