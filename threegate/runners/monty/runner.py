"""The embedded sandbox: runs a request's code in its own Monty worker.

Invariant: one request, one new worker, thrown away afterwards. The wall clock, the number of files and the
size of the printed output are limited by us and not by the interpreter; each limit that ends a run has its
own status. Clock and random numbers are derived from the approval, so that a run can be repeated.
"""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pydantic_monty as pm

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.core.removal import remove_folder
from threegate.request.action import Script
from threegate.runners.interface import Control, Outcome, Status, StreamMeter, nothing_ran
from threegate.runners.monty.drive import Drive, DriveStopped, RunWatch, explain
from threegate.runners.monty.monty_probe import monty_probe_job
from threegate.runners.monty.value import ValueTooLarge, render_value
from threegate.runners.monty.worker import VERSION, WarmWorkers, Worker, WorkerProcess
from threegate.runners.staging import Collected, StagingError, collect, stage_inputs

if TYPE_CHECKING:
    from threegate.judgement.judge import Clearance
    from threegate.request.job import Job

RUNTIME = f"pydantic-monty {VERSION}"


class MontyRunner:
    """Runs monty jobs; `workers` processes are kept started ahead; with 0, each is started when it is needed."""

    starts_late = False

    def __init__(self, workers: int = 2) -> None:
        self._workers = workers
        self._warm: WarmWorkers | None = None
        self._watch = RunWatch()
        self._lock = threading.Lock()

    def available(self, job: Job | None = None) -> str | None:
        """None if a run can start, else one line about what is missing."""
        try:
            self._started()
        except Unavailable as error:
            return str(error)
        return None

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        """Run the code once; see Runner.run. Never raises because of the code; raises OSError for our own disk."""
        clearance.must_cover(job)
        return self._run((clearance.approved_utc, clearance.request_sha256), job, control)

    def prove(self, control: Control) -> Outcome:
        """Run the probe of `monty_probe`, which is ours and fixed, instead of a request."""
        return self._run((datetime(2026, 1, 1, tzinfo=UTC), "threegate-probe"), monty_probe_job(), control)

    def close(self) -> None:
        """Stop the workers that were started ahead."""
        with self._lock:
            if self._warm is not None:
                self._warm.close()
                self._warm = None
        self._watch.close()

    def isolation_missing(self) -> tuple[str, ...]:
        """What cannot be restricted for a worker on this machine. Raises Unavailable."""
        return self._started().isolation.missing

    def _started(self) -> WarmWorkers:
        with self._lock:
            if self._warm is None:
                self._warm = WarmWorkers(self._workers)
            return self._warm

    def _run(self, fixed: tuple[datetime, str], job: Job, control: Control) -> Outcome:
        inputs, out = control.run_folder / "in", control.run_folder / "out"
        try:
            try:
                stage_inputs(job.inputs, control.inputs_folder, inputs)
                warm = self._started()
                worker = warm.take()
            except (StagingError, Unavailable) as error:
                return nothing_ran(str(error))
            run = _MontyRun(fixed, job, control, self._watch)
            try:
                out.mkdir(mode=0o700)
                run.execute(worker, warm.isolation.missing)
            finally:
                # Before the outputs are collected: nothing may write there any more.
                worker.close()
            control.ran()
            return run.outcome(collect(out, job.limits))
        finally:
            remove_folder(inputs)


class _MontyRun:
    """One run, from the checkout of its worker to the outcome."""

    def __init__(self, fixed: tuple[datetime, str], job: Job, control: Control, watch: RunWatch) -> None:
        self._watch = watch
        self._clock, self._seed = fixed
        self._job = job
        self._control = control
        self._out_folder = control.run_folder / "out"
        self._out, self._err = StreamMeter(), StreamMeter()
        self._status: Status = "failed"
        self._detail = ""
        self._exit_code: int | None = None
        self._effective: dict[str, str] = {}
        self._process: WorkerProcess | None = None
        self._wall_ms = 0

    def execute(self, worker: Worker, missing: tuple[str, ...]) -> None:
        """Check the worker out, feed the code under the watch, and record how it ended."""
        bounds = self._job.limits
        try:
            session = worker.pool.checkout(
                limits={
                    "max_memory": bounds.memory_mb * limits.MIB,
                    "max_recursion_depth": limits.MONTY_RECURSION,
                    "max_suspensions": limits.MONTY_SUSPENSIONS,
                },
                os_policy={
                    "datetime": self._clock,
                    "timezone": "utc",
                    "sleep": "call_host",
                    "process_time": "zero",
                    "random_start": {"seed": self._seed},
                },
            )
            with session, closing(WorkerProcess(session.worker_pid, bounds)) as process:
                self._process = process
                self._effective = {
                    "wall": f"{bounds.time_sec} s (our watchdog)",
                    "memory": f"{bounds.memory_mb} MiB (interpreter heap)",
                    "processes": "0 (the language starts none)",
                    "network": "none (the language has none)",
                    "out_bytes": f"{bounds.out_bytes} (mount)",
                    "out_files": f"{bounds.out_files} (counted at each call)",
                    "streams": f"{bounds.stream_bytes} bytes",
                    "calls": f"{limits.MONTY_SUSPENSIONS}",
                    **process.read_back(missing),
                }
                lease = self._control.lease_sec
                minder = None if lease is None else self._watch.minder(process.descriptor, lease)
                if (late := self._control.lease_over()) is not None:
                    self._end("interrupted", late, None)
                    return
                drive = Drive(bounds, self._control, process.kill, self._out_folder, (self._out, self._err), minder)
                begin = time.monotonic()
                try:
                    with drive.watched_by(self._watch):
                        self._feed(session, drive)
                finally:
                    self._wall_ms = int((time.monotonic() - begin) * 1000)
                    process.measure()
        except pm.MontyError as error:
            if not self._detail:
                self._end("failed", f"the worker could not be used: {error}", None)
        except TimeoutError:
            self._end("failed", "the worker did not answer", None)

    def outcome(self, collected: Collected) -> Outcome:
        """The outcome; a limit that was reached only while outputs were collected ends the run as exceeded."""
        if collected.exceeded and self._status in ("succeeded", "failed"):
            self._status, self._detail = "output_exceeded", f"output_exceeded: {collected.exceeded}."
        process = self._process
        return Outcome(
            status=self._status,
            detail=self._detail,
            exit_code=self._exit_code,
            wall_ms=self._wall_ms,
            cpu_ms=process.cpu_ms if process else None,
            peak_memory_bytes=process.peak_bytes if process else None,
            effective_limits=self._effective,
            stdout=self._out.result(),
            stderr=self._err.result(),
            artifacts=tuple(collected.artifacts),
            dropped=tuple(collected.dropped),
            runtime=RUNTIME,
        )

    def _feed(self, session: pm.MontySession, drive: Drive) -> None:
        """Run the code, and write the value of its last expression, unless the run used that name itself."""
        job, script = self._job, self._job.action
        assert isinstance(script, Script)
        inputs, out = self._control.run_folder / "in", self._out_folder
        mounts = [
            pm.MountDir(host_path=inputs, virtual_path="/in", mode="read-only"),
            pm.MountDir(host_path=out, virtual_path="/out", mode="read-write", write_bytes_limit=job.limits.out_bytes),
        ]
        try:
            value = drive.feed(session, script.code, json.loads(script.variables or "{}"), mounts, job.workdir)
            self._end("succeeded", "The code ran to completion.", 0)
            if (rendered := render_value(value())) is not None:
                name, data = rendered
                # The code may have created this name, also as a link.
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                try:
                    descriptor = os.open(out / name, flags, 0o600)
                except FileExistsError:
                    detail = f"result_name_taken: the code created /out/{name}, which is reserved for its value."
                    self._end("failed", detail, 1)
                else:
                    with os.fdopen(descriptor, "wb") as stream:
                        stream.write(data)
        except pm.MontyError as error:
            status, detail, text = explain(error, drive.ended, job)
            self._err.write(text.encode("utf-8", "backslashreplace"))
            self._end(status, detail, None if drive.ended or not text else 1)
        except ValueTooLarge as error:
            self._end("output_exceeded", f"output_exceeded: the value of the last expression is {error}.", None)
        except ValueError:
            self._end("failed", "The value of the last expression cannot be written (an integer is too long).", 1)
        except DriveStopped:
            self._end("failed", "The run was stopped.", None)
        # A reason of the daemon counts more than how the code ended (docs/spec/6-runners.md, Outcome).
        if drive.ended and self._status in ("succeeded", "failed"):
            self._end(*drive.ended, None)

    def _end(self, status: Status, detail: str, exit_code: int | None) -> None:
        self._status, self._detail, self._exit_code = status, detail, exit_code
