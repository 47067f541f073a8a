"""Make a change set from two trees: the project at the start of the work copy, and the current work copy.

Invariant: pure except for reading the two trees; the result passes `read_change_set` and, while the project stays as
it is, `check_project`. Every path that differs and is not in it is named with its reason, or counted by its kind.
Source: docs/spec/8-agents.md, "Made from two trees".
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final, Literal

from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.plugins.changes.change_tar import carried_bytes, change_tar, refuse_too_large
from threegate.plugins.changes.checks import fitting_rows, link_problem
from threegate.plugins.changes.ignored import IgnoreRules, Ignoring
from threegate.plugins.changes.path_rules import BARE, is_repository, looks_bare, path_problem
from threegate.plugins.changes.project_paths import collision_key
from threegate.plugins.changes.table import (
    FOLDER,
    LINK,
    Change,
    ChangeSetError,
    Row,
    TableNode,
    count_changes,
    folders_above,
    table_digest,
)
from threegate.plugins.changes.trees import Tree, TreeChanged, TreeEntry, node_of

_NOTHING: Final = TreeEntry("file")
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of this process and not of the entry that it happened to read."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path that differs and cannot be carried, and why, in words."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class MadeChangeSet:
    """A change set, and what is not in it. `data` is `changes.tar`, empty when there is nothing to propose.

    `ignored` and `git` count paths that the project ignores, or that are in a `.git` or in the folder of another
    version control system, `outputs` those that builds make, by name; a folder of them counts once.
    """

    data: bytes
    rows: tuple[Row, ...]
    sha256: str
    left_out: tuple[LeftOut, ...] = ()
    more_left_out: Mapping[str, int] = field(default_factory=dict)
    """By reason, how many paths besides these are left out."""
    ignored: int = 0
    git: int = 0
    outputs: Mapping[str, int] = field(default_factory=dict)

    @property
    def counts(self) -> dict[Change, int]:
        """How many paths each kind of change has."""
        return count_changes(self.rows)


def make_change_set(
    project: Tree,
    work: Tree,
    *,
    candidates: Iterable[str] | None = None,
    hidden: Container[str] = (),
    protected: Callable[[str], bool] = lambda path: False,
    ignoring: Ignoring | None = Ignoring(),
) -> MadeChangeSet:
    """Compare the two trees.

    `project` is what the work copy was made from (for an overlay the project itself, else the copy that was kept);
    `candidates` are the only paths that may differ (a folder stands for all in it), None for a full comparison;
    `hidden` are paths that the work copy was not given: they are neither deleted nor written, and neither is what
    `protected` says of a path. `ignoring` is what is
    known of the project's repository; None leaves out nothing of it. An entry that cannot be read is left out by name.
    Raises ChangeSetError when the change is too large, OSError when a tree's top cannot be read or this process has no
    descriptors or memory left, TreeChanged when what was compared changes meanwhile.
    """
    making = _Making(project, work, candidates, hidden, protected, ignoring)
    making.compare()
    rows = making.fitting()
    data = b""
    if rows:
        data = change_tar(rows, lambda row: _content(work, row))
    return MadeChangeSet(
        data,
        rows,
        table_digest(rows),
        tuple(making.left_out),
        dict(making.more_left_out),
        making.counted["ignored"],
        making.counted["git"],
        dict(making.outputs),
    )


def refuse_exhausted(error: OSError) -> None:
    """Raises the error again if it is one of this process, and not of the entry that it happened to read."""
    if error.errno in _EXHAUSTED:
        raise error


def utf_8(path: str) -> str:
    """A path as text that can be written: bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _content(work: Tree, row: Row) -> bytes:
    assert row.after is not None
    if row.after.mode == LINK:
        return work.target(row.path)
    content = b"".join(work.chunks(row.path))
    if sha256_hex(content) != row.after.sha256:
        raise TreeChanged(errno.EAGAIN, "changed while it was read", row.path)
    return content


class _Making:
    """One comparison of two trees, folder by folder."""

    def __init__(
        self,
        project: Tree,
        work: Tree,
        candidates: Iterable[str] | None,
        hidden: Container[str],
        protected: Callable[[str], bool],
        ignoring: Ignoring | None,
    ) -> None:
        self._project = project
        self._work = work
        self._wanted = None if candidates is None else _wanted(candidates)
        self._hidden = hidden
        self._protected = protected
        self._ignore = None if ignoring is None else IgnoreRules(project, work, ignoring)
        self._seen = 0
        self._repositories: set[str] = set()
        """Folders of the project that are bare repositories."""
        self._carried = 0
        """Bytes of the files that are carried."""
        self.rows: list[Row] = []
        self.left_out: list[LeftOut] = []
        self.more_left_out: Counter[str] = Counter()
        self.outputs: Counter[str] = Counter()
        self.counted: Counter[Literal["ignored", "git"]] = Counter()

    def compare(self) -> None:
        self._folder("", both=True)

    def _leave(self, path: str, reason: str) -> Literal[False]:
        if len(self.left_out) < limits.CHANGE_LEFT_OUT:
            self.left_out.append(LeftOut(utf_8(path), reason))
        else:
            self.more_left_out[reason] += 1
        return False

    def fitting(self) -> tuple[Row, ...]:
        """The rows that could be applied now; the others are left out by name. Raises ChangeSetError, OSError."""
        return fitting_rows(
            self._project, self.rows, lambda path: self._work.target(path).decode("utf-8", "replace"), self._leave
        )

    def _folder(self, path: str, *, both: bool) -> bool:
        """Compare what is in a folder; whether the project's folder, changed so, is that of the work copy.

        `both` says that the folder is in both trees, so that what it is to git may not change.
        """
        before, after = self._project.names(path), self._work.names(path)
        wanted = None if self._wanted is None else self._wanted.get(path)
        names = sorted(before.keys() | after.keys() if wanted is None else wanted)
        keys = Counter(map(collision_key, after))
        if looks_bare(before):
            self._repositories.add(path)
        bare = looks_bare(after) and not (both and looks_bare(before))
        whole = before.keys() <= set(names)
        for name in names:
            self._count(1)
            inner = f"{path}/{name}" if path else name
            old, new = before.get(name), after.get(name)
            if old is None and new is None:
                continue
            if old is None and keys[collision_key(name)] > 1:
                whole = self._leave(inner, "differs from another name in case or Unicode form only")
            elif old is None and bare and collision_key(name) in BARE:
                whole = self._leave(inner, "would make its folder a repository")
            else:
                whole = self._readable(inner, name, old, new) and whole
        return whole

    def _readable(self, path: str, name: str, old: TreeEntry | None, new: TreeEntry | None) -> bool:
        """The same as `_one`, and a path that cannot be read is left out with its rows: the mode of one entry must not
        hide what happened to the others.
        """
        mark = len(self.rows)
        try:
            return self._one(path, name, old, new)
        except OSError as error:
            refuse_exhausted(error)
            del self.rows[mark:]
            return self._leave(path, f"cannot be read ({error.strerror})")

    def _one(self, path: str, name: str, old: TreeEntry | None, new: TreeEntry | None) -> bool:
        """Compare one path; whether the project has it afterwards as the work copy has it."""
        if path in self._hidden:
            if new is not None:
                self._leave_new(path, new, "was hidden from the agent")
            return False
        if is_repository(name):
            self.counted["git"] += self._differs_within(path, old, new)
            return False
        if self._repositories and not self._repositories.isdisjoint(("", *folders_above(path))):
            return self._leave_within(path, old, new, "is in a bare repository")
        folder = (new or old or _NOTHING).kind == "folder"
        left = None if self._ignore is None else self._ignore.why(path, folder=folder)
        if left is not None:
            if self._differs_within(path, old, new):
                if left == "output":
                    self.outputs[name] += 1
                else:
                    self.counted["ignored"] += 1
            return False
        problem = "is protected (agents.protected)" if self._protected(path) else path_problem(path)
        if problem is not None:
            return self._leave_within(path, old, new, problem)
        if new is not None and new.why:
            return (old is not None and old.kind == new.kind != "file") or self._leave(path, new.why)
        why = "" if old is None else old.why or ("has several names (hard links)" if old.links > 1 else "")
        if old is not None and why:
            if not self._differs(path, old, new):
                return True
            if new is None and old.kind != "file":
                return False  # no copy contains it, so the agent cannot have removed it
            return self._leave(path, f"{why} in the project")
        return self._change(path, old, new)

    def _change(self, path: str, old: TreeEntry | None, new: TreeEntry | None) -> bool:
        """Note the rows of one path that may be carried, and of what is below it."""
        # By its size alone: a file that only claims a terabyte is never read to be carried.
        too_large = new is not None and new.kind == "file" and new.size > carried_bytes()
        if too_large and self._differs(path, old, new):
            return self._leave(path, f"is larger than the {carried_bytes() // limits.MIB} MiB of a change set")
        was, becomes = old is not None and old.kind == "folder", new is not None and new.kind == "folder"
        if was and becomes:
            return self._folder(path, both=True)
        if not was and not becomes:
            return self._leaf(path, old, new)
        mark = len(self.rows)
        whole = self._folder(path, both=False)
        if becomes:
            if not whole and mark == len(self.rows) and old is None:
                return False  # a new folder for what is ignored only: the project does not get an empty one
            before = None if old is None else node_of(self._project, path, old)
            self.rows.append(Row(path, before, TableNode(FOLDER)))
            return whole
        if not whole:
            # Something in it stays, so the folder stays; what can go, goes. But nothing else can take its place.
            if new is not None:
                del self.rows[mark:]
                self._leave(path, "would replace a folder in which something stays")
            return False
        self.rows.append(Row(path, TableNode(FOLDER), None if new is None else node_of(self._work, path, new)))
        return True

    def _leaf(self, path: str, old: TreeEntry | None, new: TreeEntry | None) -> bool:
        """A file or link on both sides, or on one."""
        if not self._differs(path, old, new):
            return True
        if new is not None and new.kind == "link" and (problem := link_problem(self._work, path)) is not None:
            return self._leave(path, problem)
        if new is not None and new.kind == "file":
            self._carried += new.size
            refuse_too_large(path, self._carried)
        before = None if old is None else node_of(self._project, path, old)
        after = None if new is None else node_of(self._work, path, new)
        self.rows.append(Row(path, before, after))
        return True

    def _leave_within(self, path: str, old: TreeEntry | None, new: TreeEntry | None, reason: str) -> bool:
        """Leave out by name whatever differs at a path or below it; whether nothing does."""
        if not (old is not None and new is not None and old.kind == new.kind == "folder"):
            return not self._differs(path, old, new) or self._leave(path, reason)
        same = True
        for inner, one, other in self._entries(path):
            same = self._leave_within(inner, one, other, reason) and same
        return same

    def _leave_new(self, path: str, new: TreeEntry, reason: str) -> None:
        """Leave out by name what the work copy has at a path: a folder by what is in it."""
        left = [(path, new)]
        while left:
            path, entry = left.pop()
            below = []
            if entry.kind == "folder" and path.count("/") < limits.TAR_DEPTH:
                below = [(f"{path}/{name}", inner) for name, inner in sorted(self._work.names(path).items())]
                self._count(len(below))
            if not below:
                self._leave(path, reason)
            left += reversed(below)

    def _differs_within(self, path: str, old: TreeEntry | None, new: TreeEntry | None) -> bool:
        """Whether anything differs at a path or below it."""
        if old is not None and new is not None and old.kind == new.kind == "folder":
            return any(self._differs_within(*entry) for entry in self._entries(path))
        return self._differs(path, old, new)

    def _entries(self, path: str) -> Iterator[tuple[str, TreeEntry | None, TreeEntry | None]]:
        """What is in a folder of both trees and may differ: path, and the entry of each tree."""
        before, after = self._project.names(path), self._work.names(path)
        wanted = None if self._wanted is None else self._wanted.get(path)
        for name in sorted(before.keys() | after.keys() if wanted is None else wanted):
            self._count(1)
            if name in before or name in after:
                yield f"{path}/{name}", before.get(name), after.get(name)

    def _count(self, names: int) -> None:
        self._seen += names
        if self._seen > limits.CHANGE_WALK_ENTRIES:
            raise ChangeSetError(f"the work copy has more than {limits.CHANGE_WALK_ENTRIES} names to compare")

    def _differs(self, path: str, old: TreeEntry | None, new: TreeEntry | None) -> bool:
        """Whether a path differs; of a folder only its names are compared."""
        if old is None or new is None:
            return True
        if old.kind != new.kind:
            return True
        if old.kind == "folder":
            return self._project.names(path).keys() != self._work.names(path).keys()
        if old.identity == new.identity:
            return False
        if old.kind == "link":
            return self._project.target(path) != self._work.target(path)
        if old.kind != "file":
            return False
        if (old.size, old.executable) != (new.size, new.executable):
            return True
        pieces = zip_longest(self._project.chunks(path), self._work.chunks(path))
        return any(one != other for one, other in pieces)


def _wanted(candidates: Iterable[str]) -> dict[str, set[str] | None]:
    """For each folder on the way to a candidate the names to compare; a folder that is not named is compared whole."""
    wanted: dict[str, set[str]] = {"": set()}
    whole = set()
    for path in candidates:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ChangeSetError("a path to propose leaves the project")
        whole.add("/".join(parts))
        for depth in range(len(parts)):
            wanted.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    return {
        folder: names
        for folder, names in wanted.items()
        if not any("/".join(folder.split("/")[:depth]) in whole for depth in range(folder.count("/") + 2))
        and "" not in whole
    }
