"""Gate 3a, the AANA Agent Action Contract v1 (docs/spec/3-aana.md): should this tool call run now?

``check_tool_call`` is pure: it decides from the event and an explicit ``now``. Everything else here carries an
event to it (bytes, guarded functions, framework tools) or its decision away (audit-safe events, the log).
Never imports `approval` or `contracts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from threegate.aana.adapters import guard_langchain_tool, guard_mcp_handler, guard_openai_tool
from threegate.aana.decision import check_tool_call, gate_action, is_identity_bound, should_execute_tool
from threegate.aana.decision_log import DecisionLog, Summary, audit_event, summarise
from threegate.aana.event import EvidenceMode, tool_evidence_ref, tool_precheck_event, validate_event
from threegate.aana.evidence import arguments_sha256
from threegate.aana.guard import Gate, ToolCallBlocked, check_bytes, checked, guard

if TYPE_CHECKING:
    from threegate.aana.mcp_tool import AANA_PRE_TOOL_CHECK_TOOL, handle_aana_pre_tool_check
    from threegate.aana.schema import event_schema
else:

    def __getattr__(name: str) -> Any:
        """What needs models is loaded at its first use: a process that only decides saves 90 ms of processor time."""
        if name == "event_schema":
            from threegate.aana.schema import event_schema

            return event_schema
        if name in ("AANA_PRE_TOOL_CHECK_TOOL", "handle_aana_pre_tool_check"):
            from threegate.aana import mcp_tool

            return getattr(mcp_tool, name)
        raise AttributeError(f"module {__name__} has no attribute {name}")


__all__ = [
    "AANA_PRE_TOOL_CHECK_TOOL",
    "DecisionLog",
    "EvidenceMode",
    "Gate",
    "Summary",
    "ToolCallBlocked",
    "arguments_sha256",
    "audit_event",
    "check_bytes",
    "check_tool_call",
    "checked",
    "event_schema",
    "gate_action",
    "guard",
    "guard_langchain_tool",
    "guard_mcp_handler",
    "guard_openai_tool",
    "handle_aana_pre_tool_check",
    "is_identity_bound",
    "should_execute_tool",
    "summarise",
    "tool_evidence_ref",
    "tool_precheck_event",
    "validate_event",
]
