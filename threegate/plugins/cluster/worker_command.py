"""`threegate serve worker`: run the requests of a daemon on another machine, after judging them there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from threegate.cli.invocation import wants_json


def worker(
    broker: Annotated[str, typer.Option("--broker", metavar="URL", help="amqps://HOST[:PORT][/VHOST]")],
    identity: Annotated[
        Path,
        typer.Option(
            "--identity",
            metavar="DIR",
            help="The folder with ca.pem, tls.pem, tls.key and workspace.pub of this worker.",
        ),
    ] = Path(),
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", metavar="DIR", help="The folder for journal, inputs and runs; default: state in --identity."
        ),
    ] = None,
    operators: Annotated[
        Path | None,
        typer.Option(
            "--operators",
            metavar="FILE",
            help="The operators file of this worker; default: operators in --identity. FILE.revoked is read too.",
        ),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(
            "--settings",
            metavar="FILE",
            help="A file with [approval], [request] and [runners] for this worker.",
        ),
    ] = None,
    take_operators: Annotated[
        bool,
        typer.Option("--take-operators", help="Take operators files that an operator of this worker signed."),
    ] = False,
    json_log: Annotated[bool, typer.Option("--json-log", help="Log JSON lines (for a journal).")] = False,
) -> None:
    """Run requests on this machine for a cluster.

    SIGTERM stops it gracefully. Only signed requests run, whatever the broker sends.

    Example: threegate serve worker --broker amqps://broker.example --identity worker-1
    """
    from threegate.core.errors import WrongUsage
    from threegate.daemon.log import Log
    from threegate.plugins.cluster.section import BROKER_URL
    from threegate.plugins.cluster.worker.service import Options, run_worker

    if not re.fullmatch(BROKER_URL, broker):
        raise WrongUsage("--broker: is not of the form amqps://HOST[:PORT][/VHOST]; TLS is required")

    log = Log(as_json=json_log or wants_json())
    home = identity.absolute()
    run_worker(
        Options(
            broker,
            (operators or home / "operators").absolute(),
            home,
            (state or home / "state").absolute(),
            settings,
            take_operators,
        ),
        lambda line: log.say("worker", what=line),
    )
