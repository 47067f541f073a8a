"""Where cleared jobs run. A runner knows no gate: it takes a Clearance and a Job and gives an Outcome."""

from __future__ import annotations

import importlib

from threegate.runners.budget import Budget, Lease
from threegate.runners.era.seccomp import SECCOMP_SHA256
from threegate.runners.interface import (
    Artifact,
    Control,
    Destination,
    Outcome,
    Runner,
    Status,
    Stream,
)

__all__ = [
    "SECCOMP_SHA256",
    "Artifact",
    "Budget",
    "Control",
    "Destination",
    "EraRunner",
    "Lease",
    "MontyRunner",
    "Outcome",
    "Runner",
    "Status",
    "Stream",
    "remove_orphans",
]

_LAZY = {
    "MontyRunner": "threegate.runners.monty.runner",
    "EraRunner": "threegate.runners.era.runner",
    "remove_orphans": "threegate.runners.era.orphans",
}


def __getattr__(name: str) -> object:
    """Load a runner when it is asked for: docker and monty are heavy imports."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
