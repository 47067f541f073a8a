"""Gate 1: is the request well-formed, minimal, and harmless in shape?

`read_request` is the whole gate: bytes in, a `Report` out, with a `Request` in it when no rule found an error.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from threegate.request.model import Request, Stage

if TYPE_CHECKING:
    from threegate.request.front_matter_keys import DefaultSettings, GateSettings
    from threegate.request.problem import Problem
    from threegate.request.reader import read_request, refuse_unread, stage_of
    from threegate.request.report import Finding, Fix, Report
    from threegate.request.rules import RULES, Rule

_LOADED_WHEN_ASKED = {
    **dict.fromkeys(("DefaultSettings", "GateSettings"), "front_matter_keys"),
    "Problem": "problem",
    **dict.fromkeys(("read_request", "refuse_unread", "stage_of"), "reader"),
    **dict.fromkeys(("Finding", "Fix", "Report"), "report"),
    **dict.fromkeys(("RULES", "Rule"), "rules"),
}
"""Commands that only look at folders need the model and not the reader with its parsers."""

__all__ = [
    "RULES",
    "DefaultSettings",
    "Finding",
    "Fix",
    "GateSettings",
    "Problem",
    "Report",
    "Request",
    "Rule",
    "Stage",
    "read_request",
    "refuse_unread",
    "stage_of",
]


def __getattr__(name: str) -> Any:
    """What another module of the gate gives, loaded at its first use (PEP 562)."""
    if name not in _LOADED_WHEN_ASKED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LOADED_WHEN_ASKED[name]}"), name)
