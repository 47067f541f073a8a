"""The queue: oldest first, one lane for each backend, within the machine's budget.

Invariant: a request is handed to a thread only while its lane and the budget have room for it, and only once
at a time; a waiting request stays in approved/, and its reason is recorded once. An entry of the queue only says where
to look; the thread that starts a file reads it, and checks its identity.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import NamedTuple

from threegate.core import limits
from threegate.core.errors import DiskFull, ThreeGateError, TrailError, is_disk_full
from threegate.core.file_names import is_request_name, request_of_companion
from threegate.daemon.log import Log
from threegate.judgement.judge import STOPPING_CODES
from threegate.launch.approved_file import Approved, Ended, Unrunnable, Waiting, peek_backend, read_approved
from threegate.launch.completion import refuse_unrunnable, write_waiting
from threegate.launch.context import Context
from threegate.launch.pipeline import launch
from threegate.request.job import Job
from threegate.review.status import VOID_CODES
from threegate.runners.backend import running
from threegate.runners.interface import Control
from threegate.runners.live_output import LiveOutputFile
from threegate.runners.machine import Budget, Lease, Round

_LOOK_AGAIN_SECONDS = 1.0
_LOOK_AGAIN_AT_MOST = 8.0
LASTING_SECONDS = 0.25
"""A run longer than this gets the `running` status; a shorter one has finished before anyone could have read it."""
LONG_QUEUE = 32
"""From this many files on, a queue is listed only now and then."""
_LONG_SECONDS = 0.25
_LISTING_SHARE = 50
_LISTED_AT_LEAST_SECONDS = 2.0
"""A long queue is not listed for _LISTING_SHARE times the duration of listing it, but at most this long, even
on a slow disk.
"""


class QueuedFile(NamedTuple):
    """A waiting request file."""

    name: str
    path: Path
    identity: tuple[int, ...]
    """Identifies the file and its signatures, so that a change is noticed."""
    signatures: tuple[str, ...]
    """The names of its signatures, sorted."""
    backend: str | None
    """What it seems to need; a hint for the order."""


class ApprovedQueue:
    """A short queue is listed on each check; a long one, of which few can start, every _LONG_SECONDS or less often."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.waiting: list[QueuedFile] = []
        """The waiting requests of the last listing, without those taken since."""
        self._again = 0.0
        self.backends: frozenset[str | None] = frozenset()
        """What all the listed requests seem to need; None if one of them names nothing."""

    def look(self, *, fresh: bool) -> bool:
        """List the folder, and return True; without `fresh`, a recent listing may be reused."""
        began = time.monotonic()
        if not fresh and len(self.waiting) >= LONG_QUEUE and began < self._again:
            return False
        self.waiting = self._list()
        self.backends = frozenset(item.backend for item in self.waiting)
        now = time.monotonic()
        pause = min(_LISTING_SHARE * (now - began), _LISTED_AT_LEAST_SECONDS)
        self._again = now + max(_LONG_SECONDS, pause)
        return True

    def taken(self, name: str) -> None:
        """This one was started or is gone: it is not in `waiting` again before the folder is listed again."""
        self.waiting = [item for item in self.waiting if item.name != name]

    def _list(self) -> list[QueuedFile]:
        before = {item.name: item for item in self.waiting}
        signatures: dict[str, list[tuple[str, int]]] = {}
        listed: list[tuple[int, str, os.stat_result]] = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # claimed by a thread or cancelled meanwhile
                    facts = entry.stat(follow_symlinks=False)
                    listed.append((facts.st_mtime_ns, entry.name, facts))
        for changed, name, _ in listed:
            of = request_of_companion(name)
            if of is not None:
                signatures.setdefault(of[0], []).append((name, changed))
        found = []
        for changed, name, facts in sorted(listed, key=lambda item: item[:2]):
            if not is_request_name(name):
                continue
            signed = sorted(signatures.get(name, []))
            names = tuple(signature for signature, _ in signed)
            identity = (facts.st_ino, facts.st_size, changed, *(moment for _, moment in signed))
            known = before.get(name)
            if known is None or (known.identity, known.signatures) != (identity, names):
                path = self._folder / name
                known = QueuedFile(name, path, identity, names, peek_backend(path))
            found.append(known)
        return found


@dataclass
class _Running:
    approved: Approved
    identity: tuple[int, ...]
    """Identity of the file and its signatures, as seen in the queue."""
    control: Control
    lease: Lease
    future: Future[Ended | Waiting]
    ends_before: int
    """How many requests had ended when it was started."""
    status_at: float
    """When to write the `running` status, by the monotonic clock; inf once it is written."""


@dataclass
class _Wait:
    identity: tuple[int, ...]
    policy: str
    code: str
    looked: float
    again_after: float = _LOOK_AGAIN_SECONDS
    over: Callable[[], bool] | None = None
    """As in `Waiting`."""


@dataclass
class Dispatcher:
    """Starts requests, and tracks those that run."""

    context: Context
    """The context for the next request. The daemon replaces it when the policy changes; running requests keep theirs.
    """
    budget: Budget
    log: Log
    wake: threading.Event
    threads: int
    """How many requests run at once, across all backends; as many more may be in recording."""
    beat: Callable[[], None] = lambda: None
    """Called for each request checked, to show that a long queue makes progress."""
    failed: ThreeGateError | None = None
    """What stopped all launches for good (a trail that cannot be written), once that happened."""
    unsettled: bool = False
    """Whether the disk was full when a request was started or recorded. Nothing is started until the daemon has
    settled what that left.
    """
    full: ThreeGateError | None = None
    """What found no space, until that is settled."""
    held: bool = False
    """Whether the daemon starts nothing now. A run that another machine prepares does not start then either."""
    running: dict[str, _Running] = field(default_factory=dict)
    """The requests that are in threads, by file name."""
    waits: dict[str, _Wait] = field(default_factory=dict)
    """Those that wait for something, by file name."""
    _ends: int = 0
    """How many requests have ended."""
    _pool: ThreadPoolExecutor = field(init=False)
    _queue: ApprovedQueue = field(init=False)
    _output_file: LiveOutputFile = field(init=False)
    _output_at: float = 0.0
    """When to check the output of running requests, by the monotonic clock."""

    def __post_init__(self) -> None:
        self.settings = self.context.policy.settings
        """What runners and budget were made of."""
        self._output_file = LiveOutputFile(self.context.workspace)
        self._queue = ApprovedQueue(self.context.workspace.approved)
        self._pool = ThreadPoolExecutor(max_workers=2 * self.threads, thread_name_prefix="run")

    @property
    def held_up(self) -> str | None:
        """The reason code that blocks all launches now, to be fixed by a person or by time."""
        stopping = STOPPING_CODES | {"workspace_mismatch"}
        return next((wait.code for wait in self.waits.values() if wait.code in stopping), None)

    def collect(self) -> int:
        """Collect requests that ended, start nothing. Returns how many there were. Raises OSError."""
        done = self._collect()
        self._show_running()
        return done

    def pause(self, longest: float) -> float:
        """Seconds, at most `longest`, until the status or output of a running request is due."""
        due = (min(entry.status_at, self._output_at) for entry in self.running.values())
        first = min(due, default=inf)
        return min(longest, max(first - time.monotonic(), 0.0))

    def schedule(self) -> int:
        """Collect requests that ended and start those that can start. Returns how many of both. Raises
        TrailError, OSError.
        """
        done = self.collect()
        if self.failed is not None or self.unsettled:
            return done
        if self._queue.look(fresh=not self.running):
            for gone in self.waits.keys() - {item.name for item in self._queue.waiting}:
                del self.waits[gone]
        if not self._queue.waiting:
            return done
        turn = self.budget.round()
        room = turn.room()
        for queued in self._queue.waiting:
            # Twice as many threads as runs: while one request is recorded, the next one runs.
            if len(self.running) >= 2 * self.threads or room.isdisjoint(self._queue.backends):
                break
            # `backend` is a hint from the file's text; `read_approved` reads the file properly.
            if queued.backend not in room or queued.name in self.running or self._still_waits(queued):
                continue
            try:
                self.beat()
                done += self._start(queued, turn)
            except ThreeGateError as error:
                self._stop_launches(error)
                break
            room = turn.room()
        return done

    def cancel(self, request_id: str) -> bool:
        """Stop a running request now; False if it is not running here."""
        for entry in self.running.values():
            if entry.approved.request_id == request_id:
                entry.control.cancelled.set()
                return True
        return False

    def finish(self, enough: Callable[[], bool]) -> None:
        """Let running requests finish, until it is `enough`."""
        while self.running and not enough():
            self._collect()
            self.wake.wait(0.05)
            self.wake.clear()

    def stop(self, grace_seconds: float) -> bool:
        """Let running requests finish for `grace_seconds`, then interrupt them, and wait until they are recorded.

        Returns whether all are recorded. Any other after STOP_RECORD_SECONDS is left to its thread: only the
        exit of the process ends that, and the recovery of the next one ends the request.
        """
        until = time.monotonic() + grace_seconds
        self.finish(lambda: time.monotonic() >= until)
        for entry in self.running.values():
            self.log.say("interrupting", request=entry.approved.request_id)
            entry.control.interrupted.set()
        # A runner that hangs must not keep the service from stopping.
        _, left = wait_for([entry.future for entry in self.running.values()], limits.STOP_RECORD_SECONDS)
        self._pool.shutdown(wait=not left, cancel_futures=True)
        self._collect()
        self._output_file.write({})
        for entry in self.running.values():
            what = "gave up waiting for its end; the next start settles it"
            self.log.say("stopped", request=entry.approved.request_id, what=what)
        return not left

    def _still_waits(self, queued: QueuedFile) -> bool:
        wait = self.waits.get(queued.name)
        return (
            wait is not None
            and wait.identity == queued.identity
            and wait.policy == self.context.policy.standing
            and time.monotonic() - wait.looked < wait.again_after
            and not (wait.over is not None and wait.over())
        )

    def _start(self, queued: QueuedFile, turn: Round) -> int:
        path, identity = queued.path, queued.identity
        try:
            approved = read_approved(self.context, path, queued.signatures)
        except FileNotFoundError:
            self._queue.taken(path.name)
            return 0
        if isinstance(approved, Unrunnable):
            ended = refuse_unrunnable(self.context, approved)
            self.log.say("refused", file=path.name, what=ended.code)
            return 1
        if self.budget.is_busy(approved.job):
            return 0  # this project is free once that change is recorded
        # One that was approved for what is not here is refused, whatever runs.
        missing = None if approved.elsewhere else self._missing(approved.job)
        if missing is not None:
            code = running(approved.job.backend).waits_for
            self._wait(approved, identity, Waiting(code, missing))
            return 0
        lease = turn.try_take(approved.job)
        if lease is None:
            return 0
        control = Control(
            run_folder=self.context.workspace.run_folder(approved.request_id),
            inputs_folder=self.context.workspace.inputs,
            workspace_id=self.context.workspace_id,
            boot_nonce=self.context.boot_nonce,
            workspace=self.context.workspace,
            ran=lambda: self._ran(approved.job, lease),
            outdated=lambda: self._holds_back(approved),
        )
        future = self._pool.submit(launch, self.context, approved, control)
        future.add_done_callback(lambda _: self.wake.set())
        status_at = time.monotonic() + LASTING_SECONDS
        self.running[path.name] = _Running(approved, identity, control, lease, future, self._ends, status_at)
        self._queue.taken(path.name)
        return 1

    def _missing(self, job: Job) -> str | None:
        """Why this job cannot start now, in one line."""
        return self.budget.never(job) or self.context.runners[job.backend].available(job)

    def _holds_back(self, approved: Approved) -> bool:
        stopped = self.held or self.unsettled or self.failed is not None
        return stopped or self.context.policy.standing != approved.policy

    def _ran(self, job: Job, lease: Lease) -> None:
        """A run is over and only its record remains to be written: the next one need not wait for the disk.

        What it must have alone stays taken until the end is recorded: a change can be reverted until then.
        """
        if job.action.alone is None and lease.release():
            self.wake.set()

    def _show_running(self) -> None:
        """Write the `running` status of longer runs, and now and then the last output line of those that have it. A run
        that is not claimed yet is checked again shortly.
        """
        now = time.monotonic()
        for entry in self.running.values():
            if now >= entry.status_at:
                entry.status_at = now + LASTING_SECONDS
                if entry.control.lasting is not None:
                    entry.status_at = inf
                    entry.control.lasting()
        if now >= self._output_at:
            self._output_at = now + limits.LIVE_SECONDS
            lasting = [entry for entry in self.running.values() if entry.status_at == inf]
            self._output_file.write({entry.approved.request_id: entry.control.output for entry in lasting})

    def _collect(self) -> int:
        ended = [name for name, entry in self.running.items() if entry.future.done()]
        moved = 0
        for name in ended:
            entry = self.running.pop(name)
            entry.lease.release()
            try:
                answer = entry.future.result()
            except ThreeGateError as error:
                self._stop_launches(error)
                continue
            except OSError as error:
                # What the disk refused may be half recorded: nothing more starts, and the next daemon settles it.
                kind = DiskFull if is_disk_full(error) else TrailError
                self._stop_launches(kind(f"{error.filename or name}: {error.strerror or error}"))
                continue
            if isinstance(answer, Waiting) and entry.control.interrupted.is_set():
                continue  # the daemon stops, and the next one starts it
            if isinstance(answer, Waiting):
                self._wait(entry.approved, entry.identity, answer)
                if entry.ends_before != self._ends:
                    self.waits[name].looked = -_LOOK_AGAIN_AT_MOST  # judged before the latest requests ended
            else:
                moved += 1
                self._ends += 1
                self.waits.pop(name, None)
                what = f"{answer.code}: {answer.message}" if answer.code in VOID_CODES else answer.code
                self.log.say(answer.event, request=entry.approved.request_id, what=what)
        if moved:
            for wait in self.waits.values():
                wait.looked = -_LOOK_AGAIN_AT_MOST  # they may have waited for one that ended
        return moved

    def _wait(self, approved: Approved, identity: tuple[int, ...], answer: Waiting) -> None:
        digest = approved.policy
        name = approved.path.name
        known = self.waits.get(name)
        same = known is not None and (known.identity, known.policy, known.code) == (identity, digest, answer.code)
        after = min(known.again_after * 2, _LOOK_AGAIN_AT_MOST) if known and same else _LOOK_AGAIN_SECONDS
        self.waits[name] = _Wait(identity, digest, answer.code, time.monotonic(), after, answer.over)
        if known is None or known.code != answer.code:
            self.log.say("waiting", request=approved.request_id, what=answer.message)
            try:
                write_waiting(self.context, approved, answer)
            except (OSError, ThreeGateError) as error:
                if not is_disk_full(error):
                    raise
                self.waits[name].code = ""  # recorded when it is judged again

    def _stop_launches(self, error: ThreeGateError) -> None:
        """Start nothing more: for good, or until the disk has space again."""
        if is_disk_full(error):
            self.unsettled, self.full = True, error
            return
        self.failed = error
        self.log.say("stopped", what=f"no new launches: {error}")
