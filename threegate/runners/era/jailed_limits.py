"""How the limits of a run in bubblewrap are kept: by cgroups, or without them by what an ordinary account has.

Without cgroups the kernel keeps: processes in the run's own user namespace (RLIMIT_NPROC), data of each process
(RLIMIT_DATA), size and names of each file system in memory, cores (affinity, whose call is refused to the run). The
memory of all processes together is looked at every 20 ms and is *watched, not enforced by the kernel*: what is counted
is anonymous and shared memory of processes and what the file systems in memory hold. Memory in sockets, in pipes, or in
shared pages that no process maps is not seen. Neither "no swap" nor a status `process_limit` exists there.

Invariant: what `read_back` writes into `Walls` was read from the kernel after it was set.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Final, Protocol

from threegate.core import limits
from threegate.request.job import WATCHED, Job, JobLimits
from threegate.runners.cgroup import CgroupFiles
from threegate.runners.era.jailed_cgroup import RunCgroups
from threegate.runners.era.walls import NOT_ENFORCED, Walls, expect_cgroups, hard_limit
from threegate.runners.interface import Ended, out_of_memory
from threegate.runners.jail.jail import Account, run_as_account

_TICKS: Final = os.sysconf("SC_CLK_TCK")
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
MEMINFO: Final = Path("/proc/meminfo")
_turn = threading.Lock()
_next_core = 0


class HeldLimits(Protocol):
    """The limits of one run."""

    out_of_memory: bool
    refused_forks: int
    cpu_ms: int | None
    peak: int | None
    """Bytes."""

    def enter(self, pid: int) -> None:
        """Set them for the first process of the jail, which has started no other yet. Raises OSError."""

    def open(self, inside: int) -> None:
        """Hold what `look` needs of the jail, whose root is the descriptor `inside`. Raises OSError."""

    @property
    def rlimits(self) -> Mapping[str, int]:
        """Limits of each process, by their names in prlimit(1)."""

    def read_back(self, walls: Walls, job: Job, pid: int) -> None:
        """Record what the kernel enforces for one of them. Raises OSError."""

    def look(self) -> Ended | None:
        """Measure; why the run has to end, or None."""

    def close(self) -> None:
        """Remove what was made. The processes are gone."""


def whole_cores(cpu: str) -> int:
    """Cores of a run without a cgroup; 0 if it asked for less than one."""
    return int(Decimal(cpu))


class CgroupLimits:
    """By cgroups: the kernel enforces all of them."""

    def __init__(self, groups: RunCgroups) -> None:
        self._groups = groups
        self._files = CgroupFiles()
        self.rlimits: Mapping[str, int] = {}
        self.out_of_memory = False
        self.refused_forks = 0
        self.cpu_ms: int | None = None
        self.peak: int | None = None

    def enter(self, pid: int) -> None:
        self._groups.enter(pid)

    def open(self, inside: int) -> None:
        """Cgroups are looked at from outside."""

    def read_back(self, walls: Walls, job: Job, pid: int) -> None:
        self._files = CgroupFiles.of(pid)
        expect_cgroups(walls, job, self._files)

    def look(self) -> None:
        self.refused_forks = self._files.refused_forks() or self.refused_forks
        self.out_of_memory = self._files.out_of_memory() or self.out_of_memory
        self.cpu_ms = self._files.cpu_ms() or self.cpu_ms
        self.peak = self._files.peak() or self.peak

    def close(self) -> None:
        self._groups.close()


class WatchedLimits:
    """Without cgroups."""

    refused_forks = 0

    def __init__(self, bounds: JobLimits, account: Account) -> None:
        self._bounds = bounds
        self._account = account
        self._proc = -1
        self._volumes: list[int] = []
        data = 2 * bounds.memory_mb * limits.MIB + limits.JAILED_DATA_BYTES
        self.rlimits: Mapping[str, int] = {"nproc": bounds.processes, "data": data}
        self._cores = _take_cores(whole_cores(bounds.cpu))
        self.out_of_memory = False
        self.cpu_ms: int | None = None
        self.peak: int | None = None

    def enter(self, pid: int) -> None:
        try:
            os.sched_setaffinity(pid, self._cores)
        except PermissionError:
            run_as_account(self._account, ["/usr/bin/taskset", "-pc", ",".join(map(str, self._cores)), str(pid)])
        # The machine's last memory is never taken from anything else.
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000", encoding="ascii")

    def open(self, inside: int) -> None:
        self._proc = os.open("proc", FOLDER, dir_fd=inside)
        for name in ("out", "tmp", "dev/shm"):
            self._volumes.append(os.open(name, FOLDER, dir_fd=inside))

    def read_back(self, walls: Walls, job: Job, pid: int) -> None:
        found = Path(f"/proc/{pid}/limits").read_text(encoding="ascii", errors="replace")
        walls.expect("processes", hard_limit(found, "Max processes"), str(self.rlimits["nproc"]))
        walls.expect("data", data := hard_limit(found, "Max data size"), str(self.rlimits["data"]))
        walls.effective["data"] = f"{data} bytes of each process"
        walls.expect("cores", sorted(os.sched_getaffinity(pid)), sorted(self._cores))
        walls.effective["cpu"] = f"{len(self._cores)} cores (affinity)"
        walls.expect("oom_score_adj", Path(f"/proc/{pid}/oom_score_adj").read_text(encoding="ascii").strip(), "1000")
        walls.effective["memory"] = f"{self._bounds.memory_mb * limits.MIB} bytes, {WATCHED}"
        walls.effective["swap"] = NOT_ENFORCED
        walls.unread[:] = ["memory", "swap"]

    def look(self) -> Ended | None:
        names = [name for name in os.listdir(self._proc) if name.isdigit()]
        self._measure_time(names)
        files = sum(_used(volume) for volume in self._volumes)
        used = files + sum(self._resident(name) for name in names)
        limit = self._bounds.memory_mb * limits.MIB
        if used > limit:  # shared pages count for each process up to here
            used = sum(self._own_memory(name, files) for name in names) + files
        self.peak = max(used, self.peak or 0)
        if used > limit:
            self.out_of_memory = True
            return out_of_memory(self._bounds)
        free, reserve = _machine_memory()
        if free < reserve:
            left = f"{free // limits.MIB} MiB of memory free, less than its reserve of {reserve // limits.MIB}"
            return "interrupted", f"Interrupted because this machine had {left}."
        return None

    def close(self) -> None:
        for descriptor in (self._proc, *self._volumes):
            if descriptor >= 0:
                os.close(descriptor)

    def _resident(self, name: str) -> int:
        with suppress(OSError, ValueError, IndexError):
            return int(self._read(f"{name}/statm").split()[1]) * _PAGE_BYTES
        return 0

    def _own_memory(self, name: str, files: int) -> int:
        """What a process holds, each shared page in parts; not what the kernel can drop: pages of read-only files."""
        with suppress(OSError, ValueError):
            lines = self._read(f"{name}/smaps_rollup").splitlines()[1:]
            kib = {words[0]: int(words[1]) for words in (line.split() for line in lines) if len(words) > 1}
            if "Pss_Anon:" not in kib:
                return kib["Pss:"] * limits.KIB
            # A mapped file of /tmp is in `files` already.
            return kib["Pss_Anon:"] * limits.KIB + max(kib["Pss_Shmem:"] * limits.KIB - files, 0)
        return 0

    def _measure_time(self, names: list[str]) -> None:
        """CPU time of what lives and of what its parents have reaped; it never falls."""
        ticks = 0
        for name in names:
            with suppress(OSError, ValueError, IndexError):
                ticks += sum(map(int, self._read(f"{name}/stat").rpartition(") ")[2].split()[11:15]))
        self.cpu_ms = max(ticks * 1000 // _TICKS, self.cpu_ms or 0)

    def _read(self, path: str) -> str:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        with open(descriptor, encoding="ascii", errors="replace") as file:
            return file.read()


def _take_cores(count: int) -> set[int]:
    """The next `count` cores of those that this process may use, in turn, so that runs do not share one."""
    global _next_core
    usable = sorted(os.sched_getaffinity(0))
    with _turn:
        start, _next_core = _next_core, _next_core + count
    return {usable[(start + number) % len(usable)] for number in range(min(count, len(usable)))}


def _used(volume: int) -> int:
    facts = os.fstatvfs(volume)
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize


def _machine_memory() -> tuple[int, int]:
    """Free memory of this machine, and below how much of it a watched run ends, in bytes."""
    kib = {}
    for line in MEMINFO.read_text(encoding="ascii").splitlines()[:3]:
        name, value = line.split()[:2]
        kib[name] = int(value) * limits.KIB
    return kib["MemAvailable:"], min(limits.JAILED_RESERVE_BYTES, kib["MemTotal:"] // limits.JAILED_RESERVE_PART)
