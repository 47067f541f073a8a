"""One container's run: created, read back, started, watched, collected, removed.

Invariant: no byte of the request's code runs before every restriction was read back. /out is collected while only PID 1
is still alive and is paused; the container is removed before the answer.
"""

from __future__ import annotations

import secrets
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
import docker.errors

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.request.job import Job
from threegate.runners.egress.proxy_chain import EgressChain
from threegate.runners.era import container_engine, keeper, spec
from threegate.runners.era.container_stream import attach, greeting
from threegate.runners.era.container_watch import ContainerWatch
from threegate.runners.era.out_archive import collect_archive
from threegate.runners.era.readback import read_back
from threegate.runners.era.walls import Walls
from threegate.runners.interface import (
    EMPTY,
    Control,
    Destination,
    Ended,
    Outcome,
    Status,
    command_ended,
    out_of_memory,
    process_limit,
    timed_out,
    unheard,
)
from threegate.runners.staging import Collected, fresh_folder

GONE_SECONDS = 4
_SHORT_SECONDS = 1.5
"""How long to wait for an engine after it left one query unanswered."""


class EraRun:
    """One container, from its creation to the outcome."""

    def __init__(
        self,
        api: docker.APIClient,
        job: Job,
        control: Control,
        work: Path,
        runtime: str,
        chain: EgressChain | None,
        *,
        require_readback: bool,
    ) -> None:
        self._chain = chain
        self._require_readback = require_readback
        self._api = api
        self._job = job
        self._control = control
        self._work = work
        self._runtime = runtime
        self._container = ""
        self._connection: socket.socket | None = None
        self._watch: ContainerWatch | None = None
        self._walls = Walls()
        self._state: dict[str, Any] | None = None
        self._ended: Ended | None = None
        self._collected = Collected()
        self._notes: list[str] = []
        # Timeout for all answers before the start together, so that slow answers do not add up.
        self._patience = time.monotonic() + container_engine.ANSWER_SECONDS
        self._silent = False

    def create(self, request_id: str) -> None:
        """Create the container. Raises Unavailable: without a container, nothing can have run."""
        name = f"threegate-{self._control.boot_nonce[:8]}-{secrets.token_hex(6)}"
        marks = spec.labels(request_id, self._control)
        network = f"container:{self._chain.relay}" if self._chain else "none"
        bounds = self._job.limits
        host = spec.host_config(
            self._api, bounds, self._work / "in", network=network, runtime=self._runtime, marks=marks
        )
        try:
            self._hurry()
            self._container = spec.create(self._api, self._job.image, host, marks, name)
        except container_engine.FAULTS as error:
            # The engine may have created it without answering; only we use its name.
            self._wait_for(_SHORT_SECONDS)
            container_engine.remove_container(self._api, name)
            raise Unavailable(f"the container could not be created ({container_engine.reason(error)})") from None

    def execute(self) -> None:
        """Start it, read the restrictions back, start the command, watch until the end."""
        try:
            self._hurry()
            connection = attach(self._api, self._container)
        except container_engine.FAULTS as error:
            self._silent = True
            self._ended = (
                "interrupted",
                f"The engine did not connect the container ({container_engine.reason(error)}).",
            )
            return
        # Open until the container is removed: at the end of its input, PID 1 exits, and /out disappears with
        # it.
        self._connection = connection
        try:
            self._hurry()
            self._api.start(self._container)
            self._hurry()
            state = self._api.inspect_container(self._container)
        except docker.errors.APIError as error:
            self._ended = ("failed", f"The container could not be started ({container_engine.reason(error)}).")
            return
        except container_engine.FAULTS as error:
            self._silent = True
            self._ended = (
                "interrupted",
                f"The engine gave no clear answer to the start ({container_engine.reason(error)}).",
            )
            return
        self._guarded(state, connection)

    def _hurry(self) -> None:
        """Wait for the next answer, up to the timeout for all of them."""
        self._wait_for(max(self._patience - time.monotonic(), _SHORT_SECONDS))

    def _wait_for(self, seconds: float) -> None:
        self._api.timeout = seconds  # type: ignore[assignment]

    def _guarded(self, state: dict[str, Any], connection: socket.socket) -> None:
        relay = (self._chain.relay, self._chain.relay_pid) if self._chain else None
        walls = self._walls
        try:
            said = greeting(connection)
            read_back(walls, self._job, state, said, self._work / "in", relay=relay, runtime=self._runtime)
            self._watch = ContainerWatch(
                self._job,
                self._control,
                int(state["State"]["Pid"]),
                connection,
                init_can_be_stopped=self._runtime == "runsc",
            )
        except (OSError, ValueError, KeyError, StopIteration) as error:
            self._ended = ("failed", f"limits_not_enforced: the limits could not be read back ({error}).")
            return
        problems = walls.differences
        if walls.unread and self._require_readback:
            problems = [*problems, f"not read back: {', '.join(walls.unread)} (runners.era.require_readback)"]
        if problems:
            self._ended = ("failed", f"limits_not_enforced: {'; '.join(problems)}.")
            return
        if (late := self._control.lease_over()) is not None:
            self._ended = ("interrupted", late)
            return
        self._watch.run()

    def settle(self) -> None:
        """If PID 1 did not report how the run ended: ensure that nothing is running any more, and ask the engine."""
        if self._watch is None or self._watch.streams.closing is not None:
            return
        self._watch.kill()
        # Do not wait longer than this for an engine that hangs; PID 1's own deadline applies.
        patience = _SHORT_SECONDS if self._silent else GONE_SECONDS
        self._wait_for(patience)
        end = time.monotonic() + patience
        while True:
            try:
                state = self._api.inspect_container(self._container)["State"]
            except container_engine.FAULTS:
                state = None
                self._wait_for(_SHORT_SECONDS)
            if state is not None and not state["Running"]:
                self._state = state
                return
            if time.monotonic() >= end:
                if not self._watch.gone():
                    left = f"its time limit of {self._job.limits.time_sec} s"
                    self._notes.append(f"Only the engine could have stopped it: it may run until {left}.")
                return
            if state is not None:
                with suppress(*container_engine.FAULTS):
                    self._api.kill(self._container)
            time.sleep(0.01 if state is not None else 0.25)

    def collect(self, target: Path) -> None:
        """Copy what the run left in /out into the new folder `target`. Raises OSError of our own disk."""
        closing = self._watch.streams.closing if self._watch is not None else None
        if self._watch is None or closing is None or not closing.names:
            with fresh_folder(target):
                return
        try:
            self._wait_for(GONE_SECONDS)
            self._api.pause(self._container)
            # gVisor's own processes are in the cgroup as well; for it, and if the cgroup cannot be read, rely
            # on PID 1's report.
            if self._runtime != "runsc" and self._watch.alone() is False:
                raise ValueError("something else is running in the container")
            self._collected = collect_archive(
                self._api, self._container, closing.names, self._work, target, self._job.limits
            )
        except (*container_engine.FAULTS, ValueError) as error:
            self._ended = (
                "failed",
                f"outputs_not_collected: /out could not be read ({container_engine.reason(error)}).",
            )

    def remove(self) -> None:
        """Remove the container, and report if the engine could not; the second call does nothing."""
        container, self._container = self._container, ""
        if self._watch is not None:
            self._watch.close()
        if self._connection is not None:
            self._connection.close()
        if container and not container_engine.remove_container(self._api, container):
            self._notes.append("The engine did not remove the container; the next start of the daemon does.")

    def outcome(self) -> Outcome:
        """The outcome of the run."""
        collected = self._collected
        status, detail, exit_code = self._verdict(self._full() or collected.exceeded)
        destinations = self._reached()
        watch = self._watch
        return Outcome(
            status=status,
            detail=detail,
            exit_code=exit_code,
            wall_ms=watch.wall_ms if watch else 0,
            cpu_ms=watch.cpu_ms if watch else None,
            peak_memory_bytes=watch.peak if watch else None,
            effective_limits=self._walls.effective,
            stdout=watch.streams.out.meter.result() if watch else EMPTY,
            stderr=watch.streams.err.meter.result() if watch else EMPTY,
            artifacts=tuple(collected.artifacts),
            dropped=tuple(collected.dropped),
            destinations=destinations,
            image=self._job.image,
            runtime=self._runtime,
            notes=tuple(self._notes),
            # The log has the status but no Retry-After: the contract's longest delay applies.
            retry_after_sec=limits.RETRY_UNKNOWN_SECONDS if any(item.busy for item in destinations) else None,
        )

    def _reached(self) -> tuple[Destination, ...]:
        if self._chain is None:
            return ()
        if not self._chain.alive():
            self._notes.append("The proxy ended before the run did; later connections were refused.")
        destinations = self._chain.destinations()
        self._notes += self._chain.notes
        self._walls.effective["network"] = f"lo, and through its own proxy: {' '.join(self._job.network)}"
        return destinations

    def _full(self) -> str | None:
        """Which limit of /out was reached at the end, or None."""
        closing = self._watch.streams.closing if self._watch else None
        if closing is None or closing.free:
            return None
        bounds = self._job.limits
        if closing.names >= bounds.out_files:
            return f"/out holds {bounds.out_files} names, its limit"
        return f"/out holds {bounds.out_bytes} bytes, its limit"

    def _verdict(self, full: str | None) -> tuple[Status, str, int | None]:
        """Status, one sentence, exit code."""
        bounds, watch = self._job.limits, self._watch
        # First: after it stood still, the watch may have found a reason of its own, too late.
        if self._state is not None and self._state["ExitCode"] == keeper.UNHEARD:
            return "interrupted", unheard(self._control.lease_sec or 0), None
        if watch is not None and (over := watch.unheard()) is not None:
            return "interrupted", over, None
        ended = self._ended or (watch.ended if watch else None)
        # Memory and processes come before the time limit (docs/spec/6-runners.md, Outcome), so that one waits.
        if ended is not None and ended[0] != "timed_out":
            return (*ended, None)
        closing, state = (watch.streams.closing if watch else None), self._state
        if watch is None or (ended is None and closing is None and (state is None or watch.lost)):
            return "interrupted", "The container engine went away while it ran.", None
        code = None
        if ended is None:
            code = closing.exit_code if closing else int((state or {})["ExitCode"])
        if watch.out_of_memory or (state is not None and state["OOMKilled"]):
            return (*out_of_memory(bounds), code)
        if watch.refused_forks:
            return (*process_limit(bounds), code)
        if ended is not None:
            return (*ended, None)
        # The keeper's own deadline, which comes first only when our watch is late.
        if code == 137 and watch.wall_ms >= bounds.time_sec * 1000:
            return (*timed_out(bounds), code)
        if closing is None:
            return "failed", "outputs_not_collected: PID 1 was killed, and /out with it.", code
        if full is not None:  # even with exit code 0: a program may have ignored a failed write
            return "output_exceeded", f"output_exceeded: {full}.", code
        return (*command_ended(closing.exit_code), closing.exit_code)
