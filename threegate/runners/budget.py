"""What all runs together may use of the machine: memory, cores, workers (docs/spec/6-runners.md).

Invariant: the sum of all leases never exceeds the budget. Within a round, jobs are offered oldest first; one
that lacks only memory or cores keeps younger ones from taking them, so that no job starves. A full backend
never delays the other. No two leases are for changes of the same project.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from threegate.core import limits
from threegate.core.settings import RunnersSettings
from threegate.request.job import Job
from threegate.runners.backend import backends, running


@dataclass(frozen=True, slots=True)
class Need:
    """The resources of one job: MiB and cores."""

    memory_mb: int
    cpus: Decimal

    @classmethod
    def of(cls, backend: str, cpus: Decimal, memory_mb: int) -> Need:
        """Limits plus the cost of the sandbox; no more cores than the backend can use."""
        kind = running(backend)
        most = cpus if kind.most_cpus is None else min(cpus, kind.most_cpus)
        return cls(memory_mb + kind.overhead_mb, most)


def need_of(job: Job) -> Need:
    """The resources of a job, from its limits."""
    return Need.of(job.backend, Decimal(job.limits.cpu), job.limits.memory_mb)


class Lease:
    """A job's share, held until `release` (or the end of a with block)."""

    def __init__(self, budget: Budget, job: Job) -> None:
        self._budget = budget
        self._job = job
        self._held = True

    def release(self) -> bool:
        """Return the share; further calls do nothing. Returns whether it was held until now."""
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

    def __init__(self, memory_mb: int, cpus: float | Decimal, rows: Mapping[str, int]) -> None:
        self.memory_mb = memory_mb
        self.cpus = Decimal(str(cpus))
        self._rows = rows
        self.lock = threading.RLock()
        self._memory = 0
        self._cpus = Decimal(0)
        self._running = dict.fromkeys(rows, 0)
        self._alone: set[Hashable] = set()
        """What is in use that no two runs may use at once: the projects that are being changed."""

    @classmethod
    def of(cls, settings: RunnersSettings) -> Budget:
        """The budget in the settings; 0 means three quarters of the memory, and all cores."""
        return cls(
            settings.memory_budget_mb or machine_memory_mb() * 3 // 4,
            settings.cpu_budget or (os.cpu_count() or 1),
            {backend.name: backend.rows(settings) for backend in backends()},
        )

    def never(self, job: Job) -> str | None:
        """One line if this job can never run within this budget, or None."""
        return self.too_large(need_of(job))

    def too_large(self, need: Need) -> str | None:
        """One line about the part of a need that exceeds the whole budget, or None."""
        if need.memory_mb > self.memory_mb:
            return f"needs {need.memory_mb} MiB, and all runs together have {self.memory_mb} (memory_budget_mb)"
        if need.cpus > self.cpus:
            return f"needs {need.cpus} cores, and all runs together have {self.cpus} (cpu_budget)"
        return None

    def try_take(self, job: Job) -> Lease | None:
        """A lease if the job fits now, else None. Ignores the order; a dispatcher uses `round`."""
        with self.lock:
            return Lease(self, job) if self._has_row(job) and self._fits(job) and self._take(job) else None

    def is_busy(self, job: Job) -> bool:
        """Whether another job uses what this one must have alone, as the project that it changes."""
        with self.lock:
            return job.action.alone in self._alone

    def round(self) -> Round:
        """One pass through the waiting jobs, oldest first."""
        return Round(self)

    def free(self) -> tuple[int, Decimal]:
        """Free MiB and cores."""
        with self.lock:
            return self.memory_mb - self._memory, self.cpus - self._cpus

    def give_back(self, job: Job) -> None:
        """Called by a lease, under the lock."""
        need = need_of(job)
        self._memory -= need.memory_mb
        self._cpus -= need.cpus
        self._running[job.backend] -= 1
        self._alone.discard(job.action.alone)

    def free_rows(self) -> list[str]:
        """The backends that may start one more run, ignoring memory and cores. Called under the lock."""
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
        if job.action.alone is not None:
            self._alone.add(job.action.alone)
        return True


class Round:
    """One pass. After the first job that lacks memory or cores, nothing younger is started in this round;
    jobs that can never fit, and jobs whose backend is full, delay no other job.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._waits = False

    def room(self) -> frozenset[str | None]:
        """The backends from which a job could still be started in this round, and None for a job with unknown
        needs.
        """
        with self._budget.lock:
            rows = () if self._waits else self._budget.free_rows()
        return frozenset((None, *rows))

    def try_take(self, job: Job) -> Lease | None:
        """A lease if it is this job's turn, else None."""
        budget = self._budget
        with budget.lock:
            if self._waits or budget.never(job) is not None or not budget._has_row(job):
                return None
            lease = budget.try_take(job)
            self._waits = lease is None
            return lease


def machine_memory_mb() -> int:
    """Physical memory in MiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // limits.MIB
