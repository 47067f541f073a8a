"""The files that a branch of the agent's has and its copy does not, as if the agent had checked it out.

Invariant: git never reads the copy (`agent_objects.py`). The outcome is compared, named and left out like any other
change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from threegate.core import limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.plugins.agents.agent_commits import AgentCommit
from threegate.plugins.agents.agent_objects import FILE_MODES, LINK_MODE, AgentObjects, agent_objects
from threegate.plugins.agents.work_changes import read_changes
from threegate.plugins.agents.work_copy import WorkCopy
from threegate.plugins.changes.change_tar import carried_bytes
from threegate.plugins.changes.make import MadeChangeSet
from threegate.plugins.changes.project_repository import BranchRefused
from threegate.plugins.changes.table import ChangeSetError
from threegate.plugins.changes.trees import Tree, TreeEntry

_Leaf = tuple[bytes, str]
"""Mode and id of a file or link of a tree."""


def read_branch(copy: WorkCopy, tip: AgentCommit) -> MadeChangeSet:
    """The change set of what a commit of the agent and its ancestors changed since the start, on the files that the
    project had then. Raises InvalidInput, Unavailable.
    """
    try:
        with agent_objects(copy, tip.oid) as objects:
            leaves = _changed(objects, tip.oid)

            def blob(oid: str) -> bytes:
                return objects.read(oid, b"blob", carried_bytes())

            return read_changes(copy, instead=lambda project: (_BranchTree(project, leaves, blob), [*leaves]))
    except (BranchRefused, ChangeSetError, ValueError) as error:
        raise InvalidInput(f"the agent's branch: {error}") from None
    except OSError as error:
        raise Unavailable(f"the agent's branch cannot be read ({error.strerror or error})") from None


def _changed(objects: AgentObjects, commit: str) -> dict[str, _Leaf | None]:
    """Each path at which the commit differs from the nearest commit of the start. Raises ValueError."""
    before: str | None = None
    left, seen = [commit], set[str]()
    while left and before is None:
        oid = left.pop(0)
        if oid in seen or len(seen) > limits.COMMITS_READ:
            continue
        seen.add(oid)
        found = objects.commit(oid)
        before = found.tree if oid in objects.known else None
        left += found.parents
    if before is None:
        raise ValueError("it has no commit of the project below it, so it is not known what it changed")
    changed: dict[str, _Leaf | None] = {}
    for path, old, new in objects.differences(before, objects.commit(commit).tree):
        leaf = new if new is not None and new[0] in (*FILE_MODES, LINK_MODE) else None
        if old is not None or leaf is not None:  # a new submodule is nothing to propose
            changed[path] = leaf
    return changed


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
            return TreeEntry("link" if leaf[0] == LINK_MODE else "file", leaf[0] == b"100755", len(data))
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
