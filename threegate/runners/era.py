"""The container sandbox: runs a request's argv in a hardened container of its own.

Invariant: no byte of the request's code runs before every wall was read back from the host; the container, its
volume and its folder are removed whatever happens; nothing waits for the engine without a bound.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import docker
import docker.errors

from threegate import limits
from threegate.errors import Unavailable
from threegate.job import Job
from threegate.judge import Clearance
from threegate.runners import engine, era_spec
from threegate.runners.egress_chain import EgressChain
from threegate.runners.era_readback import Walls, read_back
from threegate.runners.era_watch import Watch
from threegate.runners.interface import Control, Destination, Outcome, Status
from threegate.runners.out_volume import OutVolume, can_mount
from threegate.runners.probe import era_probe_job
from threegate.runners.secret_header import secret_for
from threegate.runners.staging import StagingError, collect, remove_folder, stage_inputs
from threegate.runners.streams import EMPTY, nothing_ran
from threegate.settings import EraSettings, SecretReference

_GONE_SECONDS = 4
_SHORT_SECONDS = 1.5
LOOK_SECONDS = 2.0


class EraRunner:
    """Runs ERA jobs as `settings` (``[runners.era]``) say. `egress_network` is the engine's network of the proxies."""

    def __init__(
        self,
        settings: EraSettings,
        *,
        egress_network: str = "bridge",
        secret_references: Mapping[str, SecretReference] | None = None,
    ) -> None:
        self._settings = settings
        self._secrets = secret_references or {}
        self._url = engine.engine_url(settings.engine)
        self._egress_network = egress_network
        self._looked: tuple[float, str | None] = (0.0, None)

    def available(self, job: Job | None = None) -> str | None:
        """None when a run can start now, else one line (``no container engine…``, ``no image…``).

        With a job also what only that job needs. The engine's answer is kept for LOOK_SECONDS.
        """
        moment, missing = self._looked
        if time.monotonic() - moment >= LOOK_SECONDS or moment == 0.0:
            missing = self._missing(self._settings.image, "image")
            self._looked = (time.monotonic(), missing)
        if missing is None and job is not None and job.network:
            missing = self._missing(job.egress_image, "egress_image")
        return missing

    def _missing(self, image: str, name: str) -> str | None:
        if (missing := can_mount()) is not None:
            return missing
        try:
            with engine.client(self._url) as api:
                if not image:
                    raise Unavailable(
                        f"no image: runners.era.{name} is not set; build it: threegate sandbox build"
                    )
                engine.check_image(api, image)
                engine.check_runtime(api, self._settings.runtime)
        except Unavailable as error:
            return str(error)
        return None

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        """Run `job.argv` once; see Runner.run. Never raises for what the command does."""
        return self._contained(clearance.request_id, job, control)

    def prove(self, control: Control, *, network: bool = False) -> Outcome:
        """Run the probe of `runners.probe`, which is ours and fixed, in place of a request: it measures the walls."""
        return self._contained("threegate-probe", era_probe_job(self._settings, network=network), control)

    def _contained(self, request_id: str, job: Job, control: Control) -> Outcome:
        work = control.run_folder / "work"
        work.mkdir(mode=0o700)
        try:
            return self._run(request_id, job, control, work)
        except (StagingError, Unavailable) as error:
            return nothing_ran(str(error))
        finally:
            remove_folder(work)

    def close(self) -> None:
        """Nothing is kept between runs."""

    def _run(self, request_id: str, job: Job, control: Control, work: Path) -> Outcome:
        if job.argv is None or not job.argv or "=" in job.argv[0]:
            raise Unavailable("the job has no command that a container can run")
        if (missing := can_mount()) is not None:
            raise Unavailable(missing)
        with ExitStack() as stack:
            api = stack.enter_context(engine.client(self._url))
            engine.check_image(api, job.image)
            runtime = engine.check_runtime(api, job.runtime)
            if job.network and runtime == "runsc":
                raise Unavailable(
                    "runtime runsc has no way to the proxy; network: allowlist needs another runtime"
                )
            stage_inputs(job.inputs, control.inputs_folder, work / "in")
            out = OutVolume(work / "out", job.limits, era_spec.RUN_USER)
            stack.callback(out.close)
            chain = None
            if job.network:
                secret = secret_for(job, self._secrets)
                chain = EgressChain(api, job, control, request_id, work, self._egress_network, secret)
                stack.callback(chain.remove)
                chain.start()
            run = _EraRun(api, job, control, out, runtime, chain)
            stack.callback(run.remove)
            run.create(request_id, work)
            run.execute()
            # Dead before its files are read, gone before the answer.
            run.settle()
            run.remove()
            return run.outcome(control.run_folder / "out")


class _EraRun:
    """One container, from its creation to the outcome."""

    def __init__(
        self,
        api: docker.APIClient,
        job: Job,
        control: Control,
        out: OutVolume,
        runtime: str,
        chain: EgressChain | None,
    ) -> None:
        self._chain = chain
        self._api = api
        self._job = job
        self._control = control
        self._out = out
        self._runtime = runtime
        self._container = ""
        self._watch: Watch | None = None
        self._walls = Walls()
        self._state: dict[str, Any] | None = None
        self._ended: tuple[Status, str] | None = None
        self._notes: list[str] = []
        self._started: datetime | None = None
        self._finished: datetime | None = None

    def create(self, request_id: str, work: Path) -> None:
        """Create the container. Raises Unavailable: as long as there is none, nothing can have run."""
        name = f"threegate-{self._control.boot_nonce[:8]}-{secrets.token_hex(6)}"
        marks = era_spec.labels(request_id, self._control)
        network = f"container:{self._chain.relay}" if self._chain else "none"
        host = era_spec.host_config(self._api, self._job, work, network=network, runtime=self._runtime)
        try:
            self._container = era_spec.create(self._api, self._job, host, marks, name)
        except engine.FAULTS as error:
            # The engine may have made it and not said so: its name is ours alone.
            self._api.timeout = _SHORT_SECONDS  # type: ignore[assignment]
            engine.remove_container(self._api, name)
            raise Unavailable(f"the container could not be created ({engine.reason(error)})") from None

    def execute(self) -> None:
        """Start, read the walls back, give the go, watch until the end."""
        try:
            connection = self._attach()
        except engine.FAULTS as error:
            self._ended = (
                "interrupted",
                f"The engine did not connect the container ({engine.reason(error)}).",
            )
            return
        with connection:
            try:
                self._api.start(self._container)
                state = self._api.inspect_container(self._container)
            except docker.errors.APIError as error:
                self._ended = ("failed", f"The container could not be started ({engine.reason(error)}).")
                return
            except engine.FAULTS as error:
                self._ended = (
                    "interrupted",
                    f"The engine gave no clear answer to the start ({engine.reason(error)}).",
                )
                return
            self._guarded(state, connection)

    def _guarded(self, state: dict[str, Any], connection: socket.socket) -> None:
        relay = self._chain.relay_pid if self._chain else None
        try:
            self._walls = read_back(self._job, state, self._out, relay_pid=relay, runtime=self._runtime)
            self._watch = Watch(self._job.limits, self._control, int(state["State"]["Pid"]), connection)
        except (OSError, ValueError, KeyError, StopIteration) as error:
            self._ended = ("failed", f"limits_not_enforced: the walls could not be read back ({error}).")
            return
        if self._walls.differences:
            self._ended = ("failed", f"limits_not_enforced: {'; '.join(self._walls.differences)}.")
            return
        self._started = datetime.now(UTC)
        try:
            self._watch.run()
        finally:
            self._finished = datetime.now(UTC)

    def settle(self) -> None:
        """Make sure that nothing runs any more, and ask the engine how it ended."""
        if self._watch is not None:
            self._watch.kill()
        # The process is dead by our own hand: an engine that hangs now is not waited for longer than this.
        self._api.timeout = _GONE_SECONDS
        end = time.monotonic() + _GONE_SECONDS
        while True:
            try:
                state = self._api.inspect_container(self._container)["State"]
            except engine.FAULTS:
                state = None
                self._api.timeout = _SHORT_SECONDS  # type: ignore[assignment]
            if state is not None and not state["Running"]:
                self._state = state
                return
            if time.monotonic() >= end:
                return
            if state is not None and self._watch is None:
                with suppress(*engine.FAULTS):
                    self._api.kill(self._container)
            time.sleep(0.01 if state is not None else 0.25)

    def remove(self) -> None:
        """Remove the container, and say when the engine could not; the second time does nothing."""
        container, self._container = self._container, ""
        if self._watch is not None:
            self._watch.close()
        if container and not engine.remove_container(self._api, container):
            self._notes.append("The engine did not remove the container; the next start of the daemon does.")

    def outcome(self, target: Path) -> Outcome:
        """Collect /out and say how it ended."""
        full = self._out.full()
        collected = collect(self._out.path, target, self._job.limits)
        status, detail, exit_code = self._verdict(full or collected.exceeded)
        destinations = self._reached()
        watch = self._watch
        return replace(
            nothing_ran(detail),
            status=status,
            exit_code=exit_code,
            started=self._started,
            finished=self._finished,
            wall_ms=watch.wall_ms if watch else 0,
            cpu_ms=watch.cpu_ms if watch else None,
            peak_memory_bytes=watch.peak if watch else None,
            effective_limits=self._walls.effective,
            stdout=watch.streams.out.result() if watch else EMPTY,
            stderr=watch.streams.err.result() if watch else EMPTY,
            artifacts=tuple(collected.artifacts),
            dropped=tuple(collected.dropped),
            destinations=destinations,
            image=self._job.image,
            runtime=self._runtime,
            notes=tuple(self._notes),
            # The log has the status and not the Retry-After: the contract's longest delay holds.
            retry_after_sec=limits.RETRY_UNKNOWN_SECONDS if any(item.busy for item in destinations) else None,
        )

    def _reached(self) -> tuple[Destination, ...]:
        if self._chain is None:
            return ()
        if not self._chain.alive():
            self._notes.append(
                "The way out ended before the run did; what it would have reached was refused."
            )
        destinations = self._chain.destinations()
        self._notes += self._chain.notes
        self._walls.effective["network"] = (
            f"lo, and through a proxy of its own: {' '.join(self._job.network)}"
        )
        return destinations

    def _attach(self) -> socket.socket:
        parameters = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        stream = self._api.attach_socket(self._container, params=parameters)
        raw = getattr(stream, "_sock", stream)
        # A descriptor of our own: the client's response object may close its one when it is collected.
        return socket.socket(fileno=os.dup(raw.fileno()))

    def _verdict(self, full: str | None) -> tuple[Status, str, int | None]:
        """Status, one sentence, exit code."""
        bounds = self._job.limits
        ended = self._ended or (self._watch.ended if self._watch else None)
        if ended is not None and ended[0] != "timed_out":
            return (*ended, None)
        state = self._state
        if self._watch is None or (ended is None and (state is None or self._watch.lost)):
            return "interrupted", "The container engine went away while it ran.", None
        code = int(state["ExitCode"]) if state is not None and ended is None else None
        if state is not None and state["OOMKilled"]:
            return (
                "out_of_memory",
                f"out_of_memory: the memory limit of {bounds.memory_mb} MiB was reached.",
                code,
            )
        if self._watch.refused_forks:
            return (
                "process_limit",
                f"process_limit: more than {bounds.processes} processes were wanted.",
                code,
            )
        if ended is not None:
            return (*ended, None)
        if code == 137 and self._watch.wall_ms >= bounds.time_sec * 1000:
            return "timed_out", f"timed_out: the time limit of {bounds.time_sec} s was reached.", code
        if code == 0:
            return "succeeded", "The command ended with exit code 0.", 0
        if full is not None:
            return "output_exceeded", f"output_exceeded: {full}.", code
        return "failed", f"The command ended with exit code {code}.", code
