"""The way of a run in bubblewrap to its allowed hosts: a listener on 127.0.0.1:3128 in its network namespace."""

from __future__ import annotations

from typing import Protocol

from threegate.core.errors import Unavailable
from threegate.request.job import Job
from threegate.runners.interface import Control, Destination

NEEDS_ENGINE = "network: allowlist needs a container engine here; bubblewrap runs requests without network only"


class JailedEgress(Protocol):
    """What serves one run."""

    notes: list[str]

    def destinations(self) -> tuple[Destination, ...]:
        """What was reached and what was refused. Called at the end of the run."""

    def alive(self) -> bool:
        """Whether it still serves."""

    def close(self) -> None:
        """End it."""


def egress_missing() -> str | None:
    """One line if a run in bubblewrap cannot have a network here; else None."""
    return NEEDS_ENGINE


def open_egress(pid: int, job: Job, control: Control) -> JailedEgress:
    """Serve the run whose waiting process has this number. Raises Unavailable."""
    raise Unavailable(NEEDS_ENGINE)
