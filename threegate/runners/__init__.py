"""Where cleared jobs run. A runner knows no gate: it takes a Clearance and a Job and gives an Outcome."""

from __future__ import annotations

from threegate.runners.interface import (
    Artifact,
    Control,
    Destination,
    Outcome,
    Runner,
    Status,
    Stream,
)

__all__ = ["Artifact", "Control", "Destination", "MontyRunner", "Outcome", "Runner", "Status", "Stream"]


def __getattr__(name: str) -> object:
    """Load a runner when it is asked for: docker and monty are heavy imports."""
    if name == "MontyRunner":
        from threegate.runners.monty import MontyRunner

        return MontyRunner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
