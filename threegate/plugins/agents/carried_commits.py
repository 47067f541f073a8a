"""The commits of an agent as `commits.tar`, so that they can be delivered one by one.

Invariant: what is carried are the bytes of the commits' own trees and blobs, read as hostile (`agent_objects.py`), and
all of it passes the reader that approves it. After the last commit the files are those of the change set: what the
agent did not commit is a commit of its own at the end. What cannot be carried is said by name, and then there is only
the one commit. Source: docs/spec/8-agents.md, "Each commit".
"""

from __future__ import annotations

import io
import os
from dataclasses import replace
from itertools import pairwise
from typing import Final

from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.plugins.agents.agent_commits import AgentCommits
from threegate.plugins.agents.agent_objects import FILE_MODES, LINK_MODE, AgentObjects, agent_objects
from threegate.plugins.agents.copy_objects import Commit
from threegate.plugins.agents.work_copy import WorkCopy
from threegate.plugins.changes.change_tar import change_tar, read_change_set
from threegate.plugins.changes.commit_chain import commits_tar, read_commits_tar
from threegate.plugins.changes.git_objects import Entry
from threegate.plugins.changes.make import MadeChangeSet, utf_8
from threegate.plugins.changes.project_repository import BranchRefused
from threegate.plugins.changes.protected_paths import ProtectedPaths
from threegate.plugins.changes.table import EXECUTABLE, FILE, LINK, Mode, Row, TableNode

_MODES: Final[dict[bytes, Mode]] = {FILE_MODES[0]: FILE, FILE_MODES[1]: EXECUTABLE, LINK_MODE: LINK}


def carry_commits(copy: WorkCopy, commits: AgentCommits, made: MadeChangeSet) -> AgentCommits:
    """The commits with their archive, or with the reason for which they can only be one commit. `made` is what they are
    proposed with. Called while the agent is frozen or gone.
    """
    if not commits.checked_out or not made.rows:
        return commits
    try:
        with agent_objects(copy, commits.checked_out[0].oid) as objects:
            archive = _Carrying(copy, objects, made).archive(commits.checked_out[0].oid)
    except (BranchRefused, ValueError) as error:
        return replace(commits, only_as_one=str(error))
    except OSError as error:
        return replace(commits, only_as_one=f"they cannot be read ({error.strerror or error})")
    return replace(commits, archive=archive)


class _Carrying:
    """One archive while it is made. Every method raises ValueError, or BranchRefused."""

    def __init__(self, copy: WorkCopy, objects: AgentObjects, made: MadeChangeSet) -> None:
        self._copy, self._objects, self._made = copy, objects, made
        self._protected = ProtectedPaths(copy.start.protected)
        self._data: dict[str, bytes] = {}
        """sha256 → bytes of what commits have."""
        self._left = limits.COMMITS_TAR_BYTES
        self._first: dict[str, TableNode | None] = {}
        self._last: dict[str, TableNode | None] = {}
        """What each path was before the first commit that changed it, and after the last one."""

    def archive(self, tip: str) -> bytes:
        """The archive of the commits that lead to one."""
        carried: list[tuple[str, bytes]] = []
        chain = self._chain(tip)
        for before, commit in pairwise(chain):
            rows = self._rows(before.tree, commit.tree)
            if rows:  # an empty commit has nothing that could be read
                message = commit.message.strip()[: limits.COMMIT_MESSAGE_CHARS] or "(no message)"
                carried.append((message, self._tar(rows)))
        if not carried:
            raise ValueError("they change nothing")
        if rest := self._rest():
            carried.append(("", self._tar(rest)))
        data = commits_tar(carried)
        read_commits_tar(data)  # what the approval would refuse is refused here, where it is a reason on the card
        return data

    def _chain(self, tip: str) -> list[Commit]:
        """The commit of the start, and those of the agent on it, oldest first."""
        found, oid = [self._objects.commit(tip)], tip
        while oid not in self._objects.known:
            commit = found[0]
            if len(commit.parents) != 1:
                what = "is a merge" if commit.parents else "has no commit of the project below it"
                raise ValueError(f"the commit {oid[:12]} {what}")
            if len(found) > limits.COMMITS_CARRIED:
                raise ValueError(f"they are more than {limits.COMMITS_CARRIED}")
            oid = commit.parents[0]
            found.insert(0, self._objects.commit(oid))
        return found

    def _rows(self, old: str, new: str) -> list[Row]:
        rows = []
        for path, before, after in self._objects.differences(old, new):
            if utf_8(path) != path:
                raise ValueError(f"{utf_8(path)}: a commit has this name, which is not UTF-8")
            names = path.split("/")
            if any("/".join(names[:depth]) in self._copy.start.hidden for depth in range(1, len(names) + 1)):
                raise ValueError(f"{path}: a commit changes it, and it was hidden from the agent")
            if self._protected.has(path):
                raise ValueError(f"{path}: a commit changes it, and it is protected (agents.protected)")
            row = Row(path, self._node(path, before), self._node(path, after))
            if row.before != row.after:
                rows.append(row)
                self._first.setdefault(path, row.before)
                self._last[path] = row.after
        return rows

    def _node(self, path: str, entry: Entry | None) -> TableNode | None:
        if entry is None:
            return None
        if entry[0] not in _MODES:
            raise ValueError(f"{path}: a commit has it as something else than a file or a link")
        data = self._objects.read(entry[1], b"blob", limits.COMMITS_TAR_BYTES)
        if entry[0] == LINK_MODE and utf_8(os.fsdecode(data)) != os.fsdecode(data):
            raise ValueError(f"{path}: a commit has it as a link to a name that is not UTF-8")
        return TableNode(_MODES[entry[0]], self._keep(path, data))

    def _keep(self, path: str, data: bytes) -> str:
        digest = sha256_hex(data)
        if digest not in self._data:
            self._left -= len(data)
            if self._left < 0:
                raise ValueError(f"{path}: they have more than {limits.COMMITS_TAR_BYTES // limits.MIB} MiB together")
            self._data[digest] = data
        return digest

    def _rest(self) -> list[Row]:
        """What the change set has beyond the last commit. A file that differs in line ends only is the same: git may
        have converted it.
        """
        proposed = {row.path: row for row in self._made.rows}
        for path, node in self._last.items():
            if node != self._first[path] and path not in proposed:
                raise ValueError(f"{path}: is committed, and not in what is proposed")
        change = read_change_set(self._made.data)
        archive = io.BytesIO(self._made.data)
        rest = []
        for path, row in proposed.items():
            becomes = None if row.after is None or row.after.folder else row.after
            was = None if row.before is None or row.before.folder else row.before
            has = self._last.get(path, was)
            if has == becomes:
                continue
            if becomes is not None:
                target = change.targets.get(path)
                data = change.read(archive, path) if target is None else target.encode()
                if has is not None and has.mode == becomes.mode and self._same_text(has, data):
                    continue
                self._keep(path, data)
            rest.append(Row(path, has, becomes))
        return rest

    def _same_text(self, has: TableNode, data: bytes) -> bool:
        return has.sha256 in self._data and data.replace(b"\r\n", b"\n") == self._data[has.sha256]

    def _tar(self, rows: list[Row]) -> bytes:
        return change_tar(rows, lambda row: self._data[row.after.sha256 if row.after is not None else ""])
