"""Lines of `threegate doctor` about tool servers."""

from __future__ import annotations

from collections.abc import Iterator

from threegate.core.errors import ThreeGateError
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.runners.backend import DoctorLine, guarded
from threegate.trail.trail import Trail


def tool_lines(workspace: Workspace | None, settings: Settings, probes: bool) -> list[DoctorLine]:
    """For the place `report`; nothing is started, whatever `probes` says."""
    return [] if workspace is None else guarded("tools", lambda: _tools(workspace, settings))


def _tools(workspace: Workspace, settings: Settings) -> Iterator[DoctorLine]:
    """A line for each added server; none is started."""
    trail = Trail(workspace)
    try:
        with trail.locked() as held:
            index = held.index
    finally:
        trail.close()
    if not any(path.startswith("tools/") for path in index.files):
        return
    from threegate.plugins.tools.manifest import read_manifest, server_names
    from threegate.plugins.tools.remote.token_store import login_problem
    from threegate.plugins.tools.server_card import runs_where  # imported here: few workspaces have a tool server

    for name in server_names(index):
        try:
            manifest = read_manifest(workspace, index, name)
        except ThreeGateError as error:
            yield DoctorLine("tools", "failure", str(error), f"threegate tools remove {name}, then add it again")
            continue
        if (problem := login_problem(settings, manifest)) is not None:
            yield DoctorLine("tools", "warning", f"{name}: {problem}", f"threegate tools login {name}")
            continue
        daemons = manifest.place == "host" and not manifest.account
        yield DoctorLine(
            "tools",
            "warning" if daemons else "ok",
            f"{name}: {len(manifest.tools)} tools, {runs_where(manifest)}",
            "add it again with --in jail, or run the daemon as root, so that it gets an account of its own"
            if daemons
            else "",
        )
