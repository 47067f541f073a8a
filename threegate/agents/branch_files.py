"""The files that a branch of the agent's has and its copy does not, as if the agent had checked it out.

Invariant: git never reads the copy. Commits, trees and blobs are loose objects that the agent made, read by ourselves
and checked against their ids, or objects of the pack that the launcher made, which git reads in a scratch repository.
Sizes and numbers are bounded. What comes out is compared, named and left out like any other change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from threegate.agents.agent_commits import AgentCommit, LooseObjects, known_objects
from threegate.agents.work_changes import read_changes
from threegate.agents.work_copy import TREE, UPPER, WorkCopy
from threegate.changes.change_tar import carried_bytes
from threegate.changes.git_objects import object_id, tree_entries
from threegate.changes.make import MadeChangeSet
from threegate.changes.project_repository import BranchRefused, ObjectStore, ProjectRepository
from threegate.changes.table import ChangeSetError
from threegate.changes.trees import Tree, TreeEntry
from threegate.core import limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.held_folder import hold_path

_TREE: Final = b"40000"
_FILES: Final = (b"100644", b"100755")
_LINK: Final = b"120000"

_Leaf = tuple[bytes, str]
"""Mode and id of a file or link of a tree."""


def read_branch(copy: WorkCopy, tip: AgentCommit) -> MadeChangeSet:
    """The change set of what a commit of the agent's changed since the start, its ancestors included, on the files that
    the project had then. Raises InvalidInput, Unavailable.
    """
    place = copy.run.work / (UPPER if copy.kind == "overlay" else TREE)
    try:
        repository = ProjectRepository.at(copy.run.git)
        with hold_path(place) as top, ObjectStore(repository, tip.oid, {}) as store:
            reading = _Reading(LooseObjects(top), store, known_objects(copy.run))
            leaves = reading.changed(tip.oid)
            return read_changes(copy, instead=lambda project: (_BranchTree(project, leaves, reading.blob), [*leaves]))
    except (BranchRefused, ChangeSetError, ValueError) as error:
        raise InvalidInput(f"the agent's branch: {error}") from None
    except OSError as error:
        raise Unavailable(f"the agent's branch cannot be read ({error.strerror or error})") from None


class _Reading:
    """Objects of the agent's repository, and what of them differs from the start."""

    def __init__(self, loose: LooseObjects, store: ObjectStore, known: frozenset[str]) -> None:
        self._loose, self._store, self._known = loose, store, known
        self._left = limits.CHANGE_WALK_ENTRIES

    def changed(self, commit: str) -> dict[str, _Leaf | None]:
        """Each path that the commit has otherwise than the nearest commit of the start. Raises ValueError."""
        tree = ""
        before: str | None = None
        left, seen = [commit], set[str]()
        while left and before is None:
            oid = left.pop(0)
            if oid in seen or len(seen) > limits.COMMITS_READ:
                continue
            seen.add(oid)
            head, _, _ = self._object(oid, b"commit", limits.COMMIT_OBJECT_BYTES).partition(b"\n\n")
            lines = head.decode("ascii", "replace").split("\n")
            named = lines[0].removeprefix("tree ")
            tree = tree or named
            before = named if oid in self._known else None
            left += [line.removeprefix("parent ") for line in lines if line.startswith("parent ")]
        if before is None:
            raise ValueError("it has no commit of the project below it, so nothing says what it changed")
        found: dict[str, _Leaf | None] = {}
        self._compare(before, tree, "", found)
        return found

    def _compare(self, old: str | None, new: str | None, prefix: str, found: dict[str, _Leaf | None]) -> None:
        if prefix.count("/") > limits.AGENT_PATH_DEPTH:
            raise ValueError(f"has folders deeper than {limits.AGENT_PATH_DEPTH}")
        before, after = self._entries(old), self._entries(new)
        for name in sorted(before.keys() | after.keys()):
            self._left -= 1
            if self._left < 0:
                raise ValueError(f"has more than {limits.CHANGE_WALK_ENTRIES} names")
            one, other = before.get(name), after.get(name)
            if one == other:
                continue
            path = prefix + os.fsdecode(name)
            folders = [entry[1] if entry is not None and entry[0] == _TREE else None for entry in (one, other)]
            if folders != [None, None]:
                self._compare(folders[0], folders[1], f"{path}/", found)
            if other is not None and other[0] in (*_FILES, _LINK):
                found[path] = other
            elif one is not None and one[0] != _TREE:
                found[path] = None

    def _entries(self, tree: str | None) -> Mapping[bytes, _Leaf]:
        if tree is None:
            return {}
        return tree_entries(self._object(tree, b"tree", limits.TREE_OBJECT_BYTES), len(tree) // 2)

    def blob(self, oid: str) -> bytes:
        """The bytes of a file. Raises ValueError."""
        return self._object(oid, b"blob", carried_bytes())

    def _object(self, oid: str, kind: bytes, most: int) -> bytes:
        if oid in self._known:
            found, data = self._store.read(oid, most)
            if found.encode() != kind:
                raise ValueError(f"{oid} is another kind of object")
            return data
        loose = self._loose.read(oid, kind, most)
        if loose is None:
            raise ValueError(f"the object {oid} cannot be read: the agent packed it, or it is missing or too large")
        if object_id(self._store.algorithm, kind, loose) != oid:
            raise ValueError(f"the object {oid} has other bytes than its id says")
        return loose


class _BranchTree:
    """The project with some files and links of a branch instead: a `Tree`."""

    def __init__(self, project: Tree, leaves: Mapping[str, _Leaf | None], read: Callable[[str], bytes]) -> None:
        self._project, self._leaves, self._read = project, leaves, read
        self._below: dict[str, dict[str, bool]] = {}
        """Folder → the names in it that the branch decides, and whether there is something."""
        for path, leaf in leaves.items():
            if leaf is not None:
                at = path
                while at:
                    at, _, name = at.rpartition("/")
                    self._below.setdefault(at, {})[name] = True
        for path, leaf in leaves.items():
            if leaf is None:
                at, _, name = path.rpartition("/")
                self._below.setdefault(at, {}).setdefault(name, False)

    def names(self, path: str) -> Mapping[str, TreeEntry]:
        found = {} if self._leaves.get(path) is not None else dict(self._project.names(path))
        for name in self._below.get(path, ()):
            entry = self.look(f"{path}/{name}" if path else name)
            found.pop(name, None)
            if entry is not None:
                found[name] = entry
        return {name: entry for name, entry in found.items() if not self._is_emptied(path, name, entry)}

    def _is_emptied(self, path: str, name: str, entry: TreeEntry) -> bool:
        """Whether a folder has nothing left, because the branch removed all of it: git keeps no empty one."""
        inner = f"{path}/{name}" if path else name
        return entry.kind == "folder" and inner in self._below and not self.names(inner)

    def look(self, path: str) -> TreeEntry | None:
        leaf = self._leaves.get(path)
        if leaf is not None:
            data = self._read(leaf[1])
            return TreeEntry("link" if leaf[0] == _LINK else "file", leaf[0] == b"100755", len(data))
        if any(self._below.get(path, {}).values()):
            present = self._project.look(path)
            return present if present is not None and present.kind == "folder" else TreeEntry("folder")
        return None if path in self._leaves else self._project.look(path)

    def chunks(self, path: str) -> Iterator[bytes]:
        leaf = self._leaves.get(path)
        if leaf is None:
            return self._project.chunks(path)
        return iter([self._read(leaf[1])])

    def target(self, path: str) -> bytes:
        leaf = self._leaves.get(path)
        return self._project.target(path) if leaf is None else self._read(leaf[1])
