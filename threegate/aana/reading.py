"""From the bytes of one event to its decision: what cannot be read is refused like any malformed event."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from threegate.aana.decision_log import DecisionLog, Surface
from threegate.aana.envelope import malformed
from threegate.aana.event import EvidenceMode
from threegate.aana.guard import checked
from threegate.core import canonical, limits


def check_bytes(
    data: bytes,
    *,
    now: datetime,
    evidence_mode: EvidenceMode = "quickstart",
    log: DecisionLog | None = None,
    surface: Surface = "api",
) -> dict[str, Any]:
    """The envelope for an event as JSON bytes (strict UTF-8 JSON, at most 64 KiB). Raises OSError for the log only."""
    try:
        event = canonical.loads_strict(
            data, max_bytes=limits.AANA_EVENT_BYTES, max_depth=limits.AANA_EVENT_DEPTH
        )
    except canonical.StrictJSONError as error:
        result = malformed(None, [{"path": "", "message": f"cannot be read as JSON: {error} (D10)"}])
        if log is not None:
            log.record(None, result, surface=surface, now=now)
        return result
    return checked(event, now=now, evidence_mode=evidence_mode, log=log, surface=surface)
