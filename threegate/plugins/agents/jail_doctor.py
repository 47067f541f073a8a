"""Lines of `threegate doctor` about agents: every restriction of the jail, measured in one, and the other
requirements of a run.

Invariant: a restriction is reported as ok only if it was read back from inside. If agents cannot be run, that
is a warning, because many workspaces run none.
"""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from threegate.core.extras import Extra, install_line, missing_modules
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.agents.profile import load_profile, profile_names
from threegate.runners.backend import DoctorLine, guarded
from threegate.runners.jail.jail import Account, missing_packages
from threegate.runners.jail.jail_cgroup import JailCgroup
from threegate.runners.jail.jail_trial import measure_walls

_NOBODY = "nobody"
_EXTRAS: tuple[Extra, ...] = ("agents", "mcp")


def agent_lines(workspace: Workspace | None, settings: Settings, probes: bool) -> list[DoctorLine]:
    """For the place `report`; without `probes` no jail is made."""
    lines = guarded("agents", lambda: _programs(settings), "warning")
    lines += [_libraries(), _packages()]
    if probes and lines[-1].state == "ok":
        lines += guarded("agents: jail", _walls, "warning")
        lines += guarded("agents: work copy", _overlay, "warning")
    return [*lines, _limits()]


def _programs(settings: Settings) -> Iterator[DoctorLine]:
    found = []
    for name in profile_names(settings):
        program = load_profile(name, settings).program
        if program and shutil.which(program):
            found.append(name)
    yield DoctorLine("agents", "ok", f"installed: {', '.join(found) or 'none'}; the profile generic runs any program")


def _libraries() -> DoctorLine:
    name = "agents: libraries"
    if missing := missing_modules(*_EXTRAS):
        seen = f"missing {', '.join(missing)}: no agent is started"
        return DoctorLine(name, "warning", seen, install_line(*_EXTRAS))
    return DoctorLine(name, "ok", "installed, for the agent's MCP server and the relay to the model")


def _packages() -> DoctorLine:
    name = "agents: packages"
    if missing := missing_packages():
        seen = f"missing {', '.join(missing)}: there is no jail, and no agent is started"
        return DoctorLine(name, "warning", seen, f"on Debian: apt-get install {' '.join(missing)}")
    return DoctorLine(name, "ok", "bubblewrap, socat and util-linux are installed")


def _limits() -> DoctorLine:
    name = "agents: limits"
    if os.geteuid() != 0:
        seen = "an agent's memory is not limited: only root can make a cgroup for that"
        return DoctorLine(name, "warning", seen, "as root: threegate agent run PROFILE --as USER")
    cgroup = JailCgroup.make(f"doctor-{os.getpid()}", memory_mb=64)
    cgroup.close()
    if cgroup.missing:
        return DoctorLine(name, "warning", f"no cgroup can be made here for {', '.join(cgroup.missing)}")
    return DoctorLine(name, "ok", "memory: a cgroup was made and read back")


def _walls() -> Iterator[DoctorLine]:
    account = Account.own()
    if account.uid == 0:  # root runs no agent; this is what an account of its own would get
        found = pwd.getpwnam(_NOBODY)
        account = Account(_NOBODY, found.pw_uid, found.pw_gid)
    for name, holds in measure_walls(account).items():
        if holds:
            yield DoctorLine(f"agents: {name}", "ok", f"measured in a jail of {account.name}")
        else:
            yield DoctorLine(f"agents: {name}", "failure", "not in force", "no agent is started here")


def _overlay() -> Iterator[DoctorLine]:
    if os.geteuid() == 0:
        yield DoctorLine("agents: work copy", "ok", "a plain copy, because root's agents have another account")
        return
    from threegate.plugins.agents.names_layer import names_work  # imported here: without probes no work copy is tested
    from threegate.plugins.agents.work_copy import SCRATCH, UPPER

    with tempfile.TemporaryDirectory(prefix="threegate-doctor-") as folder:
        project, work = Path(folder, "project"), Path(folder, "work")
        for place in (project, work / UPPER, work / SCRATCH):
            place.mkdir(parents=True)
        works = names_work(Account.own(), project, work, work)
        for place in (work / SCRATCH).iterdir():
            place.chmod(0o700)
    if works:
        yield DoctorLine("agents: work copy", "ok", "an overlay: files are copied only when they change")
    else:
        yield DoctorLine(
            "agents: work copy",
            "warning",
            "a plain copy: this kernel has no overlay with fixed names for ordinary accounts (Linux 6.16 has)",
        )
