"""The ledger: what each worker has, what of it is in use, and where the next job goes.

Invariant: the sum of what jobs hold on a worker never exceeds what the worker reported; a worker that has not
reported for CLUSTER_LIVE_SECONDS, whose doctor failed, that refused CLUSTER_REFUSALS jobs in a row, or that was never
enrolled gets nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from threegate.approval.ssh_wire import MalformedError
from threegate.approval.statement import format_utc, parse_utc
from threegate.core import limits
from threegate.plugins.cluster.notes import Rules, Status
from threegate.request.backend import BACKENDS
from threegate.request.job import Job
from threegate.runners.backend import backends
from threegate.runners.machine import Budget, Lease, need_of
from threegate.trail.event import trail_text

_VERSIONS = "give it this daemon's version of ThreeGate, and the same [request] and [aana] (--settings)"
_FIXES = {
    ("signer_unknown", "signer_revoked", "signer_expired", "quorum_missing"): (
        "copy tool-exec/operators (.revoked, .passkeys) to it (--operators)"
    ),
    ("job_changed", "request_invalid", "envelope_invalid", "input_missing"): _VERSIONS,
}
"""By a worker's reason codes: what makes it take jobs."""


def _row(backend: str) -> str:
    """The backend's name in a worker's status note."""
    return backend.lower()


def _no_rows() -> dict[str, int]:
    return {_row(backend.name): 0 for backend in backends() if backend.on_workers}


@dataclass(slots=True)
class Seat:
    """One enrolled worker, as last reported, and what is in use on it."""

    name: str
    cores: Decimal = Decimal(0)
    memory_mb: int = 0
    rows: dict[str, int] = field(default_factory=_no_rows)
    images: tuple[str, ...] = ()
    healthy: bool = False
    reason: str = "no report yet"
    machine: str = ""
    boot: str = ""
    heard: float | None = None
    running: tuple[tuple[str, str], ...] = ()
    """(nonce, request id) of what it says that it runs, or has a result of."""
    here: frozenset[str] = frozenset()
    """Their nonces."""
    taken: dict[int, Job] = field(default_factory=dict)
    heard_utc: datetime | None = None
    """When it last reported, also to an earlier run of the daemon."""
    version: str = ""
    operators_sha256: str = ""
    certificate_end: int = 0
    """When its certificate ends, in whole seconds since 1970; 0: not known."""
    takes_operators: bool = False
    refused: dict[str, tuple[float, str]] = field(default_factory=dict)
    """By the digest of each job that it refused: until when it is not offered it again, and what it said."""
    told: Status | None = None

    def problem(self) -> str | None:
        """Why it gets no job at all, in one line, or None."""
        if self.heard is None or time.monotonic() - self.heard > limits.CLUSTER_LIVE_SECONDS:
            return self.reason or "no report"
        if not self.healthy:
            return self.reason or "unfit"
        refusals = self.refusals()
        return f"refused {len(refusals)} jobs: {refusals[-1]}" if len(refusals) >= limits.CLUSTER_REFUSALS else None

    def live(self) -> bool:
        """Heard of just now, healthy, and does not refuse everything."""
        return self.problem() is None

    def refusals(self) -> list[str]:
        """What it said to each job that it is not offered again now."""
        now = time.monotonic()
        return [said for until, said in self.refused.values() if now < until]

    def refuses(self, job: Job) -> str | None:
        """What it said when it refused this very job, if that was just now."""
        until, said = self.refused.get(job.digest, (0.0, ""))
        return said if time.monotonic() < until else None

    def could(self, job: Job) -> bool:
        """Whether it has what the job needs, were it idle."""
        need = need_of(job)
        return (
            self.rows.get(_row(job.backend), 0) > 0
            and need.memory_mb <= self.memory_mb
            and need.cpus <= self.cores
            and (not BACKENDS[job.backend].container or job.image in self.images)
            and (not job.egress_image or job.egress_image in self.images)
        )

    def free(self) -> tuple[int, Decimal, dict[str, int]]:
        """Free MiB, cores and rows."""
        memory, cores, rows = self.memory_mb, self.cores, dict(self.rows)
        for job in self.taken.values():
            need = need_of(job)
            memory -= need.memory_mb
            cores -= need.cpus
            rows[_row(job.backend)] -= 1
        return memory, cores, rows

    def fits(self, job: Job) -> bool:
        """Whether the job fits in addition to what the worker already runs."""
        memory, cores, rows = self.free()
        need = need_of(job)
        if not self.could(job) or self.refuses(job) is not None:
            return False
        return rows[_row(job.backend)] > 0 and need.memory_mb <= memory and need.cpus <= cores

    def to_json(self) -> dict[str, Any]:
        """For `threegate status`."""
        memory, cores, rows = self.free()
        return {
            "worker": self.name,
            "machine": self.machine,
            "live": self.live(),
            "reason": self.problem() or "".join(f"refused a job: {said}" for said in self.refusals()[-1:]),
            "heard_utc": None if self.heard_utc is None else format_utc(self.heard_utc),
            "version": self.version,
            "operators_sha256": self.operators_sha256,
            "certificate_end": self.certificate_end,
            "cores": str(self.cores),
            "cores_free": str(cores),
            "memory_mb": self.memory_mb,
            "memory_free_mb": memory,
            **{kind: f"{most - rows[kind]}/{most}" for kind, most in self.rows.items()},
            "running": [request_id for _, request_id in self.running],
        }


class Ledger:
    """All enrolled workers. Safe for threads."""

    def __init__(self, names: tuple[str, ...], rules: Rules | None) -> None:
        """`rules`: what a worker must judge by to get anything; None: that is not compared."""
        self.lock = threading.RLock()
        self._rules = rules
        self._seats = {name: Seat(name) for name in names}
        self.heard = threading.Event()
        """Set with the first live worker."""

    def seats(self) -> list[Seat]:
        """All workers, by name."""
        return [self._seats[name] for name in sorted(self._seats)]

    def hear(self, name: str, told: Mapping[str, Any]) -> None:
        """A verified status note. Raises KeyError, ValueError for one that is malformed: it then changes nothing."""
        status = Status.model_validate(told)
        rows = {kind: told[kind] for kind in _no_rows()}
        if not all(type(number) is int and 0 <= number <= limits.CLUSTER_ROWS for number in rows.values()):
            raise ValueError("a capacity that no machine has")
        with self.lock:
            seat = self._seats[name]
            state = status.model_copy(update={"running": ()})
            if state != seat.told:
                seat.told = state
                seat.refused.clear()  # it may be another one now
            seat.cores, seat.memory_mb, seat.images = Decimal(status.cores), status.memory_mb, status.images
            seat.rows = rows
            other = self._rules.why_not(status) if self._rules is not None else ""
            seat.healthy = status.healthy and not other
            seat.reason = other or trail_text(status.reason, limits.CLUSTER_TEXT_CHARS)
            seat.machine, seat.boot = status.machine, status.boot
            seat.running, seat.heard, seat.heard_utc = status.running, time.monotonic(), datetime.now(UTC)
            seat.version, seat.operators_sha256 = status.version, status.operators_sha256
            seat.certificate_end, seat.takes_operators = status.certificate_end, status.takes_operators
            seat.here = frozenset(nonce for nonce, _ in status.running)
        if seat.healthy:
            self.heard.set()

    def remember(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """When an earlier run of the daemon heard from its workers, from its rows; nothing else of them counts."""
        for row in rows:
            seat = self._seats.get(str(row.get("worker")))
            if seat is not None and seat.heard is None:
                with contextlib.suppress(MalformedError):
                    seat.heard_utc = parse_utc(str(row.get("heard_utc")))

    def doubt(self, name: str, reason: str) -> None:
        """Why a worker's reports are ignored, for `threegate status`; earlier reports are kept."""
        with self.lock:
            if not self._seats[name].live():
                self._seats[name].reason = reason

    def silent_for(self, name: str) -> float:
        """Seconds since a worker's last report; a very long time if there was none."""
        heard = self._seats[name].heard
        return float("inf") if heard is None else time.monotonic() - heard

    def refused(self, name: str, job: Job, said: str, seconds: float = limits.CLUSTER_REFUSED_SECONDS) -> None:
        """A worker did not start a job; `seconds`: how long it is not offered that again."""
        code = said.partition(":")[0]
        fix = next((f"; {fix}" for codes, fix in _FIXES.items() if code in codes), "")
        with self.lock:
            refused = self._seats[name].refused
            now = time.monotonic()
            for digest in [digest for digest, (until, _) in refused.items() if until < now]:
                del refused[digest]
            refused[job.digest] = now + seconds, trail_text(said, limits.CLUSTER_TEXT_CHARS) + fix

    def started(self, name: str) -> None:
        """A worker asked for a start token: it does not refuse everything."""
        with self.lock:
            self._seats[name].refused.clear()

    def status_of(self, name: str, nonce: str) -> tuple[float, str, bool]:
        """A worker's last status: when it came (monotonic), from which life, and whether it has this run or its
        result.
        """
        with self.lock:
            seat = self._seats[name]
            return seat.heard or 0.0, seat.boot, nonce in seat.here

    def machine(self, name: str) -> str:
        """The machine's name, as reported by the worker."""
        return self._seats[name].machine

    def missing(self, job: Job | None) -> str | None:
        """None when some live worker could run the job, else one line that says why none can."""
        with self.lock:
            live = [seat for seat in self._seats.values() if seat.live()]
            if not live:
                told = "; ".join(f"{seat.name}: {seat.problem()}" for seat in self.seats())
                return f"no worker accepts work ({told[:300] or 'none is enrolled'})"
            if job is None:
                return None
            said = [(seat.name, seat.refuses(job)) for seat in live if seat.could(job)]
            if any(refused is None for _, refused in said):
                return None
            if said:
                return "; ".join(f"worker {name} refused it: {refused}" for name, refused in said)[:500]
            need = need_of(job)
            what = f" and the image {job.image[:19]}…" if BACKENDS[job.backend].container else ""
            return f"no live worker has {need.cpus} cores, {need.memory_mb} MiB for {job.backend}{what}"

    def reserve(self, job: Job) -> str | None:
        """Take a place for the job on the live worker with most cores free; its name, or None."""
        with self.lock:
            fitting = [seat for seat in self.seats() if seat.live() and seat.fits(job)]
            if not fitting:
                return None
            best = max(fitting, key=lambda seat: (seat.free()[1], seat.free()[0]))
            best.taken[id(job)] = job
            return best.name

    def move(self, job: Job) -> None:
        """Give the job's place back, and take one on another worker, if one has room."""
        with self.lock:
            self.release(job)
            self.reserve(job)

    def place_of(self, job: Job) -> str | None:
        """The worker that a place was reserved on for exactly this job."""
        with self.lock:
            return next((seat.name for seat in self._seats.values() if id(job) in seat.taken), None)

    def release(self, job: Job) -> None:
        """Give the job's place back."""
        with self.lock:
            for seat in self._seats.values():
                seat.taken.pop(id(job), None)

    def has_row(self, job: Job) -> bool:
        """Whether some live worker has a row of the job's backend free."""
        with self.lock:
            return any(
                seat.live() and seat.could(job) and seat.refuses(job) is None and seat.free()[2][_row(job.backend)] > 0
                for seat in self._seats.values()
            )


class ClusterBudget(Budget):
    """The dispatcher's budget over all workers: a lease is a place on one of them."""

    def __init__(self, ledger: Ledger, threads: int) -> None:
        super().__init__(0, 0, {})
        self.threads = threads
        self._ledger = ledger
        self.lock = ledger.lock

    def never(self, job: Job) -> str | None:
        """None: what no worker has waits for one that does."""
        return None

    def try_take(self, job: Job) -> Lease | None:
        """A place on the best worker, or None."""
        return Lease(self, job) if self._ledger.reserve(job) is not None else None

    def free(self) -> tuple[int, Decimal]:
        """MiB and cores free on all live workers together."""
        with self.lock:
            live = [seat.free() for seat in self._ledger.seats() if seat.live()]
        return sum(memory for memory, _, _ in live), sum((cores for _, cores, _ in live), Decimal(0))

    def give_back(self, job: Job) -> None:
        """Called by a lease, under the lock."""
        self._ledger.release(job)

    def free_rows(self) -> list[str]:
        """The backends with a free row at a live worker; without a live worker all, so that requests get the reason."""
        free = [seat.free()[2] for seat in self._ledger.seats() if seat.live()]
        if not free:
            return list(BACKENDS)
        return [name for name in BACKENDS if any(rows.get(_row(name), 1) > 0 for rows in free)]

    def _has_row(self, job: Job) -> bool:
        return self._ledger.has_row(job)
