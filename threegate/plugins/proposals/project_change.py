"""Proposals that write, as change sets of the project: made from its current bytes, and checked again later.

Invariant: a change set does exactly what its proposal says, and nothing to a path that is protected, a link,
or not changeable by an apply request. `read_proposed_change` uses only the proposal and the archive; changes
of the project meanwhile are checked where every change set is checked, by `approve` and right before
applying.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, Refused
from threegate.core.settings import Settings
from threegate.plugins.changes.change_tar import change_tar, read_change_set
from threegate.plugins.changes.checks import check_project
from threegate.plugins.changes.make import MadeChangeSet
from threegate.plugins.changes.path_rules import path_problem
from threegate.plugins.changes.project import Project, ProjectError
from threegate.plugins.changes.project_paths import ProjectPath, is_protected, read_path
from threegate.plugins.changes.projects import DEFAULT, hold_project, look_at_project
from threegate.plugins.changes.section import ProjectSettings
from threegate.plugins.changes.table import FILE, ChangeSetError, Row, TableNode
from threegate.plugins.changes.trees import HeldTree, TreeEntry, node_of
from threegate.plugins.proposals.proposal_verdict import AllowedProposal

CLEANED: Final = (
    "build",
    "dist",
    "coverage",
    "node_modules",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".cache",
    "tmp",
)
"""What a cleanup without `include` refers to."""


def propose_write(verdict: AllowedProposal, settings: Settings) -> bytes:
    """`changes.tar` of a file.write_safe: one file, with its mode if it exists. Raises ProjectError."""
    path, content = verdict.paths["path"].text, _content(verdict)
    if verdict.paths["path"].protected:
        raise ProjectError(f"{path}: is protected; change it by hand")
    with _project(settings) as project:
        present = project.tree.look(path)
        before = None if present is None else node_of(project.tree, path, present)
        row = Row(path, before, _written(before, content))
        if row.before == row.after:
            raise ProjectError("the file has this content already; there is nothing to change")
        return project.archive([row], content)


def propose_cleanup(verdict: AllowedProposal, settings: Settings) -> tuple[bytes, tuple[str, ...]]:
    """`changes.tar` of a project.cleanup_safe, and one line for each path that is kept. Raises ProjectError."""
    rows: dict[str, Row] = {}
    stays = []
    with _project(settings) as project:
        for path in _cleaned(verdict):
            try:
                rows |= project.deletions(path)
            except ChangeSetError as error:
                stays.append(f"{path.text} stays: {error}")
            except OSError as error:
                stays.append(f"{path.text} stays: something in it cannot be read ({error.strerror or error})")
        if not rows:
            raise ProjectError("; ".join(stays) or "nothing of it is in the project; there is nothing to clean up")
        return project.archive(rows.values()), tuple(stays)


def read_proposed_change(verdict: AllowedProposal, data: bytes) -> MadeChangeSet:
    """The change set of a proposal from its archive. Raises ProjectError if it does anything that is not proposed."""
    try:
        change = read_change_set(data)
    except ChangeSetError as error:
        raise ProjectError(str(error)) from None
    if any(is_protected(row.parts) for row in change.rows):  # of other change sets these are ordinary paths
        raise ProjectError("changes.tar has a protected path; change it by hand")
    if verdict.proposal.tool.name == "file.write_safe":
        [row, *more] = change.rows
        same = not more and row.path == verdict.paths["path"].text
        same = same and row.after == _written(row.before, _content(verdict))
    else:
        tops = [path.parts for path in _cleaned(verdict)]
        same = all(row.after is None and any(row.parts[: len(top)] == top for top in tops) for row in change.rows)
    if not same:
        raise ProjectError("changes.tar is not what was proposed")
    return MadeChangeSet(data, change.rows, change.sha256)


def _content(verdict: AllowedProposal) -> bytes:
    return str(verdict.args["content"]).encode()


def _written(before: TableNode | None, content: bytes) -> TableNode:
    """A file's state after the write: a regular file if there was none."""
    return TableNode(FILE if before is None else before.mode, sha256_hex(content))


def _cleaned(verdict: AllowedProposal) -> Iterator[ProjectPath]:
    """The paths that a cleanup names, each once. Raises PathBlocked."""
    start = verdict.paths["path"]
    for text in dict.fromkeys(verdict.proposal.args.get("include", CLEANED)):
        yield read_path(f"{start.text}/{text}", writing=True)


@contextmanager
def _project(settings: Settings) -> Iterator[_Reading]:
    """The project, open. Raises ProjectError, also for errors of its checks and its disk."""
    root = Project.open(settings.section(ProjectSettings).root).root
    try:
        place = look_at_project(DEFAULT, str(root))
        with hold_project(place) as held:
            yield _Reading(HeldTree(held), place.uid)
    except (InvalidInput, Refused, ChangeSetError) as error:
        raise ProjectError(str(error)) from None
    except OSError as error:
        raise ProjectError(f"the project cannot be read ({error.strerror or error})") from None


@dataclass(frozen=True, slots=True)
class _Reading:
    """The current project, and its owner."""

    tree: HeldTree
    uid: int

    def archive(self, rows: Iterable[Row], content: bytes = b"") -> bytes:
        """`changes.tar` of rows, at most one with content, checked as for apply. Raises ChangeSetError, OSError."""
        data = change_tar(tuple(rows), lambda _: content)
        check_project(self.tree, read_change_set(data), self.uid)
        return data

    def deletions(self, path: ProjectPath) -> dict[str, Row]:
        """The rows that remove a path and what is in it; none if it does not exist. Raises ChangeSetError, OSError."""
        if not path.parts:
            raise ChangeSetError("is the project itself")
        rows: dict[str, Row] = {}
        present = self.tree.look(path.text)
        if present is not None:
            self._delete(path.text, present, rows, limits.SNAPSHOT_BYTES)
            self.archive(rows.values())
        return rows

    def _delete(self, path: str, entry: TreeEntry, rows: dict[str, Row], room: int) -> int:
        """Note a path and what is below it; how many bytes may follow."""
        is_, in_it = ("has", " in it") if rows else ("is", "")
        if is_protected(tuple(path.split("/"))):
            raise ChangeSetError("has something protected in it" if rows else "is protected")
        if (problem := path_problem(path)) is not None:
            raise ChangeSetError(f"{path}: {problem}")
        if entry.kind not in ("file", "folder"):
            raise ChangeSetError(f"{is_} a {'link' if entry.kind == 'link' else 'special file'}{in_it}")
        if entry.links > 1 and entry.kind == "file":
            raise ChangeSetError(f"{is_} a file with several names{in_it}")
        room -= entry.size
        if room < 0 or len(rows) >= limits.SNAPSHOT_ENTRIES:
            raise ChangeSetError("is too large to be checked; name a part of it")
        rows[path] = Row(path, node_of(self.tree, path, entry), None)
        if entry.kind == "folder":
            for name, inner in sorted(self.tree.names(path).items()):
                room = self._delete(f"{path}/{name}", inner, rows, room)
        return room
