"""Gate 3a, the AANA Agent Action Contract v1 (spec 3, seed 001): should this tool call run now?

Pure: every function decides from its arguments and an explicit `now`. Never imports `approval` or `contracts`.
"""

from __future__ import annotations

from threegate.aana.decision import check_tool_call, gate_action, should_execute_tool
from threegate.aana.event import EvidenceMode, tool_evidence_ref, tool_precheck_event, validate_event

__all__ = [
    "EvidenceMode",
    "check_tool_call",
    "gate_action",
    "should_execute_tool",
    "tool_evidence_ref",
    "tool_precheck_event",
    "validate_event",
]
