"""Makes the call of a cleared mcp request.

Invariant: nothing is called twice, and nothing that was not cleared.
"""

from __future__ import annotations

from threegate.judgement.judge import Clearance
from threegate.request.job import Job
from threegate.runners.interface import Control, Outcome


class CallRunner:
    """Runs jobs of backend mcp."""

    starts_late = False

    def available(self, job: Job | None = None) -> str | None:
        """This version cannot start a server."""
        return None if job is None else "this version cannot call tools yet"

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        """Never reached: `available` lets nothing start."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is started ahead."""
