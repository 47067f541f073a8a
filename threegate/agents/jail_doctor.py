"""Lines of `threegate doctor` about agents: every wall of the jail, measured in one, and what a run needs besides.

Invariant: nothing here says ok of a wall that was not read back from inside. That agents cannot be run is a warning: whoever
runs none needs no jail.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from threegate.agents.jail import Account, measure_walls, overlay_works
from threegate.agents.profile import load_profile, profile_names
from threegate.agents.work_copy import SCRATCH, UPPER
from threegate.core.settings import Settings
from threegate.runners.description import DoctorLine, guarded

_NOBODY = "nobody"


def agent_lines(settings: Settings, probes: bool) -> list[DoctorLine]:
    """Without `probes` no jail is made."""
    lines = guarded("agents", lambda: _programs(settings), "warning")
    lines += guarded("agents: relay", _relay, "warning")
    if probes:
        lines += guarded("agents: jail", _walls, "warning")
        lines += guarded("agents: work copy", _overlay, "warning")
    return lines


def _programs(settings: Settings) -> Iterator[DoctorLine]:
    found = []
    for name in profile_names(settings):
        program = load_profile(name, settings).program
        if program and shutil.which(program):
            found.append(name)
    yield DoctorLine("agents", "ok", f"here: {', '.join(found) or 'none'}; generic runs any program")


def _relay() -> Iterator[DoctorLine]:
    missing = [name for name in ("uvicorn", "h11", "httpx") if importlib.util.find_spec(name) is None]
    if missing:
        yield DoctorLine(
            "agents: relay",
            "warning",
            f"no {', '.join(missing)}: agents get no model",
            "pip install 'threegate[agents]'",
        )
    else:
        yield DoctorLine("agents: relay", "ok", "its libraries are installed")


def _walls() -> Iterator[DoctorLine]:
    account = Account.own()
    if account.uid == 0:  # root runs no agent: what an account of its own would have
        found = pwd.getpwnam(_NOBODY)
        account = Account(_NOBODY, found.pw_uid, found.pw_gid)
    for name, holds in measure_walls(account).items():
        if holds:
            yield DoctorLine(f"agents: {name}", "ok", f"measured in a jail of {account.name}")
        else:
            yield DoctorLine(f"agents: {name}", "failure", "does not hold", "no agent is started here")


def _overlay() -> Iterator[DoctorLine]:
    if os.geteuid() == 0:
        yield DoctorLine("agents: work copy", "ok", "a plain copy, for root's agents have another account")
        return
    with tempfile.TemporaryDirectory(prefix="threegate-doctor-") as folder:
        project, work = Path(folder, "project"), Path(folder, "work")
        for place in (project, work / UPPER, work / SCRATCH):
            place.mkdir(parents=True)
        works = overlay_works(project, work)
        for place in (work / SCRATCH).iterdir():
            place.chmod(0o700)
    if works:
        yield DoctorLine("agents: work copy", "ok", "an overlay: no file is copied before it is changed")
    else:
        yield DoctorLine(
            "agents: work copy", "warning", "a plain copy: this kernel gives no overlay to ordinary accounts"
        )
