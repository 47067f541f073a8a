"""A process's cgroups as the kernel reports them, version 1 or 2: limits read back, usage measured.

Invariant: `CgroupFiles` only reads; a missing file is "not readable" and never taken for an enforced limit.
`CpuShare` creates one cgroup for one worker and removes it.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 62
_VERSION_1 = {
    "memory_limit": ("memory", "memory.limit_in_bytes"),
    "swap_limit": ("memory", "memory.memsw.limit_in_bytes"),
    "pids_limit": ("pids", "pids.max"),
    "pids_events": ("pids", "pids.events"),
    "cpu_quota": ("cpu", "cpu.cfs_quota_us"),
    "cpu_use": ("cpuacct", "cpuacct.usage"),
    "memory_peak": ("memory", "memory.max_usage_in_bytes"),
}
_VERSION_2 = {
    "memory_limit": "memory.max",
    "swap_limit": "memory.swap.max",
    "pids_limit": "pids.max",
    "pids_events": "pids.events",
    "cpu_quota": "cpu.max",
    "cpu_use": "cpu.stat",
    "memory_peak": "memory.peak",
}


@dataclass(frozen=True, slots=True)
class CgroupFiles:
    """Paths of one process's limits and counters; None for those this machine does not have."""

    memory_limit: Path | None = None
    swap_limit: Path | None = None
    pids_limit: Path | None = None
    pids_events: Path | None = None
    cpu_quota: Path | None = None
    cpu_use: Path | None = None
    memory_peak: Path | None = None

    @classmethod
    def of(cls, pid: int) -> CgroupFiles:
        """The files of a process. Raises OSError if it is gone."""
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii", errors="replace").splitlines()
        places: dict[str, str] = {}
        for line in lines:
            _, names, place = line.split(":", 2)
            places.update(dict.fromkeys(names.split(","), place))
        if "memory" not in places:
            folder = _ROOT / places.get("", "/").lstrip("/")
            return cls(**{field: folder / name for field, name in _VERSION_2.items()})
        # With version 1 each controller has a tree of its own, and the process a place in each.
        return cls(
            **{
                field: _ROOT / controller / places[controller].lstrip("/") / name
                for field, (controller, name) in _VERSION_1.items()
                if controller in places
            }
        )

    def memory(self) -> int | None:
        """Memory limit in bytes; also None for the huge number with which version 1 reports that there is none."""
        limit = _number(self.memory_limit)
        return None if limit is None or limit >= _UNLIMITED else limit

    def no_swap(self) -> bool | None:
        """Whether memory and swap together are limited to the memory limit; None if it cannot be read."""
        if self.swap_limit is None or not self.swap_limit.exists():
            return True if not _swap_exists() else None
        limit = _number(self.swap_limit)
        return limit == (self.memory() if "memsw" in self.swap_limit.name else 0)

    def pids(self) -> int | None:
        """Limit on processes and threads."""
        return _number(self.pids_limit)

    def processes(self) -> int | None:
        """Processes and threads in it and below it."""
        return None if self.pids_limit is None else _number(self.pids_limit.with_name("pids.current"))

    def refused_forks(self) -> int:
        """How often the kernel refused a fork; 0 if it cannot be read."""
        return _counter(self.pids_events, "max")

    def out_of_memory(self) -> bool:
        """Whether the kernel killed a process for lack of memory."""
        if self.memory_limit is None:
            return False
        name = "memory.events" if self.memory_limit.name == "memory.max" else "memory.oom_control"
        return _counter(self.memory_limit.with_name(name), "oom_kill") > 0

    def cpus(self) -> Decimal | None:
        """Cores, from quota and period."""
        if self.cpu_quota is None:
            return None
        with suppress(OSError, ValueError, ArithmeticError):
            if self.cpu_quota.name == "cpu.max":
                quota, period = self.cpu_quota.read_text(encoding="ascii").split()
            else:
                quota = self.cpu_quota.read_text(encoding="ascii").strip()
                period = self.cpu_quota.with_name("cpu.cfs_period_us").read_text(encoding="ascii").strip()
            if int(quota) > 0:
                return Decimal(quota) / Decimal(period)
        return None

    def cpu_ms(self) -> int | None:
        """CPU time used so far."""
        with suppress(OSError, ValueError, IndexError):
            if self.cpu_use is not None:
                text = self.cpu_use.read_text(encoding="ascii")
                if self.cpu_use.name == "cpu.stat":
                    return int(text.split()[1]) // 1000
                return int(text) // 1_000_000
        return None

    def peak(self) -> int | None:
        """Peak memory in bytes."""
        return _number(self.memory_peak)


def _counter(path: Path | None, name: str) -> int:
    with suppress(OSError, ValueError):
        lines = [] if path is None else path.read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) for line in lines if line.split()[0] == name), 0)
    return 0


def _number(path: Path | None) -> int | None:
    with suppress(OSError, ValueError):
        return None if path is None else int(path.read_text(encoding="ascii"))
    return None


def _swap_exists() -> bool:
    with suppress(OSError):
        return len(Path("/proc/swaps").read_text(encoding="ascii").splitlines()) > 1
    return True


_PERIOD_US = 100_000
_names = itertools.count(1)


class CpuShare:
    """A cgroup that limits one process to less than a core. If none can be created, `held` is None."""

    def __init__(self, pid: int, cpus: Decimal) -> None:
        self.held: Decimal | None = None
        """Cores, as read back from the kernel."""
        name = f"threegate-{os.getpid()}-{next(_names)}"
        version_1 = (_ROOT / "cpu" / "cpu.cfs_quota_us").exists() or (_ROOT / "cpu" / "tasks").exists()
        self._folder = _ROOT / "cpu" / name if version_1 else _ROOT / name
        quota = max(1000, int(cpus * _PERIOD_US))  # the kernel accepts no less than a millisecond
        try:
            if not version_1:  # a machine on which nobody is logged in may not have switched it on
                (_ROOT / "cgroup.subtree_control").write_text("+cpu")
            self._folder.mkdir()
            if version_1:
                (self._folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
                (self._folder / "cpu.cfs_quota_us").write_text(str(quota))
            else:
                (self._folder / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
            (self._folder / "cgroup.procs").write_text(str(pid))
            self.held = CgroupFiles.of(pid).cpus()
        except OSError:
            self.close()

    def close(self) -> None:
        """Remove the cgroup; a worker that is still in it is moved to the parent."""
        with suppress(OSError):
            for line in (self._folder / "cgroup.procs").read_text(encoding="ascii").split():
                (self._folder.parent / "cgroup.procs").write_text(line)
        with suppress(OSError):
            self._folder.rmdir()
