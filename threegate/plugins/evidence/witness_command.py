"""`threegate serve witness`: cosign the trail checkpoints of others, as long as each extends the last."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threegate.cli.invocation import read_key, say, wants_json
from threegate.core.errors import InvalidInput
from threegate.core.extras import require_extra

if TYPE_CHECKING:
    from threegate.trail.workspace_key import VerifierKey


def witness(
    log: Annotated[
        list[str],
        typer.Option(
            "--log",
            metavar="KEY.pub",
            help="The workspace.pub of a trail to cosign, or the key in it (repeatable).",
        ),
    ],
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="DIR",
            help="The folder for key and state; default: `witness` in the state folder.",
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option("--name", help="The name of a new key, like witness.example/one; default: derived from the key."),
    ] = "",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")] = 8767,
    json_log: Annotated[bool, typer.Option("--json-log", help="Log JSON lines (for a journal).")] = False,
) -> None:
    """Cosign the trail checkpoints of other workspaces.

    It serves POST /add-checkpoint (C2SP tlog-witness). The verifier key and the URL are
    printed; each refusal is one line on stderr.

    Example: threegate serve witness --log workspace.pub
    """
    require_extra("a witness", "http")
    import time

    from threegate.core.user_state import UserState
    from threegate.daemon.log import Log
    from threegate.plugins.evidence.witness import Witness
    from threegate.plugins.serve.listening import bind

    logs = _logs(log)
    listener = bind(host, port, reachable=True)
    mine = Witness.open(state or UserState.of("witness").folder, logs, time.time, name)
    from threegate.plugins.evidence.witness_server import create_witness_app
    from threegate.plugins.serve.http_server import serve

    lines = Log(as_json=json_log or wants_json())

    def answered(status: int, line: str) -> None:
        lines.say("cosigned" if status == 200 else "refused", code=str(status), what=line)

    def ready(url: str) -> None:
        say(mine.vkey)
        say(f"listening on {url}")

    try:
        serve(listener, create_witness_app(mine, answered), ready=ready)
    finally:
        mine.close()


def _logs(given: list[str]) -> dict[str, list[VerifierKey]]:
    """The logs' keys by the name of the key, which is the log's origin. Raises InvalidInput."""
    from threegate.core import limits
    from threegate.trail.workspace_key import VerifierKey

    if len(given) > limits.WITNESS_LOGS:
        raise InvalidInput(f"--log: {len(given)} keys; a witness takes at most {limits.WITNESS_LOGS}")
    logs: dict[str, list[VerifierKey]] = {}
    for item in given:
        key = read_key(VerifierKey, item)
        logs.setdefault(key.name, []).append(key)
    return logs
