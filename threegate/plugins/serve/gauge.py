"""Reads the numbers of a workspace: its trail, its decision log and its folders.

Invariant: each reading covers only what is new since the last one, and changes nothing in the workspace.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import generate_latest

from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.plugins.serve.metrics import Metrics
from threegate.trail.tail import TrailTail


class WorkspaceGauge:
    """The numbers of one workspace, for any number of threads."""

    def __init__(self, workspace: Workspace, decisions: Path | None = None) -> None:
        self._workspace = workspace
        self._decisions = decisions or workspace.decisions_file
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._tail = TrailTail(self._workspace)
        self._offset = 0
        self._metrics = Metrics()

    def text(self, *, daemon_runs: bool | None = None) -> bytes:
        """The numbers now, in Prometheus' text format. `daemon_runs`: known to who is the daemon.

        Raises TrailError, OSError, Unavailable; the next call then reads everything from the start.
        """
        with self._lock:
            try:
                self._read(self._workspace.daemon_lock_held() if daemon_runs is None else daemon_runs)
                return generate_latest(self._metrics.registry)
            except BaseException:
                self._begin()  # how much of it was counted is unknown
                raise

    def _read(self, daemon_runs: bool) -> None:
        metrics = self._metrics
        for event in self._tail.read_on():
            metrics.add(event)
        for line in self._new_decisions():
            metrics.decided(line)
        now = datetime.now(UTC).timestamp()
        for state in ("inbox", "drafts", "approved", "running", "finished", "refused"):
            found = [_files(folder) for folder in _folders(self._workspace, state)]
            count, first = sum(number for number, _ in found), min(moment for _, moment in found)
            metrics.requests.labels(state).set(count)
            if state not in ("finished", "refused"):
                metrics.oldest.labels(state).set(max(0.0, now - first) if count else 0.0)
        head = UserState.of(metrics.workspace_id).read_head() if metrics.workspace_id else None
        kept = head.get("seq") if head else None
        metrics.kept(kept if isinstance(kept, int) else None)
        metrics.daemon_running.set(daemon_runs)

    def _new_decisions(self) -> Iterator[bytes]:
        try:
            # O_NONBLOCK: a named pipe in its place must not block the reader.
            descriptor = os.open(self._decisions, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        with open(descriptor, "rb") as file:
            if os.fstat(descriptor).st_size < self._offset:
                self._offset = 0  # a person moved the log away: counting goes on with the new one
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield line


def _folders(workspace: Workspace, state: str) -> list[Path]:
    """The folders of a state: what agents' runs asked for waits like what is in the inbox."""
    folder: Path = getattr(workspace, state)
    runs = [place for place in workspace.draft_folders() if workspace.run_of(place)] if state == "inbox" else []
    return [folder, *runs]


def _files(folder: Path) -> tuple[int, float]:
    """How many requests are in a folder, and when the oldest arrived."""
    count, first = 0, float("inf")
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not entry.name.endswith((".md", ".json")):
                continue
            if entry.name.endswith((".proposal.json", ".manifest.json")):
                continue
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            count += 1
            first = min(first, facts.st_mtime)
    return count, first
