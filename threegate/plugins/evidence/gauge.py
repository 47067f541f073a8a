"""Reads the numbers of a workspace: its trail, its decision log and its folders.

Invariant: each reading covers only what is new since the last one, and changes nothing in the workspace.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.plugins.evidence.metrics import Picture, TrailCounts
from threegate.trail.tail import TrailTail


class Gauge:
    """Looks again and again at one workspace; each look reads only what is new. For one thread."""

    def __init__(self, workspace: Workspace, decisions: Path | None = None) -> None:
        self._workspace = workspace
        self._tail = TrailTail(workspace)
        self._decisions = decisions or workspace.decisions_file
        self._offset = 0
        self._counts = TrailCounts()

    def look(self, *, daemon_runs: bool | None = None) -> Picture:
        """The numbers now. `daemon_runs`: known to who is the daemon. Raises TrailError, OSError, Unavailable."""
        for event in self._tail.read_on():
            self._counts.add(event)
        for line in self._new_decisions():
            self._counts.decided(line)
        folders = {
            "inbox": self._workspace.inbox,
            "drafts": self._workspace.drafts,
            "approved": self._workspace.approved,
            "running": self._workspace.running,
            "finished": self._workspace.finished,
            "refused": self._workspace.refused,
        }
        now = datetime.now(UTC).timestamp()
        requests, oldest = {}, {}
        for state, folder in folders.items():
            count, first = _files(folder)
            requests[state] = count
            if state not in ("finished", "refused"):
                oldest[state] = max(0.0, now - first) if count else 0.0
        head = UserState.of(self._counts.workspace_id).read_head() if self._counts.workspace_id else None
        kept = head.get("seq") if head else None
        runs = self._workspace.daemon_lock_held() if daemon_runs is None else daemon_runs
        return Picture(self._counts, requests, oldest, kept if isinstance(kept, int) else None, runs)

    def _new_decisions(self) -> Iterator[bytes]:
        try:
            descriptor = os.open(self._decisions, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        with open(descriptor, "rb") as file:
            if os.fstat(descriptor).st_size < self._offset:
                self._offset = 0  # put aside by a person: counting goes on with the new one
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield line


class SharedGauge:
    """A gauge that many threads may ask; a look that failed is begun again with the next question."""

    def __init__(self, workspace: Workspace, decisions: Path | None = None) -> None:
        self._workspace = workspace
        self._decisions = decisions
        self._gauge: Gauge | None = None
        self._lock = threading.Lock()

    def text(self, *, daemon_runs: bool | None = None) -> bytes:
        """The numbers now, as Prometheus reads them. Raises TrailError, OSError, Unavailable."""
        from threegate.plugins.evidence.metrics_text import render

        with self._lock:
            gauge, self._gauge = self._gauge or Gauge(self._workspace, self._decisions), None
            text = render(gauge.look(daemon_runs=daemon_runs))
            self._gauge = gauge
        return text


def numbers(workspace: Workspace, decisions: Path) -> Callable[[], bytes]:
    """What /metrics of `serve http` answers: the numbers at each call, of a workspace and its decision log."""
    return SharedGauge(workspace, decisions).text


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
