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


def _rows(offered: Mapping[str, int]) -> dict[str, int]:
    """How many runs at once, of the backends that workers run, and of no other name that a worker may write."""
    rows = [_row(backend.name) for backend in backends() if backend.on_workers]
    return {row: offered.get(row, 0) for row in rows}


def _unheard() -> Status:
    return Status.model_construct(
        machine="", boot="", cores="0", memory_mb=0, rows=_rows({}), images=(), healthy=False, reason="", running=()
    )


@dataclass(slots=True)
class Seat:
    """One enrolled worker, as last reported, and what is in use on it."""

    name: str
    status: Status = field(default_factory=_unheard)
    healthy: bool = False
    """Whether it says so, and judges by this daemon's rules."""
    reason: str = "no report yet"
    heard: float | None = None
    heard_utc: datetime | None = None
    """When it last reported, also to an earlier run of the daemon."""
    here: frozenset[str] = frozenset()
    """The nonces of what it says that it runs, or has a result of."""
    taken: dict[int, Job] = field(default_factory=dict)
    refused: dict[str, tuple[float, str]] = field(default_factory=dict)
    """By the digest of each job that it refused: until when it is not offered it again, and what it said."""

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
        need, has = need_of(job), self.status
        return (
            has.rows.get(_row(job.backend), 0) > 0
            and need.memory_mb <= has.memory_mb
            and need.cpus <= Decimal(has.cores)
            and (not BACKENDS[job.backend].container or job.image in has.images)
            and (not job.egress_image or job.egress_image in has.images)
        )

    def free(self) -> tuple[int, Decimal, dict[str, int]]:
        """Free MiB, cores and rows."""
        memory, cores, rows = self.status.memory_mb, Decimal(self.status.cores), dict(self.status.rows)
        for job in self.taken.values():
            need = need_of(job)
            memory -= need.memory_mb
            cores -= need.cpus
            rows[_row(job.backend)] -= 1
        return memory, cores, rows

    def has_row(self, job: Job) -> bool:
        """Whether it takes the job, and has a row of its backend free."""
        could = self.live() and self.could(job) and self.refuses(job) is None
        return could and self.free()[2][_row(job.backend)] > 0

    def fits(self, job: Job) -> bool:
        """Whether the job fits in addition to what the worker already runs."""
        memory, cores, _ = self.free()
        need = need_of(job)
        return self.has_row(job) and need.memory_mb <= memory and need.cpus <= cores

    def to_json(self) -> dict[str, Any]:
        """For `threegate status`."""
        told = self.status
        memory, cores, rows = self.free()
        return {
            "worker": self.name,
            "machine": told.machine,
            "live": self.live(),
            "reason": self.problem() or "".join(f"refused a job: {said}" for said in self.refusals()[-1:]),
            "heard_utc": None if self.heard_utc is None else format_utc(self.heard_utc),
            "version": told.version,
            "operators_sha256": told.operators_sha256,
            "certificate_end": told.certificate_end,
            "cores": told.cores,
            "cores_free": str(cores),
            "memory_mb": told.memory_mb,
            "memory_free_mb": memory,
            **{kind: f"{most - rows[kind]}/{most}" for kind, most in told.rows.items()},
            "running": [request_id for _, request_id in told.running],
        }


class Ledger(Budget):
    """All enrolled workers, as the dispatcher's budget: a lease is a place on one of them. Safe for threads."""

    def __init__(self, names: Iterable[str], rules: Rules | None) -> None:
        """`rules`: what a worker must judge by to get anything; None: that is not compared."""
        super().__init__(0, 0, {})
        self._rules = rules
        self._seats = {name: Seat(name) for name in sorted(names)}
        self.heard = threading.Event()
        """Set with the first live worker."""

    def seats(self) -> list[Seat]:
        """All workers, by name."""
        return list(self._seats.values())

    # ---- what workers say

    def hear(self, name: str, told: Mapping[str, Any]) -> None:
        """A verified status note. Raises KeyError, ValueError for one that is malformed: it then changes nothing."""
        status = Status.model_validate(told)
        status = status.model_copy(update={"rows": _rows(status.rows)})
        other = self._rules.why_not(status) if self._rules is not None else ""
        with self.lock:
            seat = self._seats[name]
            if seat.status != status.model_copy(update={"running": seat.status.running}):
                seat.refused.clear()  # it may be another one now
            seat.status = status
            seat.healthy = status.healthy and not other
            seat.reason = other or trail_text(status.reason, limits.CLUSTER_TEXT_CHARS)
            seat.heard, seat.heard_utc = time.monotonic(), datetime.now(UTC)
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
            return seat.heard or 0.0, seat.status.boot, nonce in seat.here

    def machine(self, name: str) -> str:
        """The machine's name, as reported by the worker."""
        return self._seats[name].status.machine

    # ---- places

    def missing(self, job: Job | None) -> str | None:
        """None when some live worker could run the job, else one line that says why none can."""
        with self.lock:
            live = [seat for seat in self.seats() if seat.live()]
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
            fitting = [seat for seat in self.seats() if seat.fits(job)]
            if not fitting:
                return None
            best = max(fitting, key=lambda seat: (seat.free()[1], seat.free()[0]))
            best.taken[id(job)] = job
            return best.name

    def move(self, job: Job) -> None:
        """Give the job's place back, and take one on another worker, if one has room."""
        with self.lock:
            self.give_back(job)
            self.reserve(job)

    def place_of(self, job: Job) -> str | None:
        """The worker that a place was reserved on for exactly this job."""
        with self.lock:
            return next((seat.name for seat in self.seats() if id(job) in seat.taken), None)

    # ---- the budget

    def never(self, job: Job) -> str | None:
        """None: what no worker has waits for one that does."""
        return None

    def try_take(self, job: Job) -> Lease | None:
        """A place on the best worker, or None."""
        return Lease(self, job) if self.reserve(job) is not None else None

    def give_back(self, job: Job) -> None:
        """Give the job's place back."""
        with self.lock:
            for seat in self.seats():
                seat.taken.pop(id(job), None)

    def free(self) -> tuple[int, Decimal]:
        """MiB and cores free on all live workers together."""
        with self.lock:
            live = [seat.free() for seat in self.seats() if seat.live()]
        return sum(memory for memory, _, _ in live), sum((cores for _, cores, _ in live), Decimal(0))

    def free_rows(self) -> list[str]:
        """The backends with a free row at a live worker; without a live worker all, so that requests get the reason."""
        free = [seat.free()[2] for seat in self.seats() if seat.live()]
        if not free:
            return list(BACKENDS)
        return [name for name in BACKENDS if any(rows.get(_row(name), 1) > 0 for rows in free)]

    def _has_row(self, job: Job) -> bool:
        return any(seat.has_row(job) for seat in self.seats())
