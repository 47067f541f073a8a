"""Limits on memory and processes of one jail, with cgroups that only root can create; for an ordinary account
they are reported as missing.

Invariant: a limit counts as enforced only if it was read back. The jail's first process enters before
anything is started.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_MIB: Final = 1 << 20
_EMPTY_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class JailCgroup:
    """The cgroups of one run. `entered` are the files that a process writes its id into."""

    folders: tuple[Path, ...]
    held: tuple[str, ...]
    """Enforced limits, in words."""
    missing: tuple[str, ...]

    @property
    def entered(self) -> tuple[Path, ...]:
        """`cgroup.procs` of each."""
        return tuple(folder / "cgroup.procs" for folder in self.folders)

    @classmethod
    def make(cls, name: str, *, memory_mb: int, processes: int) -> JailCgroup:
        """Create them with these limits; memory 0 means no limit. Those that cannot be set are in
        `missing`.
        """
        wanted = {"processes": str(processes), **({"memory": str(memory_mb * _MIB)} if memory_mb else {})}
        if os.geteuid() != 0:
            return cls((), (), tuple(sorted(wanted)))
        version_1 = (_ROOT / "pids").is_dir()
        folders: list[Path] = []
        held: list[str] = []
        for what, value in wanted.items():
            controller = {"processes": "pids", "memory": "memory"}[what]
            folder = (_ROOT / controller if version_1 else _ROOT) / f"threegate-{name}"
            files = ("memory.limit_in_bytes" if version_1 else "memory.max") if what == "memory" else "pids.max"
            with suppress(OSError):
                if folder not in folders:
                    folder.mkdir()
                    folders.append(folder)
                (folder / files).write_text(value)
                if (folder / files).read_text().strip() == value:
                    held.append(what)
        return cls(tuple(folders), tuple(held), tuple(sorted(wanted.keys() - set(held))))

    def close(self) -> None:
        """Remove them. Their processes were killed; the kernel may take a moment to reap the last one."""
        until = time.monotonic() + _EMPTY_SECONDS
        for folder in self.folders:
            while folder.is_dir() and time.monotonic() < until:
                try:
                    folder.rmdir()
                except OSError:
                    time.sleep(_LOOK_SECONDS)


def sweep_cgroups(kind: str) -> None:
    """Remove what killed processes left of cgroups named ``KIND-PID-…``."""
    for place in (_ROOT / "pids", _ROOT / "memory", _ROOT):
        for folder in place.glob(f"threegate-{kind}-*"):
            if not Path("/proc", folder.name.split("-")[2]).exists():
                with suppress(OSError):
                    folder.rmdir()


def remove_cgroups(name: str) -> None:
    """Remove what a killed launcher left of the run `name`."""
    for place in (_ROOT / "pids", _ROOT / "memory", _ROOT):
        with suppress(OSError):
            (place / f"threegate-{name}").rmdir()
