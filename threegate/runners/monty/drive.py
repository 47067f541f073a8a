"""Drives one feed of a Monty session call by call, with our own clock; one thread checks all feeds of a runner.

Invariants: the run never outlives its deadline by more than BEAT, a sleep counts as time, and no call that could create
a file passes once the file limit of /out is reached. An added run is checked every BEAT until it is removed, whatever
happens to the others; when `remove` has returned, it is no longer checked, so that its process may be reused. A run
with a lease is ended from outside if this process stands still, and says so.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pydantic_monty as pm

from threegate.core import limits
from threegate.runners.interface import Control, Ended, Status, out_of_memory, timed_out
from threegate.runners.lease import Minder

if TYPE_CHECKING:
    from threegate.request.job import Job, JobLimits
    from threegate.runners.interface import StreamMeter

BEAT: Final = 0.02
"""Seconds between two checks."""
_MAKING = frozenset(
    {"Path.write_text", "Path.write_bytes", "Path.append_text", "Path.append_bytes", "Path.mkdir", "Path.touch"}
)
_MEMORY = r"memory limit exceeded: \d+ bytes > \d+ bytes|the worker exceeded its memory limit and was terminated"
_SLEEPS = frozenset({"system.sleep", "time.sleep"})
_ASYNC_SLEEPS = frozenset({"system.async_sleep", "asyncio.sleep"})


class RunWatch:
    """The thread exists while something is watched, and blocks while nothing is."""

    def __init__(self) -> None:
        self._runs: list[Drive] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._minder: Minder | None = None

    def minder(self, pidfd: int, lease_sec: float) -> Minder:
        """What ends this process if no beat comes for so long; `Drive` sends them. Raises OSError."""
        with self._changed:
            if self._minder is None or self._minder.over() is not None:
                self._end_minder()
                self._minder = Minder()
            self._minder.take(pidfd, lease_sec)
            return self._minder

    def _end_minder(self) -> None:
        if self._minder is not None:
            self._minder.close()
            self._minder = None

    def add(self, run: Drive) -> None:
        """Check this one from now on."""
        with self._changed:
            self._runs.append(run)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="monty-watch", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, run: Drive) -> None:
        """Stop checking it; waits for a check in progress."""
        with self._changed:
            self._runs.remove(run)

    def close(self) -> None:
        """Stop the thread, unless something is still watched; the next `add` starts another."""
        with self._changed:
            if not self._runs:
                self._thread = None
                self._changed.notify()
                self._end_minder()

    def _work(self) -> None:
        own = threading.current_thread()
        while True:
            with self._changed:
                while not self._runs and self._thread is own:
                    self._changed.wait()
                if self._thread is not own:
                    return
                for run in self._runs:
                    try:
                        run.look()
                    except Exception:  # noqa: BLE001, S112 - the others must be checked, and this one again at the next beat
                        continue
            time.sleep(BEAT)


class DriveStopped(Exception):
    """One of our limits was reached between two calls; `Drive.ended` says which."""


class Drive:
    """One feed."""

    def __init__(
        self,
        bounds: JobLimits,
        control: Control,
        kill: Callable[[], None],
        out: Path,
        streams: tuple[StreamMeter, StreamMeter],
        minder: Minder | None = None,
    ) -> None:
        self._bounds = bounds
        self._control = control
        self._kill = kill
        self._out = out
        self._streams = {"stdout": streams[0], "stderr": streams[1]}
        self._deadline = time.monotonic() + bounds.time_sec
        self._made: set[str] = set()
        self._wakes: dict[int, float] = {}
        self._lock = threading.Lock()
        self._minder = minder
        self._ended: Ended | None = None

    @property
    def ended(self) -> Ended | None:
        """Which of our limits ended it, or None. The lease goes first: after this process stood still, it may have
        found a reason of its own, too late.
        """
        over = None if self._minder is None else self._minder.over()
        return self._ended if over is None else ("interrupted", over)

    @contextmanager
    def watched_by(self, watch: RunWatch) -> Iterator[None]:
        """Enforce the deadline and the operator's requests until the block ends."""
        self._deadline = time.monotonic() + self._bounds.time_sec
        watch.add(self)
        try:
            yield
        finally:
            watch.remove(self)

    def feed(
        self,
        session: pm.MontySession,
        code: str,
        variables: dict[str, Any],
        mounts: Sequence[pm.MountDir],
        workdir: str,
    ) -> Callable[[], Any]:
        """Run the code; return a function for the value of its last expression. Raises MontyError, Stopped."""
        state = session.feed_start(
            code, inputs=variables, print_callback=self._printed, mount=list(mounts), cwd=workdir
        )
        while not isinstance(state, pm.MontyComplete):
            state = self._answer(state)
        complete = state
        return lambda: complete.output

    def _answer(self, state: Any) -> Any:
        """Answer one call of the sandbox."""
        if self.ended is not None:
            raise DriveStopped
        if isinstance(state, pm.NameLookupSnapshot):
            return state.resume()
        if isinstance(state, pm.FutureSnapshot):
            return self._wake(state)
        name = str(state.function_name)
        if not state.is_os_function:
            return state.resume_auto()
        if name in _SLEEPS:
            self._sleep_until(time.monotonic() + _seconds(state.args))
            return state.resume({"return_value": None})
        if name in _ASYNC_SLEEPS:
            self._wakes[state.call_id] = time.monotonic() + _seconds(state.args)
            return state.resume({"future": ...})
        if name in _MAKING or (name == "open" and _makes(state.args, state.kwargs)):
            self._count(state.args)
        return state.resume_auto()

    def _sleep_until(self, moment: float) -> None:
        """Sleep on the run's own time; the watch stops the run when that is due."""
        while self.ended is None and (left := moment - time.monotonic()) > 0:
            time.sleep(min(left, BEAT))

    def _wake(self, state: pm.FutureSnapshot) -> Any:
        now = time.monotonic()
        pending = {number: self._wakes.get(number, now) for number in state.pending_call_ids}
        first = min(pending.values(), default=now)
        self._sleep_until(first)
        due = {number: {"return_value": None} for number, moment in pending.items() if moment <= first}
        return state.resume(due)

    def _count(self, args: tuple[Any, ...]) -> None:
        """Count the names that a call may create below /out; folders are names too. Raises Stopped at the limit."""
        wanted = _names_below_out(str(args[0]) if args else "/")
        self._made |= wanted
        if len(self._made) <= self._bounds.out_files:
            return
        # The code may have removed some of the names that were counted: what is there decides.
        self._made = {
            f"/out/{Path(folder, name).relative_to(self._out)}"
            for folder, folders, files in os.walk(self._out)
            for name in (*folders, *files)
        } | wanted
        if len(self._made) > self._bounds.out_files:
            self._stop("output_exceeded", f"output_exceeded: /out holds {self._bounds.out_files} files, its limit.")
            raise DriveStopped

    def _printed(self, stream: str, text: str) -> None:
        meter = self._streams[stream]
        room = self._bounds.stream_bytes - meter.size
        data = text.encode("utf-8", "backslashreplace")
        meter.write(data[: max(room, 0)])
        self._control.output.put(stream, meter.tail)
        if len(data) > room:
            self._stop(
                "output_exceeded", f"output_exceeded: {stream} reached its limit of {self._bounds.stream_bytes} bytes."
            )

    def look(self) -> None:
        """Stop the run if that is due, and kill a stopped one. Called from the watch's thread, at any time."""
        if self._minder is not None:
            self._minder.beat()
        if (stopped := self._control.stopped()) is not None:
            self._stop(*stopped)
        elif time.monotonic() >= self._deadline:
            self._stop(*timed_out(self._bounds))
        elif self.ended is not None:
            self._kill()

    def _stop(self, status: Status, detail: str) -> None:
        with self._lock:
            if self._ended is None:
                self._ended = (status, detail)
        self._kill()


def _names_below_out(path: str) -> set[str]:
    """The name and its folders below /out. None if longer than the kernel accepts, because nothing will be created."""
    parts = os.path.normpath(path).split("/") if len(path) < limits.MONTY_PATH_CHARS else []
    if parts[:2] != ["", "out"]:
        return set()
    return {"/".join(parts[:count]) for count in range(3, len(parts) + 1)}


def explain(error: pm.MontyError, ended: Ended | None, job: Job) -> tuple[Status, str, str]:
    """Status, one sentence, and the text for stderr, for how a feed ended."""
    if ended is not None:
        return (*ended, "")
    if isinstance(error, pm.MontyCrashedError):
        return "failed", "The worker exited by itself; nothing remains of it.", ""
    text = error.display() if hasattr(error, "display") else str(error)
    reason = error.exception()
    if _by_limit(error):
        if re.fullmatch(_MEMORY, str(reason)):
            return (*out_of_memory(job.limits), text + "\n")
        if re.fullmatch(r"disk write limit of .{1,40} exceeded", str(reason)):
            return ("output_exceeded", f"output_exceeded: /out reached {job.limits.out_bytes} bytes.", text + "\n")
    kind = type(reason).__name__
    return "failed", f"The code raised {kind}.", text + "\n"


def _by_limit(error: pm.MontyError) -> bool:
    """Whether an error came from the interpreter, not from a `raise` statement in the code: its location tells."""
    if not isinstance(error, pm.MontyRuntimeError):
        return False
    frames = error.traceback()
    if not frames:
        return True
    before = (frames[-1].source_line or "")[: frames[-1].column - 1]
    return not re.search(r"\braise[\s(]*$", before)


def _seconds(args: tuple[Any, ...]) -> float:
    try:
        return max(0.0, float(args[0]))
    except (IndexError, TypeError, ValueError, OverflowError):
        return 0.0


def _makes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    mode = str(kwargs.get("mode", args[1] if len(args) > 1 else "r"))
    return any(letter in mode for letter in "wax+")
