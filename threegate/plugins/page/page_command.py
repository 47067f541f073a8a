"""`threegate serve page`: the operator's page in a browser on this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from threegate.cli.invocation import say, warn, workspace_here
from threegate.core.extras import require_extra

if TYPE_CHECKING:
    from threegate.core.workspace import Workspace


def page(
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="The port, if a server is started; 0 picks a free one."),
    ] = 0,
) -> None:
    """Print a link to the operator's page in a browser.

    The link works once, in one browser, for ten minutes. If no server runs, it starts one until Ctrl-C.

    Example: threegate serve page --port 8766
    """
    from threegate.plugins.page.page_login import served_port

    workspace = workspace_here()
    if (running := served_port(workspace)) is not None:
        if port not in (0, running):
            warn(f"a server is already running on port {running}; this link opens it")
        say(_link(workspace, running), copied=True)
        return
    _serve(workspace, port)


def _serve(workspace: Workspace, port: int) -> None:
    from threegate.plugins.page.page_login import serving_at
    from threegate.plugins.serve.listening import bind

    require_extra("the page", "http")
    listener = bind("127.0.0.1", port, reachable=False)
    from threegate.plugins.page.app import create_server
    from threegate.plugins.serve.http_server import serve

    def ready(url: str) -> None:
        say(f"listening on {url}; press Ctrl-C to stop")
        # The link is printed only where a person reads it, never to a log.
        say(_link(workspace, taken) if sys.stdout.isatty() else "for a link, run: threegate serve page", copied=True)

    taken = listener.getsockname()[1]
    with serving_at(workspace, taken):
        serve(listener, create_server(workspace), ready=ready)


def _link(workspace: Workspace, port: int) -> str:
    from threegate.plugins.page.page_login import new_code

    return f"http://127.0.0.1:{port}/page/login/{new_code(workspace)}"
