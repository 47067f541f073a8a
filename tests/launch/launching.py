"""Launches the real way (read, judge, claim, record) in this process; only the sandbox is one that counts."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

from tests.acts.bench_workspace import Bench
from threegate.core.workspace import Workspace
from threegate.judgement.judge import Clearance
from threegate.launch.approved_file import Approved, Ended, Waiting, read_approved
from threegate.launch.context import Context, daemon_context
from threegate.launch.pipeline import launch
from threegate.request.job import Job
from threegate.runners.interface import Control, Outcome, Stream
from threegate.trail.event import Event
from threegate.trail.history import RequestHistory
from threegate.trail.trail import Trail

EMPTY = Stream(b"", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")


class CountingRunner:
    """A sandbox that only counts what it was given."""

    starts_late = False

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self._lock = threading.Lock()

    def available(self, job: object = None) -> str | None:
        return None

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        with self._lock:
            self.runs[clearance.request_id] += 1
        (control.run_folder / "out").mkdir(exist_ok=True)
        return Outcome("succeeded", "counted", EMPTY, EMPTY, exit_code=0, wall_ms=1)

    def close(self) -> None:
        pass


class HeldRunner(CountingRunner):
    """Counts, and holds each run until it may end."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        assert self.go.wait(30)
        return super().run(clearance, job, control)


def daemons(bench: Bench, runner: CountingRunner, count: int = 2) -> list[Context]:
    """What so many daemon processes would work with: each has its own eyes on the trail."""
    made = []
    for number in range(count):
        context = daemon_context(bench.workspace, Trail(bench.workspace), bench.context.policy, boot_nonce=str(number))
        context.close()
        made.append(replace(context, runners={"monty": runner, "ERA": runner}))
    return made


def waiting(bench: Bench, context: Context, request_id: str = "req-1") -> Approved:
    """A request that alice approved, read from approved/."""
    approved = read_approved(context, bench.approve(bench.draft(request_id, slug=request_id)).path)
    assert isinstance(approved, Approved)
    return approved


def control_of(context: Context, request_id: str = "req-1") -> Control:
    """The control of one run."""
    return Control(context.workspace.run_folder(request_id), context.workspace.inputs, "", "")


def launched(context: Context, approved: Approved) -> Ended | Waiting:
    """Launch it."""
    return launch(context, approved, control_of(context, approved.request_id))


def history_of(context: Context, request_id: str = "req-1") -> RequestHistory:
    """What the trail says of a request."""
    with context.trail.locked() as held:
        history = held.index.history(request_id)
    assert history is not None
    return history


def events_of(workspace: Workspace, request_id: str = "req-1") -> list[Event]:
    """The events of a request, in order."""
    return [event for event in Trail(workspace).events() if event.request_id == request_id]


def only_result(workspace: Workspace) -> bytes:
    """The bytes of the one result."""
    (path,) = workspace.results.glob("TS-*.md")
    return path.read_bytes()
