"""The state of this machine: each line was checked or measured just now, none merely repeats a setting.

Invariant: `doctor` changes nothing; a check that cannot be made is reported as a warning, never as ok.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from threegate.core import limits
from threegate.core.errors import ThreeGateError
from threegate.core.plugins import Place
from threegate.core.settings import Settings
from threegate.core.version import described
from threegate.core.workspace import Workspace
from threegate.runners.backend import DoctorLine, backends, guarded, make_runner, plugin_lines
from threegate.runners.machine import machine_of, workers_answer
from threegate.trail.trail import Trail

SPACE_LOW, SPACE_NONE = 2 << 30, 256 << 20
"""Free bytes below which there is a warning, or a failure."""
_YEAR_2026 = 1_767_225_600

REPORTS: Final = Place[Callable[[Workspace | None, Settings, bool], list[DoctorLine]]]("report")
"""Lines of plugins: of the workspace, if there is one, with its settings; whether short runs may be made."""


def examine(workspace: Workspace | None, *, probes: bool = True) -> list[DoctorLine]:
    """All lines. Without a workspace, those about it are left out; `probes` False leaves out the short
    runs.
    """
    lines: list[DoctorLine] = [DoctorLine("threegate", "ok", f"{described()} on Python {sys.version.split()[0]}")]
    settings = Settings()
    lines += guarded("clock", clock_lines)
    lines += guarded("ssh-keygen", _ssh_keygen)
    if workspace is None:
        lines.append(DoctorLine("workspace", "warning", "none here", "threegate init DIR, or --workspace DIR"))
    else:
        try:
            settings = workspace.load_settings()
            lines.append(DoctorLine("settings", "ok", str(workspace.settings_file)))
        except ThreeGateError as error:
            lines.append(DoctorLine("settings", "failure", str(error), "threegate settings check"))
        lines += guarded("folders", lambda: _folders(workspace))
        lines += guarded("operators", lambda: _operators(workspace))
        lines += guarded("trail", lambda: _trail(workspace))
        lines += guarded("disk", lambda: disk_lines(workspace.root))
    lines += plugin_lines(settings)
    for report in REPORTS.given(settings.plugins.off).values():
        lines += report(workspace, settings, probes)
    elsewhere = None if workspace is None else machine_of(settings).workers(workspace, settings)
    if elsewhere is not None:  # nothing runs here, so nothing that runs need is missed here
        return [*lines, workers_answer(elsewhere)]
    for backend in backends():
        lines += backend.doctor(settings, probes)
    return [*lines, _works(settings)]


def _works(settings: Settings) -> DoctorLine:
    """The last line: which backends would run a request now, for the current user."""
    can, cannot = [], []
    for backend in backends():
        answer = backend.answers(settings)
        if answer is not None and answer.state != "ok":
            cannot.append(f"not {backend.name} ({answer.seen})")
            continue
        runner = make_runner(backend.name, settings, once=True)
        try:
            missing = runner.available()
        finally:
            runner.close()
        if missing is None:
            can.append(backend.name)
        else:
            cannot.append(f"not {backend.name} ({missing})")
    seen = "; ".join([f"{', '.join(can) or 'nothing'}, as uid {os.geteuid()}", *cannot])
    return DoctorLine("works for you now", "ok" if can else "warning", seen)


def clock_lines() -> Iterator[DoctorLine]:
    """Whether this machine's clock is plausible, because approvals and trails depend on it."""
    if time.time() < _YEAR_2026:
        yield DoctorLine("clock", "failure", time.strftime("%Y-%m-%d", time.gmtime()), "set the clock")
    else:
        yield DoctorLine("clock", "ok", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def _ssh_keygen() -> Iterator[DoctorLine]:
    path = Path("/usr/bin/ssh-keygen")
    if not path.is_file():
        yield DoctorLine("ssh-keygen", "failure", f"{path} is missing", "apt-get install openssh-client")
        return
    answer = subprocess.run(["/usr/bin/ssh", "-V"], capture_output=True, text=True, timeout=10)
    yield DoctorLine("ssh-keygen", "ok", (answer.stderr or answer.stdout).strip()[:80])


def _folders(workspace: Workspace) -> Iterator[DoctorLine]:
    bad = []
    own = (os.geteuid(), 0)
    for path in (workspace.tool_exec, *sorted(workspace.tool_exec.iterdir())):
        facts = path.lstat()
        if stat.S_ISDIR(facts.st_mode) and (facts.st_mode & 0o022 or facts.st_uid not in own):
            bad.append(f"{path.name} ({stat.filemode(facts.st_mode)}, uid {facts.st_uid})")
    if bad:
        yield DoctorLine(
            "folders",
            "failure",
            "others may write: " + ", ".join(bad),
            "chmod go-w; chown to the daemon's user",
        )
    else:
        yield DoctorLine("folders", "ok", f"only uid {own[0]} can write to tool-exec/")
    replaced = workspace.replaced_folder()
    if replaced is not None:
        yield DoctorLine("folders", "failure", replaced, "until it is put back, nothing is launched")
    open_to_all = [
        path.name for path in (workspace.drafts, workspace.verdicts, workspace.results) if _open_to_all(path)
    ]
    if open_to_all:
        names = ", ".join(open_to_all)
        yield DoctorLine(
            "folders",
            "warning",
            f"every account of this machine may read {names} in tool-exec/",
            "chmod 700 these folders; for the agent's account: setfacl -m u:USER:rx,d:u:USER:rx results verdicts",
        )
    with workspace.hold(workspace.root) as root:
        facts = root.stat("inbox")
    if facts.st_mode & 0o002:
        yield DoctorLine("inbox", "warning", "everyone may write to it", "chmod o-w inbox; give CORE its own group")
    else:
        yield DoctorLine("inbox", "ok", f"{stat.filemode(facts.st_mode)}, uid {facts.st_uid}")


def _open_to_all(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o007)


def _operators(workspace: Workspace) -> Iterator[DoctorLine]:
    path = workspace.operators_file
    facts = path.lstat()
    count = sum(1 for line in path.read_bytes().splitlines() if line.strip() and not line.startswith(b"#"))
    if facts.st_mode & 0o022:
        yield DoctorLine("operators", "failure", f"others may write to {path}", "chmod go-w tool-exec/operators")
    elif not count:
        yield DoctorLine(
            "operators",
            "warning",
            "no operators: nothing can be approved",
            "threegate operator add NAME --key KEY.pub",
        )
    else:
        yield DoctorLine("operators", "ok", f"{count} key" + "s" * (count != 1))


def _trail(workspace: Workspace) -> Iterator[DoctorLine]:
    """The whole chain, read once, and the head stored outside."""
    trail = Trail(workspace)
    try:
        count = sum(1 for _ in trail.events())
        with trail.locked() as held:
            problem = held.outside_problem()
            behind = held.clock_behind_seconds
    finally:
        trail.close()
    if problem is not None:
        yield DoctorLine("trail", "failure", problem, "threegate audit verify; then threegate settings adopt")
    elif behind > 0:
        yield DoctorLine("trail", "warning", f"the clock is {int(behind)} s behind its last event", "set the clock")
    else:
        yield DoctorLine("trail", "ok", f"{count} events; the chain is intact and agrees with the head stored outside")


def disk_lines(root: Path) -> Iterator[DoctorLine]:
    """The free space on the workspace's disk, in bytes and in names (inodes)."""
    free = shutil.disk_usage(root).free
    seen = f"{free >> 20} MiB free"
    found = os.statvfs(root)
    if found.f_files and found.f_favail < limits.DOCTOR_NAMES:
        seen = f"{found.f_favail} files can still be made (inodes)"
        yield DoctorLine("disk", "failure", seen, "make room: threegate audit prune --older-than 30d")
    elif free < SPACE_NONE:
        yield DoctorLine("disk", "failure", seen, "make room: threegate audit prune --older-than 30d")
    elif free < SPACE_LOW:
        yield DoctorLine("disk", "warning", seen, "make room: threegate audit prune --older-than 30d")
    else:
        yield DoctorLine("disk", "ok", seen)
