"""The cgroups of one run in bubblewrap, version 1 or 2: made where this process may make them, else there are none.

Root makes them below the root of the hierarchy. Another account makes them beside its own, if systemd delegated it one
(a user service, or ``systemd-run --user --scope -p Delegate=yes``): the kernel allows limits only below a cgroup that
has no process itself, so this process first moves into a cgroup below it (version 2).

Invariant: a set of cgroups is complete or it is removed. A limit counts only once `expect_cgroups` read it back.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

from threegate.core import limits
from threegate.request.job import JobLimits
from threegate.runners.jail.jail_cgroup import remove_cgroup

_ROOT: Final = Path("/sys/fs/cgroup")
_KIND: Final = "era"
_OWN: Final = "threegate-daemon"
"""Where this process is, below the cgroup that was delegated to it."""
_PERIOD_US: Final = 100_000
_CONTROLLERS: Final = ("memory", "pids", "cpu")
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class RunCgroups:
    """The folders of one run: one, or with version 1 one for each controller."""

    folders: tuple[Path, ...]

    @classmethod
    def make(cls, bounds: JobLimits) -> RunCgroups | None:
        """Create them with these limits; None if that is not possible here."""
        name = f"threegate-{_KIND}-{os.getpid()}-{next(_numbers)}"
        made: list[Path] = []
        try:
            if (_ROOT / "memory").is_dir():
                _version_1(bounds, name, made)
            else:
                _version_2(bounds, name, made)
        except OSError:
            cls(tuple(made)).close()
            return None
        return cls(tuple(made))

    def enter(self, pid: int) -> None:
        """Move a process into all of them. Raises OSError."""
        for folder in self.folders:
            _write(folder / "cgroup.procs", pid)

    def close(self) -> None:
        """Remove them; their processes were killed."""
        for folder in self.folders:
            remove_cgroup(folder)


def sweep() -> None:
    """Remove what killed daemons of this account left."""
    places = [_ROOT / name for name in (*_CONTROLLERS, "cpuacct")]
    for place in (*places, *(_own(name) for name in (*_CONTROLLERS, "cpuacct")), _ROOT, _delegated()):
        for folder in place.glob(f"threegate-{_KIND}-*"):
            if not Path("/proc", folder.name.split("-")[2]).exists():
                with suppress(OSError):
                    folder.rmdir()


def _version_1(bounds: JobLimits, name: str, made: list[Path]) -> None:
    memory = bounds.memory_mb * limits.MIB
    values = {
        "memory": {"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes": memory},
        "pids": {"pids.max": bounds.processes},
        "cpu": {"cpu.cfs_period_us": _PERIOD_US, "cpu.cfs_quota_us": _quota(bounds)},
        "cpuacct": {},
    }
    for controller, files in values.items():
        folder = (_ROOT / controller if os.geteuid() == 0 else _own(controller)) / name
        if folder.resolve() in [other.resolve() for other in made]:  # cpu and cpuacct may be one hierarchy
            continue
        folder.mkdir()
        made.append(folder)
        for file, value in files.items():
            if "memsw" not in file or (folder / file).exists():
                _write(folder / file, value)


def _version_2(bounds: JobLimits, name: str, made: list[Path]) -> None:
    parent = _ROOT if os.geteuid() == 0 else _delegated()
    _enable(parent)
    folder = parent / name
    folder.mkdir()
    made.append(folder)
    _write(folder / "memory.max", bounds.memory_mb * limits.MIB)
    if (folder / "memory.swap.max").exists():
        _write(folder / "memory.swap.max", 0)
    _write(folder / "pids.max", bounds.processes)
    _write(folder / "cpu.max", f"{_quota(bounds)} {_PERIOD_US}")


def _enable(parent: Path) -> None:
    """Have the cgroups below `parent` limit what they contain. Raises OSError."""
    switch = parent / "cgroup.subtree_control"
    missing = set(_CONTROLLERS) - set(switch.read_text(encoding="ascii").split())
    words = " ".join(f"+{name}" for name in sorted(missing))
    if not missing:
        return
    with suppress(OSError):  # refused as long as it has processes itself, unless it is the machine's first one
        _write(switch, words)
        return
    (parent / _OWN).mkdir(exist_ok=True)
    for pid in (parent / "cgroup.procs").read_text(encoding="ascii").split():
        with suppress(ProcessLookupError):
            _write(parent / _OWN / "cgroup.procs", pid)
    _write(switch, words)


def _delegated() -> Path:
    """The cgroup of version 2 that this process is in, or the one above it if it moved."""
    place = _own("")
    return place.parent if place.name == _OWN else place


def _own(controller: str) -> Path:
    """This process's cgroup of a controller; of version 2 if it has no name."""
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii", errors="replace").splitlines():
        _, names, place = line.split(":", 2)
        if controller in names.split(","):
            return _ROOT / controller / place.lstrip("/")
    return _ROOT / controller


def _quota(bounds: JobLimits) -> int:
    return max(1000, int(Decimal(bounds.cpu) * _PERIOD_US))  # the kernel accepts no less than a millisecond


def _write(file: Path, value: int | str) -> None:
    with open(file, "r+b", buffering=0) as written:  # never creates it, as "w" would
        written.write(str(value).encode())
