"""The freezer of one jail: a cgroup whose processes are frozen and cannot resume themselves. Only root can create
one; without it a jail is stopped by signals, which its processes can undo.

Invariant: a jail counts as frozen only while the kernel says so of the whole cgroup.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from threegate.runners.jail.jail_cgroup import remove_cgroup

_ROOT: Final = Path("/sys/fs/cgroup")
_LOOK_SECONDS: Final = 0.002


def make_freezer(name: str) -> tuple[Path, ...]:
    """Create one for the run `name`; return the file that its first process writes its id into, or nothing."""
    if os.geteuid() != 0:
        return ()
    folder = _folder(name)
    with suppress(OSError):
        folder.mkdir(exist_ok=True)  # with version 2 it is the cgroup that has the limits
        if (folder / _control(folder)).exists():
            return (folder / "cgroup.procs",)
    return ()


def freeze(name: str, seconds: float) -> bool:
    """Freeze a run; False if it has no freezer, or is not frozen in this time."""
    folder = _folder(name)
    until = time.monotonic() + seconds
    while _set(folder, frozen=True):
        if is_frozen(name):
            return True
        if time.monotonic() > until:
            break
        time.sleep(_LOOK_SECONDS)
    thaw(name)
    return False


def thaw(name: str) -> None:
    """Let a run continue."""
    _set(_folder(name), frozen=False)


def is_frozen(name: str) -> bool:
    """Whether all processes of a run are frozen."""
    folder = _folder(name)
    with suppress(OSError):
        if (folder / "freezer.state").exists():
            return (folder / "freezer.state").read_text() == "FROZEN\n"
        return "frozen 1\n" in (folder / "cgroup.events").read_text()
    return False


def remove_freezer(name: str) -> None:
    """Remove it. What is left in it was killed."""
    thaw(name)  # with version 1 a killed process dies only then
    remove_cgroup(_folder(name))


def _folder(name: str) -> Path:
    version_1 = _ROOT / "freezer"
    return (version_1 if version_1.is_dir() else _ROOT) / f"threegate-{name}"


def _control(folder: Path) -> str:
    return "freezer.state" if (folder / "freezer.state").exists() else "cgroup.freeze"


def _set(folder: Path, *, frozen: bool) -> bool:
    control = _control(folder)
    words = ("THAWED", "FROZEN") if control == "freezer.state" else ("0", "1")
    with suppress(OSError), open(folder / control, "r+b", buffering=0) as file:  # never creates it, as "w" would
        file.write(words[frozen].encode())
        return True
    return False
