"""The contract's MCP tool without an MCP package: its descriptor, and its answer to any arguments.

Invariant: arguments of any kind get a decision, never an error, and none of their values is repeated; a
decision that could not be recorded is a refusal.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final

from threegate.aana.decision import unrecorded
from threegate.aana.decision_log import DecisionLog, Surface
from threegate.aana.event import EvidenceMode
from threegate.aana.guard import checked
from threegate.aana.schema import event_part

AANA_PRE_TOOL_CHECK_TOOL: Final[dict[str, Any]] = {
    "name": "aana_pre_tool_check",
    "description": (
        "Decide on a proposed tool call (AANA Agent Action Contract v1) before it runs. Run the original tool "
        "only when route is accept and hard_blockers is empty."
    ),
    "inputSchema": event_part(),
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}
"""The tool as ``tools/list`` shows it."""


def handle_aana_pre_tool_check(
    arguments: Any,
    *,
    now: datetime | None = None,
    evidence_mode: EvidenceMode = "quickstart",
    log: DecisionLog | None = None,
    surface: Surface = "api",
) -> dict[str, Any]:
    """The answer of ``tools/call``: the envelope as `structuredContent`, and as JSON text. Never raises."""
    try:
        result = checked(arguments, now=now, evidence_mode=evidence_mode, log=log, surface=surface)
    except OSError:
        result = unrecorded()
    return {
        "content": [{"type": "text", "text": json.dumps(result)}],
        "structuredContent": result,
        "isError": False,
    }
