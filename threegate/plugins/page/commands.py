"""The commands that an operator may want to type about a request, ready to copy.

Invariant: a command is one line of printable ASCII, quoted for a POSIX shell; if a name does not allow that,
no command is shown. The page runs none of them: approving requires the operator's key, on a terminal.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from threegate.core.workspace import Workspace
from threegate.review.draft_sources import source_of
from threegate.review.request_view import RequestView
from threegate.review.status import RequestEntry, is_draft_folder

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,127}")


@dataclass(frozen=True, slots=True)
class ShownCommand:
    """What it does, in our words, and the line to type; no line if the names in it cannot be typed safely."""

    does: str
    line: str | None


def commands(workspace: Workspace, entry: RequestEntry, view: RequestView) -> list[ShownCommand]:
    """The possible actions, the most common first."""
    return [ShownCommand(does, _line(workspace, words)) for does, words in _wanted(workspace, entry, view)]


def _wanted(workspace: Workspace, entry: RequestEntry, view: RequestView) -> Iterator[tuple[str, list[str]]]:
    path = str(entry.path)
    request_id = view.line.request_id or ""
    known = [request_id] if _ID.fullmatch(request_id) else [path]
    if entry.path.suffix != ".md":
        if (source := source_of(workspace, entry.path.name)) is not None:
            yield f"show the {source.what}'s verdict, with reasons", [*source.explain, path]
    elif is_draft_folder(entry.folder):
        if not view.problem:
            yield "read it again, sign it with your key and let it run once", ["approve", path]
        yield "reject it for good; the agent gets the reason", ["reject", path, "--reason", "why not"]
        yield "show every finding of gate 1", ["validate", "--stage", "draft", path]
    elif entry.folder == "approved":
        if any(check.code == "quorum_missing" for check in view.checks):
            yield "add your signature as a further operator", ["approve", path]
        yield "check its approval, step by step", ["audit", "approval", path]
        yield "cancel it before it runs", ["cancel", *known]
    elif entry.folder == "running":
        yield "stop it", ["cancel", *known]
    else:
        yield "read its results", ["show", *known, "--result"]
        yield "make a new draft of it, for a new approval", ["draft", "--again", *known]
    if entry.path.suffix == ".md":
        yield "show everything known about it", ["show", *known]


def _line(workspace: Workspace, words: list[str]) -> str | None:
    line = shlex.join(["threegate", "-w", str(workspace.root), *words])
    return line if line.isascii() and line.isprintable() else None
