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

from threegate.core import limits

_ROOT: Final = Path("/sys/fs/cgroup")
_EMPTY_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class JailCgroup:
    """The cgroup of one run, if it has one. `held` and `missing` name the limits, in words."""

    folder: Path | None
    held: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def entered(self) -> tuple[Path, ...]:
        """The files that a process writes its id into."""
        return () if self.folder is None else (self.folder / "cgroup.procs",)

    @classmethod
    def make(cls, name: str, *, memory_mb: int) -> JailCgroup:
        """Create it with this limit; 0 means no limit. A limit that cannot be set is in `missing`."""
        if not memory_mb:
            return cls(None, (), ())
        if os.geteuid() != 0:
            return cls(None, (), ("memory",))
        version_1 = (_ROOT / "memory").is_dir()
        folder = (_ROOT / "memory" if version_1 else _ROOT) / f"threegate-{name}"
        file = folder / ("memory.limit_in_bytes" if version_1 else "memory.max")
        value = str(memory_mb * limits.MIB)
        made = None
        with suppress(OSError):
            folder.mkdir()
            made = folder
            file.write_text(value)
            if file.read_text().strip() == value:
                return cls(folder, ("memory",), ())
        return cls(made, (), ("memory",))

    def close(self) -> None:
        """Remove it; its processes were killed."""
        if self.folder is not None:
            remove_cgroup(self.folder)


def remove_cgroup(folder: Path) -> None:
    """Remove a cgroup whose processes were killed."""
    until = time.monotonic() + _EMPTY_SECONDS
    while folder.is_dir() and time.monotonic() < until:
        try:
            folder.rmdir()
        except OSError:  # the kernel may take a moment to reap the last one
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
