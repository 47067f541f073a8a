"""The workers as the machine where jobs run: what they were last reported to have, and what none of them ever will.

Invariant: an answer names a limit that no amount of waiting changes; if it is unknown (a worker that has not
reported), there is none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from threegate.core import durable, limits
from threegate.core.settings import Settings
from threegate.plugins.cluster.section import ClusterSettings
from threegate.request.backend import BACKENDS
from threegate.runners.machine import NEVER, Budget, Machine, Need

if TYPE_CHECKING:
    from threegate.core.workspace import Workspace
    from threegate.plugins.cluster.runner import ClusterRunner
    from threegate.request.model import Request
    from threegate.runners.interface import Runner


def never_fits(workspace: Workspace, settings: Settings, request: Request) -> str | None:
    """One line that says why this request could never run on a worker, or None. The largest worker counts."""
    need = Need.of(request.backend, request.cpu_limit, request.memory_limit_mb)
    sizes = [(Decimal(row["cores"]), row["memory_mb"]) for row in worker_lines(workspace) or ()]
    sizes = [size for size in sizes if size[0] > 0]  # the others have not reported yet
    if len(sizes) < len(settings.section(ClusterSettings).workers) or any(
        need.cpus <= cores and need.memory_mb <= memory for cores, memory in sizes
    ):
        return None
    told = ", ".join(f"{cores} cores and {memory} MiB" for cores, memory in sizes)
    return f"{NEVER} needs {need.cpus} cores and {need.memory_mb} MiB on one worker, but the workers have {told}"


def workers_file(workspace: Workspace) -> Path:
    """What a daemon with a cluster knows of its workers, while it runs; derived, for `threegate status`."""
    return workspace.control / "workers.json"


def worker_lines(workspace: Workspace) -> list[dict[str, Any]] | None:
    """What the running daemon last wrote of its workers; None without a cluster, or without a daemon."""
    try:
        data = durable.read_regular(workers_file(workspace), max_bytes=limits.WORKERS_FILE_BYTES)
        value = json.loads(data)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, list) else None


def _runners(workspace: Workspace, settings: Settings, boot: str, say: Callable[[str], None]) -> Mapping[str, Runner]:
    """One runner for every backend."""
    from threegate.plugins.cluster.runner import ClusterRunner  # imported here: it loads Celery
    from threegate.trail.workspace_key import load_key

    runner = ClusterRunner(
        workspace,
        settings.section(ClusterSettings),
        load_key(settings.workspace.id),
        boot=boot,
        told_file=workers_file(workspace),
        say=say,
    )
    return dict.fromkeys(BACKENDS, runner)


def _budget(settings: Settings, runners: Mapping[str, Runner]) -> Budget:
    return cast("ClusterRunner", next(iter(runners.values()))).budget


MACHINE = Machine(
    is_used=lambda settings: bool(settings.section(ClusterSettings).broker),
    runners=_runners,
    budget=_budget,
    threads=lambda settings: settings.section(ClusterSettings).slots,
    never_fits=never_fits,
    workers=worker_lines,
)
