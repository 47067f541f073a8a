"""The limit on the memory of one jail, with a cgroup that only root can create; for an ordinary account it is
reported as missing. The number of processes has a limit everywhere (`Jail.processes`).

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
    def make(cls, name: str, *, memory_mb: int) -> JailCgroup:
        """Create them with this limit; 0 means no limit. A limit that cannot be set is in `missing`."""
        if not memory_mb:
            return cls((), (), ())
        if os.geteuid() != 0:
            return cls((), (), ("memory",))
        version_1 = (_ROOT / "memory").is_dir()
        folder = (_ROOT / "memory" if version_1 else _ROOT) / f"threegate-{name}"
        file = folder / ("memory.limit_in_bytes" if version_1 else "memory.max")
        value = str(memory_mb * _MIB)
        folders: tuple[Path, ...] = ()
        with suppress(OSError):
            folder.mkdir()
            folders = (folder,)
            file.write_text(value)
            if file.read_text().strip() == value:
                return cls(folders, ("memory",), ())
        return cls(folders, (), ("memory",))

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
    for place in (_ROOT / "memory", _ROOT):
        for folder in place.glob(f"threegate-{kind}-*"):
            if not Path("/proc", folder.name.split("-")[2]).exists():
                with suppress(OSError):
                    folder.rmdir()


def remove_cgroups(name: str) -> None:
    """Remove what a killed launcher left of the run `name`."""
    for place in (_ROOT / "memory", _ROOT):
        with suppress(OSError):
            (place / f"threegate-{name}").rmdir()
