"""Make a change set from two trees: the project at the start of the work copy, and the current work copy.

Invariant: pure except for reading the two trees; the result passes `read_change_set`, and every path that
differs and is not in it is counted or named. Ignored paths are determined by the `.gitignore` files of the
project, never by those of the work copy. Source: docs/spec/8-agents.md, "Change sets".
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Literal

from threegate.changes.change_tar import carried_bytes, change_tar, refuse_too_large
from threegate.changes.path_rules import collision_key, is_repository, link_parts, path_problem
from threegate.changes.table import (
    FOLDER,
    LINK,
    Change,
    ChangeSetError,
    Row,
    TableNode,
    count_changes,
    table_digest,
)
from threegate.changes.trees import Tree, TreeChanged, TreeEntry, node_of
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.request.characters import has_hidden

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_GIT: Final = frozenset({"head", "objects", "refs"})
_SUBVERSION: Final = frozenset({"format", "hooks", "db"})
_BARE: Final = _GIT | _SUBVERSION | {"commondir"}
"""With these in it a folder is a repository to git or Subversion, whose settings and hooks are programs to run."""
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
    version control system; a folder of them counts once.
    """

    data: bytes
    rows: tuple[Row, ...]
    sha256: str
    left_out: tuple[LeftOut, ...]
    more_left_out: int
    ignored: int
    git: int

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
    include_ignored: bool = False,
) -> MadeChangeSet:
    """Compare the two trees.

    `project` is what the work copy was made from (for an overlay the project itself, else the copy that was kept);
    `candidates` are the only paths that may differ (a folder stands for all in it), None for a full comparison;
    `hidden` are paths that the work copy was not given: they are neither deleted nor written. An entry that cannot be
    read is left out by name. Raises ChangeSetError when the change is too large, OSError when a tree's top cannot be
    read or this process has no descriptors or memory left, TreeChanged when what was compared changes meanwhile.
    """
    making = _Making(project, work, candidates, hidden, include_ignored)
    making.compare()
    rows = tuple(sorted(making.rows, key=lambda row: row.parts))
    data = b""
    if rows:
        data = change_tar(rows, lambda row: _content(work, row))
    return MadeChangeSet(
        data,
        rows,
        table_digest(rows),
        tuple(making.left_out),
        making.more_left_out,
        making.counted["ignored"],
        making.counted["git"],
    )


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


class IgnoreRules:
    """The `.gitignore` files of a tree, each read once. A rule in a deeper folder wins, as in git."""

    def __init__(self, project: Tree) -> None:
        self._project = project
        self._specs: dict[str, GitIgnoreSpec | None] = {}

    def ignores(self, path: str, *, folder: bool) -> bool:
        """Whether the project ignores a path whose folders it does not ignore."""
        parts = path.split("/")
        for depth in range(len(parts) - 1, -1, -1):
            spec = self._spec("/".join(parts[:depth]))
            if spec is not None:
                found = spec.check_file("/".join(parts[depth:]) + ("/" if folder else "")).include
                if found is not None:
                    return found
        return False

    def _spec(self, folder: str) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            name = f"{folder}/.gitignore" if folder else ".gitignore"
            entry = self._project.look(name)
            spec = None
            if entry is not None and entry.kind == "file" and entry.size <= limits.IGNORE_FILE_BYTES:
                from pathspec import GitIgnoreSpec

                with suppress(PermissionError):  # without its rules nothing is ignored: the person sees more, not less
                    text = b"".join(self._project.chunks(name)).decode("utf-8", "replace")
                    spec = GitIgnoreSpec.from_lines(text.splitlines())
            self._specs[folder] = spec
        return self._specs[folder]


class _Making:
    """One comparison of two trees, folder by folder."""

    def __init__(
        self,
        project: Tree,
        work: Tree,
        candidates: Iterable[str] | None,
        hidden: Container[str],
        include_ignored: bool,
    ) -> None:
        self._project = project
        self._work = work
        self._wanted = None if candidates is None else _wanted(candidates)
        self._hidden = hidden
        self._ignore = None if include_ignored else IgnoreRules(project)
        self._seen = 0
        self._repositories: set[str] = set()
        """Folders of the project that are bare repositories."""
        self._carried = 0
        """Bytes of the files that are carried."""
        self.rows: list[Row] = []
        self.left_out: list[LeftOut] = []
        self.more_left_out = 0
        self.counted: Counter[Literal["ignored", "git"]] = Counter()

    def compare(self) -> None:
        self._folder("", both=True)

    def _leave(self, path: str, reason: str) -> Literal[False]:
        if len(self.left_out) < limits.CHANGE_LEFT_OUT:
            self.left_out.append(LeftOut(utf_8(path), reason))
        else:
            self.more_left_out += 1
        return False

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
            self._seen += 1
            if self._seen > limits.CHANGE_WALK_ENTRIES:
                raise ChangeSetError(f"the work copy has more than {limits.CHANGE_WALK_ENTRIES} names to compare")
            inner = f"{path}/{name}" if path else name
            old, new = before.get(name), after.get(name)
            if old is None and new is None:
                continue
            if old is None and keys[collision_key(name)] > 1:
                whole = self._leave(inner, "differs from another name in case or Unicode form only")
            elif old is None and bare and collision_key(name) in _BARE:
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
            if error.errno in _EXHAUSTED:
                raise
            del self.rows[mark:]
            return self._leave(path, f"cannot be read ({error.strerror})")

    def _one(self, path: str, name: str, old: TreeEntry | None, new: TreeEntry | None) -> bool:
        """Compare one path; whether the project has it afterwards as the work copy has it."""
        if path in self._hidden:
            if new is not None and new.kind != "folder":
                self._leave(path, "was hidden from the agent")
            return False
        if is_repository(name):
            self.counted["git"] += self._differs(path, old, new)
            return False
        if self._repositories and any(above in self._repositories for above in _above(path)):
            return not self._differs(path, old, new) or self._leave(path, "is in a bare repository")
        folder = (new or old or _NOTHING).kind == "folder"
        if self._ignore is not None and self._ignore.ignores(path, folder=folder):
            self.counted["ignored"] += self._differs(path, old, new)
            return False
        if (problem := path_problem(path)) is not None:
            return not self._differs(path, old, new) or self._leave(path, problem)
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
        if new is not None and new.kind == "file" and not self._fits(path, old, new):
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
        if new is not None and new.kind == "link" and (problem := self._link_problem(path)) is not None:
            return self._leave(path, problem)
        if new is not None and new.kind == "file":
            self._carried += new.size
            refuse_too_large(path, self._carried)
        before = None if old is None else node_of(self._project, path, old)
        after = None if new is None else node_of(self._work, path, new)
        self.rows.append(Row(path, before, after))
        return True

    def _fits(self, path: str, old: TreeEntry | None, new: TreeEntry) -> bool:
        """Whether a file can be carried, by its size alone: one that only claims a terabyte is never read."""
        if new.size > carried_bytes():
            return not self._differs(path, old, new)
        return True

    def _link_problem(self, path: str) -> str | None:
        """Why a link of the work copy is not carried."""
        try:
            target = self._work.target(path).decode("utf-8")
            parts = link_parts(path, target)
        except UnicodeDecodeError:
            return "is a link to a name that is not UTF-8"
        except ChangeSetError as error:
            return str(error).partition(": ")[2]
        if has_hidden(target) or {"\n", "\t", "\\"} & set(target) or len(target) > limits.TAR_PATH_BYTES // 4:
            return "is a link to a name with hidden characters, or to a long one"
        for depth in range(1, len(parts) + 1):
            passed = self._work.look("/".join(parts[:depth]))
            if passed is not None and passed.kind == "link":
                return "is a link over another link"
        return None

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


def looks_bare(names: Mapping[str, TreeEntry]) -> bool:
    """Whether git or Subversion would take a folder with these names for a repository."""
    keys = set(map(collision_key, names))
    return keys >= _GIT or keys >= {"head", "commondir"} or keys >= _SUBVERSION


def _above(path: str) -> Iterator[str]:
    """The folders that a path is in, the project's root (the empty path) among them."""
    parts = path.split("/")
    return ("/".join(parts[:depth]) for depth in range(len(parts)))


def _wanted(candidates: Iterable[str]) -> dict[str, set[str] | None]:
    """For each folder on the way to a candidate the names to look at; a folder that is not named is looked at whole."""
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
