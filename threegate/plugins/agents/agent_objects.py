"""All objects of an agent's repository: those that it made, and those that it was given.

Invariant: what the agent made is read without git (`copy_objects.py`), the pack that the launcher made by git in a
scratch repository. Numbers and sizes are bounded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from threegate.core import limits
from threegate.core.held_folder import hold_path
from threegate.plugins.agents.agent_commits import known_objects
from threegate.plugins.agents.copy_objects import Commit, CopyObjects
from threegate.plugins.agents.work_copy import WorkCopy
from threegate.plugins.changes.git_objects import Entry, tree_entries
from threegate.plugins.changes.project_repository import ObjectStore, ProjectRepository

FOLDER_MODE: Final = b"40000"
FILE_MODES: Final = (b"100644", b"100755")
LINK_MODE: Final = b"120000"


class Difference(NamedTuple):
    """A path at which two trees differ: the entry of each; None for a folder, and where there is none."""

    path: str
    old: Entry | None
    new: Entry | None


@contextmanager
def agent_objects(copy: WorkCopy, oid: str) -> Iterator[AgentObjects]:
    """The objects of a copy's repository; `oid` is any of its ids. Raises BranchRefused, OSError."""
    repository = ProjectRepository.at(copy.run.git)
    with hold_path(copy.top) as top, CopyObjects(top) as own, ObjectStore(repository, oid, {}) as store:
        yield AgentObjects(own, store, known_objects(copy.run))


class AgentObjects:
    """Reads objects by id. Every method raises ValueError for what cannot be read, BranchRefused, OSError."""

    def __init__(self, own: CopyObjects, store: ObjectStore, known: frozenset[str]) -> None:
        self._own, self._store, self.known = own, store, known
        self._left = limits.CHANGE_WALK_ENTRIES

    def read(self, oid: str, kind: bytes, most: int) -> bytes:
        """The bytes of an object of a kind."""
        if oid in self.known:
            found, data = self._store.read(oid, most)
            if found.encode() != kind:
                raise ValueError(f"{oid} is another kind of object")
            return data
        own = self._own.read(oid, kind, most)
        if own is None:
            raise ValueError(
                f"the object {oid} cannot be read: it is missing, too large, or its bytes do not have this id"
            )
        return own

    def commit(self, oid: str) -> Commit:
        """A commit."""
        return Commit.of(self.read(oid, b"commit", limits.COMMIT_OBJECT_BYTES))

    def differences(self, old: str | None, new: str | None, prefix: str = "") -> Iterator[Difference]:
        """The paths at which two trees differ, without folders."""
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
            folders = [entry[1] if entry is not None and entry[0] == FOLDER_MODE else None for entry in (one, other)]
            if folders != [None, None]:
                yield from self.differences(folders[0], folders[1], f"{path}/")
            leaves = [None if entry is None or entry[0] == FOLDER_MODE else entry for entry in (one, other)]
            if leaves != [None, None]:
                yield Difference(path, leaves[0], leaves[1])

    def _entries(self, tree: str | None) -> Mapping[bytes, Entry]:
        if tree is None:
            return {}
        return tree_entries(self.read(tree, b"tree", limits.TREE_OBJECT_BYTES), len(tree) // 2)
