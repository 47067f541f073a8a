"""Everything known about one request: its file, verdict, history and result.

Invariant: the history comes from the trail, never from the file's own words.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput
from threegate.core.workspace import STATES, Workspace
from threegate.launch.results.verdict import Verdict
from threegate.request.exposure import exposure_json
from threegate.request.model import InputFile
from threegate.request.reader import read_request
from threegate.request.report import Report
from threegate.review.draft_sources import place_of, placed_at
from threegate.review.fitness import draft_findings
from threegate.review.input_copies import InputCopy, copied_inputs, seen_inputs
from threegate.review.named_request import find_request
from threegate.review.status import verdict_of
from threegate.trail.payloads import Approved
from threegate.trail.trail import Trail


@dataclass(frozen=True, slots=True)
class Shown:
    """One known request. `path` is None if only the trail has it."""

    request_id: str | None
    path: Path | None
    report: Report | None
    verdict: Verdict | None
    events: tuple[dict[str, Any], ...]
    results: tuple[Path, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON."""
        request = self.report.request if self.report else None
        return {
            "request_id": self.request_id,
            "file": str(self.path) if self.path else None,
            "state": self.path.parent.name if self.path else None,
            "sha256": self.report.sha256 if self.report else None,
            "purpose": request.purpose if request else None,
            "backend": request.backend if request else None,
            "network": request.network if request else None,
            "network_allowlist": [f"{item.host}:{item.port}" for item in request.network_allowlist] if request else [],
            "argv": list(request.action.words) or None if request else None,
            "code": request.action.source if request else None,
            "inputs": [{"name": item.name, "sha256": item.sha256} for item in request.inputs] if request else [],
            **exposure_json(self.report.exposure if self.report else None),
            "verdict": self.verdict.to_json() if self.verdict else None,
            "events": list(self.events),
            "results": [path.name for path in self.results],
        }


def show_request(workspace: Workspace, which: str) -> Shown:
    """Everything known about the request of a name or path. Raises InvalidInput as `find_request` does."""
    trail = Trail(workspace)
    named = find_request(workspace, which, trail=trail)
    path, request_id = named.path, named.request_id
    report = _read(workspace, path) if path is not None else None
    if path is not None and report is not None:
        if not named.taken:
            request_id = report.request_id or path.stem
        elif report.request_id != request_id:
            path = report = None  # the name now belongs to another request's file
    events = [event.to_json() for event in trail.events() if event.request_id == request_id]
    return Shown(
        request_id=request_id,
        path=path,
        report=report,
        verdict=verdict_of(workspace, path) if path else None,
        events=tuple(events),
        results=results_of(workspace, request_id) if request_id else (),
    )


def with_fitness(workspace: Workspace, shown: Shown) -> Shown:
    """The same for a draft with what is found of whether it can run here."""
    path, report = shown.path, shown.report
    if path is None or report is None or report.request is None or path.parent not in workspace.draft_folders():
        return shown
    if placed_at(workspace, path) is not None:
        return shown
    found = draft_findings(workspace, report.request, path, Trail(workspace))
    return replace(shown, report=replace(report, findings=(*report.findings, *found)))


def results_of(workspace: Workspace, request_id: str) -> tuple[Path, ...]:
    """The result files of a request."""
    return tuple(sorted(workspace.results.glob(f"TS-*-{glob.escape(request_id)}*.md")))


@contextmanager
def open_input(workspace: Workspace, shown: Shown, name: str) -> Iterator[tuple[InputFile, InputCopy]]:
    """An input with the digest that the request declares: the pinned file, or before the approval a temporary copy.

    Raises InvalidInput if the request has no such input, Refused (input_missing, input_changed), Unavailable.
    """
    request = shown.report.request if shown.report else None
    item = next((item for item in request.inputs if item.name == name), None) if request else None
    if shown.path is None or item is None:
        raise InvalidInput(f"{shown.request_id}: has no input {name!r}; see: threegate show {shown.request_id}")
    here = os.path.realpath(shown.path.parent)
    folder = next((folder for folder in workspace.draft_folders() if os.path.realpath(folder) == here), None)
    placed = placed_at(workspace, shown.path)
    if folder is None or placed is not None:
        inputs = workspace.inputs if placed is None else placed.inputs(workspace)
        opened = seen_inputs(workspace, {name: inputs / item.sha256}, [item])
    else:
        opened = copied_inputs(workspace, {name: workspace.input_place(folder, name, item.sha256)}, [item])
    with opened as (copy,):
        yield item, copy


def as_approved(workspace: Workspace, which: str) -> bytes:
    """The stored text that the approval of a request covers. Raises InvalidInput if there is none any more."""
    trail = Trail(workspace)
    request_id = find_request(workspace, which, trail=trail).request_id
    with trail.locked() as held:
        history = held.index.history(request_id) if request_id else None
    approved = Approved.of(history.approved) if history is not None else None
    if approved is None or approved.shown_sha256 is None:
        raise InvalidInput(f"{which}: the trail has no approval that records what was shown")
    path = workspace.inputs / approved.shown_sha256
    try:
        text = durable.read_regular(path, max_bytes=limits.SHOWN_TEXT_BYTES)
    except OSError as error:
        raise InvalidInput(f"{path}: the kept text cannot be read ({error.strerror or error})") from None
    if sha256_hex(text) != approved.shown_sha256:
        raise InvalidInput(f"{path}: changed: not the text that was signed; see: threegate audit verify")
    return text


def _read(workspace: Workspace, path: Path) -> Report:
    try:
        data = durable.read_regular(place_of(workspace, path), max_bytes=limits.REQUEST_BYTES)
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror or error})") from None
    return read_request(
        data,
        path=path.name,
        settings=workspace.load_settings().request,
        now=datetime.now(UTC),
        stage="approved" if path.parent.name in STATES else "draft",
    )
