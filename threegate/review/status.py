"""What waits, for whom, what runs and what has ended: read from the folders and the verdicts.

Invariant: this only reads; what it says is what the folders say, since the folder of a file is its state.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from threegate.core.errors import InvalidInput, ThreeGateError
from threegate.core.workspace import Workspace
from threegate.request.exposure import Exposure, exposure_json
from threegate.results import read_verdict
from threegate.secretscan import mask_secrets

_NOT_SEEN = "not looked at yet"
_WHOM = {
    "draft": "operator: threegate approve",
    "invalid": "agent: fix the draft",
    "approved": "daemon",
    "waiting": "daemon",
    "running": "",
    "finished": "",
    "refused": "",
}
_WAITS_FOR = {
    "quorum_missing": "another operator: threegate countersign",
    "no_backend": "operator: threegate doctor",
    "checkpoint_required": "operator: threegate checkpoint list",
    "clock_went_back": "operator: set the clock",
    "operators_changed": "operator: threegate operator record",
    "workspace_mismatch": "operator: threegate workspace adopt",
    "folder_replaced": "operator: threegate doctor",
}
"""Who ends the wait of an approved request, by its reason; of any other reason, the daemon does."""
_OF_PROPOSALS = {"no_draft": "operator: threegate proposal explain"}
"""A proposal asks for nothing itself: its draft does, on a line of its own. Only one without its draft needs somebody."""


@dataclass(frozen=True, slots=True)
class Line:
    """One request file: its state, the reason, and who has to do something next."""

    state: str
    file: str
    folder: str
    reason: str | None
    request_id: str | None
    for_whom: str
    changed_utc: datetime
    exposure: Exposure | None = None
    """Opacity and reach as the verdict tells them; None where it tells none."""

    @property
    def shown_file(self) -> str:
        """The file's name for people and programs that do not open it: secrets are masked."""
        return mask_secrets(self.file)

    def to_json(self) -> dict[str, Any]:
        """The line as JSON."""
        return {
            "state": self.state,
            "file": self.shown_file,
            "folder": self.folder,
            "reason": self.reason,
            "request_id": self.request_id,
            "for": self.for_whom,
            **exposure_json(self.exposure),
            "changed_utc": f"{self.changed_utc:%Y-%m-%dT%H:%M:%SZ}",
        }


def status_lines(workspace: Workspace, *, ended: int = 20) -> list[Line]:
    """Everything that is open, and the last `ended` requests that have ended, oldest first."""
    lines = [
        line_of(workspace, path, folder, "draft", changed)
        for folder, place in (("inbox", workspace.inbox), ("drafts", workspace.drafts))
        for path, changed in files_in(place)
    ]
    lines += [
        line_of(workspace, path, "approved", "approved", changed)
        for path, changed in files_in(workspace.approved)
    ]
    lines += [
        line_of(workspace, path, "running", "running", changed)
        for path, changed in files_in(workspace.running)
    ]
    closed = [
        (changed, path, state)
        for state, place in (("finished", workspace.finished), ("refused", workspace.refused))
        for path, changed in files_in(place)
    ]
    closed.sort()
    lines += [
        line_of(workspace, path, state, state, changed)
        for changed, path, state in closed[max(0, len(closed) - ended) :]
    ]
    return lines


def worker_text(row: dict[str, Any]) -> str:
    """A line about a worker: whether it takes work, what is taken of it, and what runs there."""
    from threegate.runners.registry import backend_names

    kinds = [name.lower() for name in backend_names() if name.lower() in row]
    load = (
        f"{row['cores_free']} of {row['cores']} cores free, {row['memory_free_mb']} of {row['memory_mb']} MiB free, "
        + ", ".join(f"{kind} {row[kind]}" for kind in kinds)
    )
    what = ", ".join(row["running"]) or "idle"
    state = f"{load}: {what}" if row["live"] else f"takes no work: {row['reason']}"
    return f"worker    {row['worker']} ({row['machine'] or 'unknown machine'})  {state}"


def files_in(folder: Path) -> list[tuple[Path, datetime]]:
    """The request files of a folder with the times of their last change, oldest first."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or not entry.name.endswith((".md", ".json")):
                    continue
                if entry.name.endswith((".proposal.json", ".manifest.json")):
                    continue
                with suppress(FileNotFoundError):  # it went on its way in between
                    facts = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(facts.st_mode):
                        found.append((folder / entry.name, datetime.fromtimestamp(facts.st_mtime, UTC)))
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda item: (item[1], item[0].name))


def line_of(workspace: Workspace, path: Path, folder: str, state: str, changed: datetime) -> Line:
    """One file of `folder`; the verdict may say more of its state than the folder does."""
    reason = request_id = None
    try:
        verdict = read_verdict(workspace, path.name)
    except (InvalidInput, ThreeGateError):
        verdict = None
    if verdict is not None:
        request_id = verdict.request_id
        same_place = {"inbox": ("draft", "invalid"), "drafts": ("draft", "invalid"), "approved": ("waiting",)}
        if verdict.state in same_place.get(folder, ()):
            state = verdict.state
        if verdict.state == state:
            reason = verdict.reason
    elif folder in ("inbox", "drafts"):
        reason = _NOT_SEEN
    exposure = verdict.exposure if verdict is not None else None
    return Line(
        state, path.name, folder, reason, request_id, _for_whom(path.name, state, reason), changed, exposure
    )


def _for_whom(name: str, state: str, reason: str | None) -> str:
    """Who has to do something next; empty when nobody has."""
    if name.endswith(".json") and state == "draft":
        return _OF_PROPOSALS.get(reason or "", "daemon" if reason == _NOT_SEEN else "")
    if state == "waiting":
        return _WAITS_FOR.get(reason or "", _WHOM[state])
    return _WHOM[state] if reason != _NOT_SEEN else "daemon"
