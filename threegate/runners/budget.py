"""What all runs together may take of the machine: memory, cores, workers (docs/spec/6-runners.md).

Invariant: the sum of what leases hold never exceeds the budget. Within a round, jobs are offered oldest first;
one that only lacks memory or cores keeps younger ones from taking them, so that nothing starves. A full row of
one backend never holds up the other. No two leases are for changes of the same project.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from threegate.core import limits
from threegate.core.settings import RunnersSettings
from threegate.request.job import Job
from threegate.request.model import Backend
from threegate.runners.registry import backends, describe


@dataclass(frozen=True, slots=True)
class Need:
    """What one job takes: MiB and cores."""

    memory_mb: int
    cpus: Decimal

    @classmethod
    def of(cls, backend: Backend, cpus: Decimal, memory_mb: int) -> Need:
        """Limits, and the cost of the sandbox; no more cores than the backend can use."""
        description = describe(backend)
        most = cpus if description.most_cpus is None else min(cpus, description.most_cpus)
        return cls(memory_mb + description.overhead_mb, most)


def need_of(job: Job) -> Need:
    """What a job takes by its limits."""
    return Need.of(job.backend, Decimal(job.limits.cpu), job.limits.memory_mb)


class Lease:
    """A job's share, held until `release` (or the end of a with block)."""

    def __init__(self, budget: Budget, job: Job) -> None:
        self._budget = budget
        self._job = job
        self._held = True

    def release(self) -> bool:
        """Give the share back; more than once is the same as once. Whether it was held until now."""
        with self._budget.lock:
            held, self._held = self._held, False
            if held:
                self._budget.give_back(self._job)
        return held

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Budget:
    """Memory in MiB, cores, and how many runs of each backend at once."""

    def __init__(self, memory_mb: int, cpus: float | Decimal, rows: Mapping[Backend, int]) -> None:
        self.memory_mb = memory_mb
        self.cpus = Decimal(str(cpus))
        self._rows = rows
        self.lock = threading.RLock()
        self._memory = 0
        self._cpus = Decimal(0)
        self._running = dict.fromkeys(rows, 0)
        self._projects: set[tuple[int, int]] = set()
        """Device and inode of the projects that are being changed."""

    @classmethod
    def of(cls, settings: RunnersSettings) -> Budget:
        """The budget that the settings name; 0 stands for three quarters of the memory, and for all cores.

        What waits prepared has its part of the memory before any run.
        """
        memory = settings.memory_budget_mb or machine_memory_mb() * 3 // 4
        return cls(
            max(memory - sum(backend.ahead_mb(settings) for backend in backends()), 0),
            settings.cpu_budget or (os.cpu_count() or 1),
            {backend.name: backend.rows(settings) for backend in backends()},
        )

    def never(self, job: Job) -> str | None:
        """One line that says why this job can never run within this budget, or None."""
        return self.too_large(need_of(job))

    def too_large(self, need: Need) -> str | None:
        """One line that says what of a need no budget of this size ever has, or None."""
        if need.memory_mb > self.memory_mb:
            return (
                f"needs {need.memory_mb} MiB, and all runs together have {self.memory_mb} (memory_budget_mb)"
            )
        if need.cpus > self.cpus:
            return f"needs {need.cpus} cores, and all runs together have {self.cpus} (cpu_budget)"
        return None

    def try_take(self, job: Job) -> Lease | None:
        """A lease when the job fits now, else None. Keeps no order; a dispatcher asks through `round`."""
        with self.lock:
            return Lease(self, job) if self._has_row(job) and self._fits(job) and self._take(job) else None

    def is_busy(self, job: Job) -> bool:
        """Whether another job changes this job's project now; a project has one change at a time."""
        with self.lock:
            return _project_of(job) in self._projects

    def round(self) -> Round:
        """One pass through the waiting jobs, oldest first."""
        return Round(self)

    def free(self) -> tuple[int, Decimal]:
        """MiB and cores that nobody holds."""
        with self.lock:
            return self.memory_mb - self._memory, self.cpus - self._cpus

    def give_back(self, job: Job) -> None:
        """Called by a lease, under the lock."""
        need = need_of(job)
        self._memory -= need.memory_mb
        self._cpus -= need.cpus
        self._running[job.backend] -= 1
        if (project := _project_of(job)) is not None:
            self._projects.discard(project)

    def free_rows(self) -> list[Backend]:
        """The backends that may start one more run, memory and cores aside. Called under the lock."""
        return [backend for backend, rows in self._rows.items() if self._running[backend] < rows]

    def _has_row(self, job: Job) -> bool:
        return self._running[job.backend] < self._rows[job.backend] and not self.is_busy(job)

    def _fits(self, job: Job) -> bool:
        need = need_of(job)
        return self._memory + need.memory_mb <= self.memory_mb and self._cpus + need.cpus <= self.cpus

    def _take(self, job: Job) -> bool:
        need = need_of(job)
        self._memory += need.memory_mb
        self._cpus += need.cpus
        self._running[job.backend] += 1
        if (project := _project_of(job)) is not None:
            self._projects.add(project)
        return True


class Round:
    """One pass. After the first job that lacks memory or cores nothing younger is taken in this round; jobs that
    can never fit, and jobs whose backend's row is full, hold up nobody."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._waits = False

    def room(self) -> frozenset[Backend | None]:
        """The backends of which a job could still be taken in this round, and None for a job of which nobody knows."""
        with self._budget.lock:
            rows = () if self._waits else self._budget.free_rows()
        return frozenset((None, *rows))

    def try_take(self, job: Job) -> Lease | None:
        """A lease when it is this job's turn, else None."""
        budget = self._budget
        with budget.lock:
            if self._waits or budget.never(job) is not None or not budget._has_row(job):
                return None
            lease = budget.try_take(job)
            self._waits = lease is None
            return lease


def _project_of(job: Job) -> tuple[int, int] | None:
    return None if job.change is None else (job.change.project.device, job.change.project.inode)


def machine_memory_mb() -> int:
    """Physical memory in MiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // limits.MIB
