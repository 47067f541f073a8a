"""The workers as last reported to the daemon, and whether one of our machines can ever run a request.

Invariant: an answer names a limit that no amount of waiting changes; if it is unknown (a worker that has not
reported), there is none.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from threegate.core import durable, limits

if TYPE_CHECKING:
    from threegate.core.settings import RunnersSettings
    from threegate.core.workspace import Workspace
    from threegate.request.model import Request

_NEVER = "it could never run here: it"


def never_fits(workspace: Workspace, settings: RunnersSettings, request: Request) -> str | None:
    """One line that says why this request could never run here, or None. In a cluster the largest worker counts."""
    from threegate.runners.budget import Budget, Need

    need = Need.of(request.backend, request.cpu_limit, request.memory_limit_mb)
    if not settings.cluster.broker:
        too_large = Budget.of(settings).too_large(need)
        return too_large and f"{_NEVER} {too_large}"
    sizes = [(Decimal(row["cores"]), row["memory_mb"]) for row in worker_lines(workspace) or ()]
    sizes = [size for size in sizes if size[0] > 0]  # the others have not reported yet
    if len(sizes) < len(settings.cluster.workers) or any(
        need.cpus <= cores and need.memory_mb <= memory for cores, memory in sizes
    ):
        return None
    told = ", ".join(f"{cores} cores and {memory} MiB" for cores, memory in sizes)
    return f"{_NEVER} needs {need.cpus} cores and {need.memory_mb} MiB on one worker, but the workers have {told}"


def worker_lines(workspace: Workspace) -> list[dict[str, Any]] | None:
    """What the running daemon last wrote of its workers; None without a cluster, or without a daemon."""
    try:
        data = durable.read_regular(workspace.workers_file, max_bytes=limits.WORKERS_FILE_BYTES)
        value = json.loads(data)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, list) else None
