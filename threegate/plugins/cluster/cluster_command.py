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
        list[str] | None,
        typer.Option("--worker", metavar="NAME", help="A worker (repeatable)."),
    ] = None,
    host: Annotated[
        str,
        typer.Option("--host", metavar="NAME", help="The broker's name or address, reachable from all machines."),
    ] = "localhost",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="The broker's port.")] = 5671,
    enter: Annotated[
        bool, typer.Option("--enter", help="Write broker, identity and workers to threegate.toml.")
    ] = False,
    json_: JsonFlag = False,
) -> None:
    """Make a development CA, certificates and RabbitMQ files.

    Run the command again to add workers.

    Example: threegate settings cluster cluster --worker w1 --worker w2 --host broker.example --enter
    """
    workspace = workspace_here()
    made = make_cluster(workspace, folder.absolute(), worker or [], host=host, port=port)
    if enter:
        enter_cluster(workspace, made, actor="operator")
    if wants_json(json_):
        emit_json(
            {
                "folder": str(made.folder),
                "workers": list(made.workers),
                "settings": made.settings,
                "entered": enter,
            }
        )
        return
    say(f"broker/ is for the broker's machine, workers/<name>/ for each worker's, daemon/ for this one: {made.folder}")
    say("[cluster] of threegate.toml" + (" now has:" if enter else " needs (--enter writes it):"))
    for name, value in made.settings.items():
        say(f"{name.rpartition('.')[2]} = {toml_value(value)}")
