"""The workers as the machine where jobs run: what they were last reported to have, and what none of them ever will.

Invariant: an answer names a limit that no amount of waiting changes; if it is unknown (a worker that has not
reported), there is none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

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

NO_DAEMON: Final = "the daemon does not run"
_UNHEARD: Final = {
    "machine": "", "live": False, "reason": "no report yet", "heard_utc": None, "version": "", "operators_sha256": "",
    "certificate_end": 0, "running": [],
}  # fmt: skip
"""The row of a worker that no daemon here has heard of."""


def never_fits(workspace: Workspace, settings: Settings, request: Request) -> str | None:
    """One line that says why this request could never run on a worker, or None. The largest worker counts."""
    need = Need.of(request.backend, request.cpu_limit, request.memory_limit_mb)
    known = {row.get("worker"): row for row in worker_rows(workspace)}
    sizes = []
    for name in _enrolled(settings):
        row = known.get(name)
        cores, memory = (Decimal(row["cores"]), row["memory_mb"]) if row is not None else (Decimal(0), 0)
        if not cores or (need.cpus <= cores and need.memory_mb <= memory):
            return None  # it has not reported yet, or could run it
        sizes.append((cores, memory))
    told = ", ".join(f"{cores} cores and {memory} MiB" for cores, memory in sizes)
    return f"{NEVER} needs {need.cpus} cores and {need.memory_mb} MiB on one worker, but the workers have {told}"


def _enrolled(settings: Settings) -> list[str]:
    """The names of the workers in threegate.toml."""
    return [key.partition("+")[0] for key in settings.section(ClusterSettings).workers]


def workers_file(workspace: Workspace) -> Path:
    """What a daemon with a cluster last heard of its workers; derived, for `threegate status`."""
    return workspace.control / "workers.json"


def worker_rows(workspace: Workspace) -> list[dict[str, Any]]:
    """What a daemon last wrote of its workers, however long ago; none if that cannot be read."""
    try:
        value = json.loads(durable.read_regular(workers_file(workspace), max_bytes=limits.WORKERS_FILE_BYTES))
    except (OSError, ValueError):
        return []
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def worker_lines(workspace: Workspace, settings: Settings) -> list[dict[str, Any]]:
    """Every enrolled worker, as a daemon last heard of it: `live` only if it runs now and heard of it just now."""
    from threegate.launch.launch_problem import read_operators  # late: most commands ask for no worker
    from threegate.plugins.cluster.notes import operators_digest

    known = {row.get("worker"): row for row in worker_rows(workspace)}
    ours, runs, now = operators_digest(read_operators(workspace)), workspace.daemon_lock_held(), datetime.now(UTC)
    lines = []
    for name in _enrolled(settings):
        row = {**_UNHEARD, "worker": name, **known.get(name, {})}
        reason = NO_DAEMON if not runs else _silence(row, now)
        if reason:
            row |= {"live": False, "reason": reason, "running": []}
        if row["operators_sha256"]:
            row["operators"] = "same" if row["operators_sha256"] == ours else "other"
        lines.append(row)
    return lines


def _silence(row: Mapping[str, Any], now: datetime) -> str:
    """Why a worker does not count as live although the file says so: nobody has written it since then."""
    from threegate.approval.statement import parse_utc

    if not row["live"]:
        return ""
    heard = row["heard_utc"] and parse_utc(row["heard_utc"])
    most = timedelta(seconds=limits.CLUSTER_LIVE_SECONDS + 2 * limits.CLUSTER_BEAT_SECONDS)
    return "" if heard and timedelta() <= now - heard <= most else "the daemon has written nothing since then"


def _runners(workspace: Workspace, settings: Settings, boot: str, say: Callable[[str], None]) -> Mapping[str, Runner]:
    """One runner for every backend."""
    from threegate.plugins.cluster.notes import Rules
    from threegate.plugins.cluster.runner import ClusterRunner  # imported here: it loads Celery's libraries
    from threegate.trail.workspace_key import load_key

    runner = ClusterRunner(
        workspace,
        settings.section(ClusterSettings),
        load_key(settings.workspace.id),
        Rules.of(settings),
        boot=boot,
        told_file=workers_file(workspace),
        say=say,
    )
    runner.ledger.remember(worker_rows(workspace))
    runner.begin()
    return dict.fromkeys(BACKENDS, runner)


def _copies(workspace: Workspace, settings: Settings) -> list[str]:
    here, names = workspace.operators_file, ", ".join(_enrolled(settings))
    return [
        f"workers judge by files of their own ({names or 'none yet'}): copy {here}, {here.name}.revoked and "
        f"{here.name}.passkeys, as far as they exist, to FILE of --operators there, FILE.revoked and FILE.passkeys; "
        "workers with --take-operators get them by: threegate operator distribute"
    ]


def _budget(settings: Settings, runners: Mapping[str, Runner]) -> Budget:
    ledger = cast("ClusterRunner", next(iter(runners.values()))).ledger
    ledger.threads = settings.section(ClusterSettings).slots
    return ledger


MACHINE = Machine(
    is_used=lambda settings: bool(settings.section(ClusterSettings).broker),
    runners=_runners,
    budget=_budget,
    never_fits=never_fits,
    workers=worker_lines,
    copies=_copies,
)
