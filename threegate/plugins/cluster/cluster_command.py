"""`threegate settings cluster`: make the files that a cluster needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli.invocation import JsonFlag, argument, emit_json, say, wants_json, workspace_here
from threegate.plugins.cluster.cluster_files import enter_cluster, make_cluster
from threegate.setup.settings_file import toml_value


def cluster(
    folder: Annotated[Path, argument("DIR", "The folder for the files; keep it secret.")],
    worker: Annotated[
        list[str] | None, typer.Option("--worker", metavar="NAME", help="A worker to add (repeatable).")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="NAME", help="A worker to shut out (repeatable).")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="NAME", help="The broker's name or address, reachable from all machines; kept."),
    ] = None,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="The broker's port; kept.")] = None,
    vhost: Annotated[
        str | None, typer.Option("--vhost", metavar="NAME", help="The broker's virtual host for this daemon; kept.")
    ] = None,
    broker_dir: Annotated[
        str | None,
        typer.Option("--broker-dir", metavar="DIR", help="Where broker/ will be on the broker's machine; kept."),
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Replace certificates that have ended or end within 30 days.")
    ] = False,
    enter: Annotated[
        bool, typer.Option("--enter", help="Write broker, identity and workers to threegate.toml.")
    ] = False,
    json_: JsonFlag = False,
) -> None:
    """Make a development CA, certificates and RabbitMQ files.

    Run it again to add or remove workers, and after a change of the operators: it prints what to copy where.

    Example: threegate settings cluster cluster --worker w1 --worker w2 --host broker.example --enter
    """
    workspace = workspace_here()
    given = {"host": host, "port": port, "vhost": vhost, "broker_dir": broker_dir}
    named = {name: value for name, value in given.items() if value is not None}
    made = make_cluster(workspace, folder.absolute(), worker or [], remove=remove or [], renew=renew, **named)
    entered = (enter or bool(remove)) and enter_cluster(workspace, made, enter=enter, actor="operator")
    ends = {name: end.strftime("%Y-%m-%d") for name, end in made.ends.items()}
    if wants_json(json_):
        emit_json(
            {
                "folder": str(made.folder),
                "workers": list(made.workers),
                "removed": list(made.removed),
                "settings": made.settings,
                "entered": enter,
                "changed": list(made.changed),
                "ends": ends,
                "steps": list(made.steps()),
            }
        )
        return
    for line in made.steps():
        say(line if line.endswith(":") else f"  {line}")
    for name, end in ends.items():
        say(f"{made.folder / name}: the certificate ends on {end}; --renew makes a new one")
    if entered:
        say("Restart the daemon.")
    elif not enter and not remove:
        say("[cluster] of threegate.toml needs (--enter writes it):")
        for name, value in made.settings.items():
            say(f"{name.rpartition('.')[2]} = {toml_value(value)}")
