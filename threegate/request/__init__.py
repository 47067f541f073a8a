"""Gate 1: is the request well-formed, minimal, and harmless in shape?

`read_request` is the whole gate: bytes in, a `Report` out, with a `Request` in it when no rule found an error.
"""

from __future__ import annotations

from threegate.request.front_matter_keys import DefaultSettings, GateSettings
from threegate.request.model import Request, Stage
from threegate.request.problem import Problem
from threegate.request.reader import read_request, refuse_unread, stage_of
from threegate.request.report import Finding, Fix, Report
from threegate.request.rules import RULES, Rule

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
