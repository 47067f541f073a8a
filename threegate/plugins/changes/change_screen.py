"""The screen of a change set: a diff, made by us, between the current bytes and the new ones.

Invariant: every path of the change set has a line, in this order: links, changes of type or mode, deletions
and hidden characters; files that are later run automatically; program source; the rest. A path without a diff
(not text, too large) is shown by size and digest, with the reason, and the card counts it. What cannot be read
of one path takes nothing of the others away. Of commits that are delivered one by one, each path of each has a line.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import BinaryIO, Final

from threegate.approval.shown.request_sections import size_text
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import Refused
from threegate.core.screen_parts import Field, FileDiff, Item, Note
from threegate.plugins.changes.change_facts import ChangedPath, path_diff
from threegate.plugins.changes.change_tar import ChangeSet
from threegate.plugins.changes.commit_chain import CarriedCommit
from threegate.plugins.changes.projects import hold_project
from threegate.plugins.changes.requested_change import RequestedChange
from threegate.plugins.changes.run_later import PACKAGES, LinkNames
from threegate.plugins.changes.table import EXECUTABLE, LINK, Change, Row
from threegate.plugins.changes.trees import HeldTree, Tree, TreeEntry, TreeTooLarge
from threegate.request.backend import Opened

_LABELS: Final[dict[Change, str]] = {
    "add": "ADDED",
    "modify": "MODIFIED",
    "delete": "DELETED",
    "mode": "MODE",
    "type": "ANOTHER KIND",
}
_KINDS: Final = {"100644": "file", "100755": "executable file", "120000": "symlink", "040755": "folder"}


def change_items(requested: RequestedChange, copy: Opened) -> tuple[Item, ...]:
    """The whole change set, as items of a screen. If the project cannot be read, a line says so instead of a diff."""
    try:
        with hold_project(requested.job.project) as held, copy.open() as stream:
            return tuple(_items(HeldTree(held), requested, stream))
    except (Refused, OSError) as error:
        return (Note(f"the project cannot be read, so no diff can be shown: {error}"),)


def commit_items(requested: RequestedChange) -> tuple[Item, ...]:
    """The agent's commits, each with its diff, where they are delivered one by one; otherwise one line about them."""
    if not requested.commits:
        return (Note("the agent's commits one by one, which are not what is delivered"),)
    try:
        with hold_project(requested.job.project) as held:
            return tuple(_commits(HeldTree(held), requested))
    except (Refused, OSError) as error:
        return (Note(f"the project cannot be read, so no diff can be shown: {error}"),)


def _commits(project: Tree, requested: RequestedChange) -> Iterator[Item]:
    before, branch = _Before(project), requested.job.branch
    for number, (commit, paths) in enumerate(requested.commits, 1):
        said = commit.message if branch is None else branch.commits[number - 1][1]
        yield Field(f"commit {number}", said.partition("\n")[0])  # the whole message is on the card
        before.rows = {item.row.path: item.row for item in paths}
        for item in sorted(paths, key=ChangedPath.order):
            yield _path(before, commit.change, io.BytesIO(commit.data), item)
        for item in paths:
            before.commits[item.row.path] = commit


class _Before:
    """The files before a commit, as git stores them: what earlier commits made of them, otherwise the project's."""

    def __init__(self, project: Tree) -> None:
        self._project = project
        self.commits: dict[str, CarriedCommit] = {}
        """path → the last commit before that changed it."""
        self.rows: Mapping[str, Row] = {}
        """What the commit changes."""

    def names(self, path: str) -> Mapping[str, TreeEntry]:
        return self._project.names(path)

    def look(self, path: str) -> TreeEntry | None:
        node = self.rows[path].before if path in self.rows else None
        if node is None:
            return None
        return TreeEntry("link" if node.mode == LINK else "file", node.mode == EXECUTABLE, len(self._data(path)))

    def chunks(self, path: str) -> Iterator[bytes]:
        return iter([self._data(path)])

    def target(self, path: str) -> bytes:
        return self._data(path)

    def _data(self, path: str) -> bytes:
        """Raises OSError."""
        if path in self.commits:
            try:
                return self.commits[path].content(path)
            except KeyError:  # then the commits do not fit together, and are refused
                raise FileNotFoundError(errno.ENOENT, "an earlier commit removed it", path) from None
        present = self._project.look(path)
        if present is not None and present.kind == "link":
            return self._project.target(path)
        data = b"".join(self._project.chunks(path))
        before = self.rows[path].before
        # In the project's file git may have put CRLF for each LF.
        return data if before is None or sha256_hex(data) == before.sha256 else data.replace(b"\r\n", b"\n")


def _items(project: HeldTree, requested: RequestedChange, stream: BinaryIO) -> Iterator[Item]:
    heads = {
        "first": "links, changes of type or mode, deletions, and hidden characters:",
        "later": "files that run later by themselves:",
        "source": "program source, which runs when someone runs the project:",
        "rest": "all others:",
    }
    last = ""
    links, complete = _links(project, requested)
    if not complete:
        yield Note(
            f"of the project's {limits.CHANGE_LINK_WALK} and more names not all were searched for links to these"
        )
    for item in sorted((_by_links(item, links) for item in requested.paths), key=ChangedPath.order):
        part = "first" if item.first else "later" if item.later else "source" if item.source else "rest"
        if part != last:
            yield Note(heads[part])
            last = part
        yield _path(project, requested.change, stream, item)


def _links(project: HeldTree, requested: RequestedChange) -> tuple[LinkNames, bool]:
    """The names that links of the project give to what changes, and whether all of it was searched."""
    found: dict[str, str] = {}
    inside = f"{requested.job.project.path}/"
    with suppress(TreeTooLarge):
        for path, target in project.links(PACKAGES, limits.CHANGE_LINK_WALK):
            if target.startswith("/") and not f"{target}/".startswith(inside):
                continue
            below = f"{target}/".removeprefix(inside) if target.startswith("/") else f"{path}/../{target}"
            place = os.path.normpath(below or ".")
            found[path] = "" if place == "." else place
        return LinkNames(found), True
    return LinkNames(found), False


def _by_links(item: ChangedPath, links: LinkNames) -> ChangedPath:
    """The path with what a link of the project makes of it."""
    after = item.row.after
    if item.later is not None or after is None or not after.file:
        return item
    why = links.why_runs_later(item.row.path, executable=False, head=b"")
    return item if why is None else replace(item, later=f"{why} (the link is in the project)")


def _path(project: Tree, change: ChangeSet, stream: BinaryIO, item: ChangedPath) -> FileDiff:
    row, found = item.row, path_diff(project, change, stream, item)
    about = [*_about(project, change, item), *([Note(found.why)] if found.why else [])]
    if item.size == 0 and row.change == "add" and row.after is not None and row.after.file:
        about.append(Note("is empty"))
    return FileDiff(_LABELS[row.change], row.path, tuple(about), found.text)


def _about(project: Tree, change: ChangeSet, item: ChangedPath) -> Iterator[Field | Note]:
    row = item.row
    if row.before is not None and row.after is not None and row.before.mode != row.after.mode:
        yield Note(f"was: {_KINDS[row.before.mode]}; becomes: {_KINDS[row.after.mode]}")
    elif row.after is not None and row.after.mode != "100644":
        yield Note(f"is: {_KINDS[row.after.mode]}")
    if item.later is not None:
        yield Note(f"RUNS LATER: {item.later}")
    if row.after is not None and row.after.mode == LINK:
        yield Field("leads to", change.targets[row.path])
    if item.unseen and row.after is not None:
        yield Note(f"not shown: {item.unseen}")
        yield Note(f"{size_text(item.size)}, sha256 {row.after.sha256}")
    if row.after is None and row.before is not None and row.before.file:
        yield Note(f"{_size(project, row.path)}, sha256 {row.before.sha256}")
    if item.hidden:
        yield Note(f"LOOK CLOSELY: {item.hidden}; below, whatever is hidden is written as an escape")


def _size(project: Tree, path: str) -> str:
    """The size of what is deleted."""
    try:
        present = project.look(path)
    except OSError as error:
        return f"cannot be read ({error.strerror or type(error).__name__})"
    return "is gone" if present is None else size_text(present.size)
