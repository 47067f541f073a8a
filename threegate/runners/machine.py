"""Where a daemon's jobs run, on this machine or where a plugin takes them, and what all of them together may use there:
memory, cores, workers (docs/spec/6-runners.md).

Invariant: one machine is in use; a plugin's is, once its section in threegate.toml says so, and then nothing runs here.
The sum of all leases never exceeds the budget. Within a round, jobs are offered oldest first; one that lacks only
memory or cores keeps younger ones from taking them, so that no job starves. A full backend never delays the other. No
two leases are for changes of the same project.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from threegate.core import limits
from threegate.core.errors import ThreeGateError, Unavailable
from threegate.core.plugins import Place
from threegate.core.settings import SECTIONS, RunnersSettings, Settings
from threegate.core.workspace import Workspace
from threegate.request.job import Job, Platforms
from threegate.request.model import Request
from threegate.runners.backend import DoctorLine, RunNeed, backends, make_runner, running
from threegate.runners.interface import Runner


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
        self.threads = sum(rows.values())
        """How many requests may be under way at once."""
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
            need = need_of(job)
            fits = self._memory + need.memory_mb <= self.memory_mb and self._cpus + need.cpus <= self.cpus
            if not fits or not self._has_row(job):
                return None
            self._memory += need.memory_mb
            self._cpus += need.cpus
            self._running[job.backend] += 1
            if job.action.alone is not None:
                self._alone.add(job.action.alone)
            return Lease(self, job)

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


class Round:
    """One pass. After the first job that lacks memory or cores, nothing younger is started in this round;
    jobs that can never fit, and jobs whose backend is full, delay no other job.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._waits = False

    def room(self) -> frozenset[str | None]:
        """The backends from which a job could still be started in this round, and None for a job with unknown needs."""
        with self._budget.lock:
            rows = () if self._waits else self._budget.free_rows()
        return frozenset((None, *rows))

    def try_take(self, job: Job) -> Lease | None:
        """A lease if it is this job's turn, else None."""
        budget = self._budget
        with budget.lock:
            lease = None if self._waits else budget.try_take(job)
            # Only a job that lacks nothing but memory or cores keeps its place before younger ones.
            if lease is None and budget._has_row(job) and budget.never(job) is None:
                self._waits = True
            return lease


def machine_memory_mb() -> int:
    """Physical memory in MiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // limits.MIB


NEVER: Final = "it could never run here: it"
"""How a line begins that says why a request can never run."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where jobs run, and what is known of it."""

    is_used: Callable[[Settings], bool]
    """Whether the settings say that jobs run there."""
    runners: Callable[[Workspace, Settings, str, Callable[[str], None]], Mapping[str, Runner]]
    """Makes the runners of all backends, which start no job until they are used, from the workspace, its settings, the
    name of this run of the daemon, and what takes lines for its log. Raises InvalidInput, Unavailable.
    """
    budget: Callable[[Settings, Mapping[str, Runner]], Budget]
    """From what the dispatcher takes leases, for these runners."""
    never_fits: Callable[[Workspace, Settings, Request], str | None]
    """One line that says why this request could never run, or None: also if that is not known."""
    workers: Callable[[Workspace, Settings], list[dict[str, Any]] | None] = lambda workspace, settings: None
    """The rows of `threegate status` about other machines, as a daemon last heard from them, and whether each accepts
    work now (`live`); None without any.
    """

    copies: Callable[[Workspace, Settings], list[str]] = lambda workspace, settings: []
    """What to do, a line each, so that other machines know operators that have changed here."""


MACHINES: Final = Place[Machine]("machine")


def machine_of(settings: Settings) -> Machine:
    """The machine in use. Nothing is imported of a plugin whose section is not in the file."""
    if any(name in settings.sections for plugin in MACHINES.plugins() for name in plugin.named(SECTIONS.name)):
        for machine in MACHINES.given(settings.plugins.off).values():
            if machine.is_used(settings):
                return machine
    return THIS_MACHINE


def refuse_absent(settings: Settings) -> None:
    """Raises Unavailable if the settings have the section of an absent plugin that takes jobs elsewhere: what it would
    have taken there is not run here instead, unless an operator has turned the plugin off.
    """
    for name, plugin in settings.unread().items():
        if plugin in MACHINES.plugins():
            raise Unavailable(
                f"{plugin.why_absent()}; [{name}] in threegate.toml is for it: to run everything here, "
                f'set plugins.off = ["{plugin.name}"]'
            )


def platforms(settings: Settings, backend: str) -> Platforms:
    """On which platforms requests of a backend can run, the preferred first."""
    return running(backend).platforms(settings, here=machine_of(settings) is THIS_MACHINE)


def never_fits(workspace: Workspace, settings: Settings, request: Request) -> str | None:
    """One line that says why this request could never run, or None."""
    return machine_of(settings).never_fits(workspace, settings, request)


def worker_lines(workspace: Workspace) -> list[dict[str, Any]] | None:
    """The machine's lines of `threegate status`; None if jobs run here, or if the settings are invalid."""
    try:
        settings = workspace.load_settings()
    except ThreeGateError:
        return None
    return machine_of(settings).workers(workspace, settings)


def workers_answer(rows: list[dict[str, Any]], fix: str = "", need: RunNeed | None = None) -> DoctorLine:
    """Whether any of the other machines accepts work, in place of whether an engine answers here; with a `need`, work
    that needs that much of this backend.
    """
    live = [row for row in rows if row["live"]]
    if not live:
        return DoctorLine("workers", "warning", f"none of {len(rows)} accepts work, so nothing starts", fix)
    if need is not None and not any(_could(row, need) for row in live):
        most = Need.of(need.backend, need.cpus, need.memory_mb)
        lacks = f"no live worker has {most.cpus} cores and {most.memory_mb} MiB for {need.backend}"
        return DoctorLine("workers", "warning", lacks, fix)
    names = ", ".join(str(row["worker"]) for row in live)
    return DoctorLine("workers", "ok", f"{len(live)} of {len(rows)} accept work: {names}")


def _could(row: Mapping[str, Any], need: RunNeed) -> bool:
    """Whether a live worker has what a run needs, were it idle."""
    least = Need.of(need.backend, need.cpus, need.memory_mb)
    rows = str(row.get(need.backend.lower(), "0/0")).rpartition("/")[2]
    return rows != "0" and least.cpus <= Decimal(row["cores"]) and least.memory_mb <= row["memory_mb"]


class _RunnersHere(dict[str, Runner]):
    """The runners of this machine. Each is made when the daemon's loop asks for it first, before its first job."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __missing__(self, name: str) -> Runner:
        self[name] = made = make_runner(name, self._settings, secrets=self._settings.secrets)
        return made


def _never_here(workspace: Workspace, settings: Settings, request: Request) -> str | None:
    need = Need.of(request.backend, request.cpu_limit, request.memory_limit_mb)
    too_large = Budget.of(settings.runners).too_large(need)
    return too_large and f"{NEVER} {too_large}"


THIS_MACHINE: Final = Machine(
    is_used=lambda settings: True,
    runners=lambda workspace, settings, boot, say: _RunnersHere(settings),
    budget=lambda settings, runners: Budget.of(settings.runners),
    never_fits=_never_here,
)
