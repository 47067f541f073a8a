"""Opens the host of a cleared request: the launcher of the run reads the claim in the trail, and says when its proxy
lets the host through.

Invariant: nothing is sent to the launcher. It opens what the trail names, and closes it again if this request does not
end as `succeeded`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from threegate.core import limits
from threegate.plugins.agents.reach.asked_hosts import read_open_hosts
from threegate.plugins.agents.reach.host_action import PORT, BoundHostAccess
from threegate.request.job import Job
from threegate.runners.interface import EMPTY, Control, Outcome, Status, StreamMeter

if TYPE_CHECKING:
    from threegate.judgement.judge import Clearance

_LOOK_SECONDS: Final = 0.02


class ReachRunner:
    """Runs jobs of backend reach."""

    starts_late = False

    def available(self, job: Job | None = None) -> str | None:
        """None: for a run that has ended there is nothing to wait for."""
        return None

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        """Wait until the run's proxy lets the host through; see Runner.run."""
        clearance.must_cover(job)
        assert isinstance(job.action, BoundHostAccess) and control.workspace is not None
        begun = time.monotonic()
        host, run = job.action.host, control.workspace.agent_run(job.action.run)
        status, detail = self._wait(lambda: host in read_open_hosts(run), control)
        meter = StreamMeter()
        if status == "succeeded":
            meter.write(f"{host}:{PORT} is open for this run; connect through the proxy in HTTPS_PROXY\n".encode())
        control.ran()
        return Outcome(
            status=status,
            detail=detail,
            wall_ms=int((time.monotonic() - begun) * 1000),
            stdout=meter.result(),
            stderr=EMPTY,
        )

    def close(self) -> None:
        """Nothing is started ahead."""

    def _wait(self, is_open: Callable[[], bool], control: Control) -> tuple[Status, str]:
        until = time.monotonic() + limits.AGENT_HOST_OPEN_SECONDS
        while not is_open():
            if control.cancelled.wait(_LOOK_SECONDS) or control.interrupted.is_set():
                return "cancelled", "It was stopped before the host was open; nothing is open."
            if control.run_ended():
                return "unavailable", "Its run has ended; nothing was opened."
            if time.monotonic() > until:
                return "unavailable", "The launcher of its run did not open it in time; nothing is open."
        return "succeeded", "The host is open until the run ends, or somebody closes it."
