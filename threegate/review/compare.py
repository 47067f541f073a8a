"""Compare two requests by meaning, not by bytes.

Invariant: every field of a request is compared; inputs by digest, and by content if both are text.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput
from threegate.core.file_names import is_request_name, slug_of
from threegate.core.settings import RequestSettings
from threegate.core.workspace import STATES, Workspace
from threegate.request.model import Request, Stage
from threegate.request.reader import read_request
from threegate.review.draft_sources import place_of
from threegate.review.show import show_request

_BYTES = frozenset(("data", "sha256", "file_name", "stage"))
# Fields that differ between any two requests, and are not compared.
_OWN = frozenset(("request_id", "created_utc", "approved_by", "approved_utc"))


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """One difference: its name, and both sides as text."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two files and the differences between them."""

    before: Path
    after: Path
    differences: tuple[RequestDifference, ...]


def compare(workspace: Workspace, first: str, second: str = "") -> Comparison:
    """Compare two requests, or one with the last finished one that has its slug. Raises InvalidInput."""
    after = _path(workspace, second or first)
    before = _path(workspace, first) if second else _last_finished(workspace, after)
    settings = workspace.load_settings().request
    old, new = (_read(settings, place_of(workspace, path)) for path in (before, after))
    return _compare(workspace, before, old, after, new)


def compare_with_last(workspace: Workspace, path: Path, request: Request) -> Comparison | None:
    """Compare a request, read from `path`, with the last approved one of its shape, ignoring what always differs.
    None if there was none.
    """
    last = _last_of_shape(workspace, request)
    if last is None:
        return None
    found = _compare(workspace, *last, path, request)
    return replace(found, differences=tuple(item for item in found.differences if item.name not in _OWN))


def _compare(workspace: Workspace, before: Path, old: Request, after: Path, new: Request) -> Comparison:
    found = [RequestDifference(name, _text(was), _text(becomes)) for name, was, becomes in _differing(old, new)]
    return Comparison(before, after, (*found, *_inputs(workspace, before, old, after, new)))


def differs_from_last(workspace: Workspace, request: Request) -> str | None:
    """The differences from the last approved request of the same shape, in one line; None if there was none."""
    last = _last_of_shape(workspace, request)
    if last is None:
        return None
    path, earlier = last
    names = [name.replace("_", " ") for name, _, _ in _differing(earlier, request) if name not in _OWN]
    return f"{', '.join(names) or 'in nothing'} (since {path.name})"


def _last_of_shape(workspace: Workspace, request: Request) -> tuple[Path, Request] | None:
    """The last approved request with the same requester, backend, tool and program, and its file; None if there is
    none among the newest COMPARED_REQUESTS.
    """
    settings = workspace.load_settings().request
    there: list[tuple[int, Path]] = []
    for folder in (workspace.approved, workspace.running, workspace.finished):
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_request_name(entry.name) and entry.name != request.file_name:
                    with suppress(FileNotFoundError):
                        there.append((entry.stat(follow_symlinks=False).st_ctime_ns, Path(entry.path)))
    for _, path in sorted(there, reverse=True)[: limits.COMPARED_REQUESTS]:
        with suppress(InvalidInput):
            earlier = _read(settings, path)
            if _shape(earlier) == _shape(request):
                return path, earlier
    return None


def _shape(request: Request) -> tuple[object, ...]:
    return request.requested_by, request.backend, request.tool, request.action.program


def _differing(old: Request, new: Request) -> list[tuple[str, Any, Any]]:
    """The fields that differ in meaning: name, and both values."""
    before, after = _values(old), _values(new)
    both = ((name, before.get(name), after.get(name)) for name in {**before, **after})
    return [(name, was, becomes) for name, was, becomes in both if was != becomes]


def _values(request: Request) -> dict[str, Any]:
    """What a request means, by name: what it does where it changes a project or calls a tool comes last."""
    values: dict[str, Any] = {}
    for field in fields(Request):
        if field.name == ("action" if request.action.runs_code else "deliver"):
            values |= request.action.parts()
        if field.name not in (*_BYTES, "action"):
            values[field.name] = getattr(request, field.name)
    return values


def _path(workspace: Workspace, which: str) -> Path:
    path = show_request(workspace, which).path
    if path is None:
        raise InvalidInput(f"{which}: its file no longer exists")
    return path


def _last_finished(workspace: Workspace, path: Path) -> Path:
    slug = slug_of(path.name)
    same = [
        other for other in workspace.finished.glob("TR-*.md") if other != path and slug and slug_of(other.name) == slug
    ]
    if not same:
        raise InvalidInput(f"{path.name}: no finished request has its slug; name the one to compare with")
    return max(same, key=lambda other: other.name)


def _read(settings: RequestSettings, path: Path) -> Request:
    data = durable.read_named(path, max_bytes=limits.REQUEST_BYTES)
    stages: tuple[Stage, ...] = ("approved", "draft") if path.parent.name in STATES else ("draft",)
    for stage in stages:
        report = read_request(data, path=path.name, settings=settings, now=datetime.now(UTC), stage=stage)
        if report.request is not None:
            return report.request
    raise InvalidInput(f"{path}: not valid; see: threegate validate")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return "\n".join(_text(item) for item in value)
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    return "" if value is None else str(value)


def _inputs(workspace: Workspace, before: Path, old: Request, after: Path, new: Request) -> Iterable[RequestDifference]:
    """The contents of inputs with the same name and different digests, if both are text."""
    digests = {item.name: item.sha256 for item in old.inputs}
    for item in new.inputs:
        earlier = digests.get(item.name)
        if earlier is None or earlier == item.sha256:
            continue
        was = _content(workspace, before, item.name, earlier)
        becomes = _content(workspace, after, item.name, item.sha256)
        if was is not None and becomes is not None:
            yield RequestDifference(f"content of {item.name}", was, becomes)


def _content(workspace: Workspace, request: Path, name: str, sha256: str) -> str | None:
    for path in (
        workspace.inputs / sha256,
        workspace.input_place(request.parent, name, sha256),
        workspace.input_place(workspace.inbox, name, sha256),
    ):
        try:
            data = durable.read_regular(path, max_bytes=limits.COMPARE_TEXT_BYTES)
            if sha256_hex(data) == sha256:
                return data.decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
    return None
