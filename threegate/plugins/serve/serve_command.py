"""`threegate serve http|mcp`: the gate for other processes. Each server needs an extra."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import typer

from threegate.cli.invocation import ROOT, say, warn, workspace_here
from threegate.core import limits
from threegate.core.errors import NoWorkspace
from threegate.core.extras import require_extra
from threegate.core.workspace import Workspace

app = typer.Typer()

TOKEN_VARIABLE = "THREEGATE_TOKEN"  # noqa: S105 - the variable's name
OTHER_TOKEN_VARIABLE = "AANA_BRIDGE_TOKEN"  # noqa: S105 - the name that the AANA bridge has for it


_EvidenceOption = Annotated[
    Literal["quickstart", "production"],
    typer.Option(help="In production, evidence that is only a string is refused."),
]
_LogOption = Annotated[
    str, typer.Option(metavar="FILE", help="Decision log; default: the workspace's, else the state folder's.")
]


@app.command()
def http(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")] = 8766,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Require no token; loopback only.")] = False,
    evidence: _EvidenceOption = "quickstart",
    rate: Annotated[
        int, typer.Option(min=1, help="Requests per minute for each client address.")
    ] = limits.SERVE_REQUESTS_PER_MINUTE,
    log: _LogOption = "",
) -> None:
    """Serve the gates over HTTP.

    The paths are POST /pre-tool-check, /proposals/validate and /contracts/decide. The bearer token is
    read from THREEGATE_TOKEN, or from AANA_BRIDGE_TOKEN.

    Example: threegate serve http --port 8765
    """
    require_extra("this server", "http")
    token = _token()
    if token is None and not no_auth:
        raise typer.BadParameter(f"set {TOKEN_VARIABLE} to the token that callers must send, or use --no-auth")
    if no_auth:
        token = None
    from threegate.plugins.serve.listening import bind
    from threegate.plugins.serve.recording import decision_log

    workspace = _workspace()
    decisions = decision_log(log, workspace)
    listener = bind(host, port, reachable=token is not None)
    from threegate.plugins.serve.http_app import HttpOptions, create_app, numbers_of
    from threegate.plugins.serve.http_server import serve

    options = HttpOptions(
        token=token,
        log=decisions,
        evidence_mode=evidence,
        per_minute=rate,
        metrics=numbers_of(workspace, decisions.path),
        workspace=workspace,
        local=no_auth,
    )
    warn(f"decisions are recorded in {decisions.path}")

    def ready(url: str) -> None:
        say(f"listening on {url}")

    serve(listener, create_app(options), ready=ready)


@app.command()
def mcp(
    evidence: _EvidenceOption = "quickstart",
    log: _LogOption = "",
    gates: Annotated[
        bool,
        typer.Option(
            "--gates",
            help="Also offer aana_pre_tool_check and contracts_decide. Without a workspace the first is there.",
        ),
    ] = False,
    run: Annotated[str, typer.Option(metavar="RUN", help="Serve this run of an agent; used by the launcher.")] = "",
    wait_sec: Annotated[
        int,
        typer.Option(min=0, max=limits.DOOR_WAIT_SECONDS, help="How long a call waits before it answers `pending`."),
    ] = limits.DOOR_USUAL_WAIT_SECONDS,
) -> None:
    """Serve the MCP tools on stdin and stdout.

    If stdin is a listening socket, its clients are served. An agent makes a request and waits for the result.

    Example: threegate serve mcp
    """
    require_extra("this server", "mcp")
    from threegate.plugins.serve.recording import decision_log

    workspace = workspace_here() if run else _workspace()
    decisions = decision_log(log, workspace)
    import anyio

    from threegate.plugins.agents.door import Door
    from threegate.plugins.serve.guide import Guide
    from threegate.plugins.serve.mcp_server import ToolServer
    from threegate.plugins.serve.mcp_transport import listening_stdin, serve_socket, serve_stdio
    from threegate.plugins.serve.requests import RequesterAccess
    from threegate.plugins.serve.workspace_gates import WorkspaceGates

    of = workspace.agent_run(run) if workspace is not None and run else None
    door = Door(workspace, of, wait_sec) if workspace is not None else None
    requester = RequesterAccess(workspace, of) if workspace is not None else None
    # an agent behind this server runs nothing itself: its calls become requests, which these contracts judge
    # anyway
    asked = gates and workspace is not None and not run
    decide = WorkspaceGates(workspace, decisions, surface="mcp") if asked and workspace is not None else None

    def make() -> ToolServer:
        return ToolServer(
            log=decisions,
            requester=requester,
            door=door,
            guide=Guide(workspace),
            gates=decide,
            check=gates or workspace is None,
            evidence_mode=evidence,
        )

    listener = listening_stdin()
    if listener is not None:
        anyio.run(serve_socket, listener, make)
    else:
        anyio.run(serve_stdio, make())


def _token() -> str | None:
    """The bearer token, taken out of the environment. Raises BadParameter if two are set and differ."""
    tokens = {os.environ.pop(name, "") for name in (TOKEN_VARIABLE, OTHER_TOKEN_VARIABLE)} - {""}
    if len(tokens) > 1:
        raise typer.BadParameter(f"{TOKEN_VARIABLE} and {OTHER_TOKEN_VARIABLE} differ; set one of them")
    return tokens.pop() if tokens else None


def _workspace() -> Workspace | None:
    """The workspace, if there is one; a server of the gate alone needs none. A named workspace must exist."""
    try:
        return workspace_here()
    except NoWorkspace:
        if ROOT.workspace or os.environ.get("THREEGATE_WORKSPACE"):
            raise
        return None
