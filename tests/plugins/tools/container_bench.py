"""A server of tools in a container of the test engine, and what is left of such containers."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.engine_fixtures import ENGINE, IMAGE, docker
from tests.plugins.tools.little_servers import HONEST, PYTHON
from threegate.core.settings import EraSettings, RunnersSettings, Settings, WorkspaceSettings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.manifest import Manifest
from threegate.plugins.tools.server_process import Server

NOWHERE = Workspace(Path("/nonexistent"))


def engine_settings(workspace: str = "", engine: str = ENGINE) -> Settings:
    """Settings with the test engine, of a workspace of that id."""
    runners = RunnersSettings(era=EraSettings(engine=engine, image=IMAGE))
    return Settings(runners=runners, workspace=WorkspaceSettings(id=workspace))


def new_workspace_id() -> str:
    return f"ws-{uuid.uuid4().hex}"


def described(source: str = "", **fields: Any) -> Manifest:
    """A manifest of a server that was not asked yet; its code is on its command line, as the image has none of ours."""
    argv = (PYTHON, "-I", "-c", f"{HONEST}\n{source}\nmain()\n")
    manifest = Manifest(
        server="little", argv=argv, place="era", account="", allow=(), binds=(), env={}, secrets=(),
        initialize={}, tools=(), program={}, image=IMAGE,
    )  # fmt: skip
    return replace(manifest, **fields)


def pinned(manifest: Manifest, settings: Settings) -> Manifest:
    """The same, with what the server says of itself."""
    with Server(NOWHERE, settings, manifest) as server:
        return replace(manifest, initialize=server.initialize(), tools=server.list_tools())


def opened(source: str = "", workspace: str = "", **fields: Any) -> Server:
    """A server that is pinned, to be entered."""
    settings = engine_settings(workspace)
    return Server(NOWHERE, settings, pinned(described(source, **fields), settings))


def containers(workspace: str) -> list[str]:
    """The containers that an engine has of a workspace, running or not."""
    words = ("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label=threegate.workspace={workspace}")
    return docker(*words).split()
