"""Gate 1: is the request well-formed, minimal, and harmless in shape?

`read_request` is the whole gate: it takes bytes and returns a `Report`, which has a `Request` if no rule
found an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.core.on_demand import on_demand
from threegate.request.model import Request, Stage

if TYPE_CHECKING:
    from threegate.request.problem import Problem
    from threegate.request.reader import read_request, refuse_unread, stage_of
    from threegate.request.report import Finding, Fix, Report
    from threegate.request.rules import RULES, Rule
else:  # commands that only look at folders need the model and not the reader with its parsers
    __getattr__ = on_demand(
        __name__,
        {
            "problem": "Problem",
            "reader": "read_request refuse_unread stage_of",
            "report": "Finding Fix Report",
            "rules": "RULES Rule",
        },
    )

__all__ = [
    "RULES",
    "Finding",
    "Fix",
    "Problem",
    "Report",
    "Request",
    "Rule",
    "Stage",
    "read_request",
    "refuse_unread",
    "stage_of",
]
