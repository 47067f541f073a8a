"""The commits that an agent made in its copy: their messages, and which of them its files do not have.

Invariant: git never reads the copy. References and objects are read without it (`copy_objects.py`), below a held
descriptor and through no link, while the agent is frozen or gone; sizes and numbers are bounded. What was in the
repository at the start is in the index of the pack that the launcher made, which the agent cannot write. A commit that
cannot be read this way is counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.core import durable, limits
from threegate.core.held_folder import HeldFolder, hold_path
from threegate.core.workspace import AgentRun
from threegate.plugins.agents.copy_objects import Commit, CopyObjects
from threegate.plugins.agents.held_paths import opened, read_inside
from threegate.plugins.agents.work_copy import WorkCopy
from threegate.plugins.changes.git_objects import PACK_INDEX, is_id
from threegate.request.characters import visible

_HEADS: Final = "refs/heads/"
_NAMED: Final = 8
"""Branches that a line names."""


@dataclass(frozen=True, slots=True)
class AgentCommit:
    """A commit that the agent made. If the files of the copy do not have it, `branches` are those that lead to it."""

    oid: str
    message: str
    branches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentCommits:
    """The commits since the start, the newest first: those of HEAD, and those that only other branches have."""

    checked_out: tuple[AgentCommit, ...] = ()
    elsewhere: tuple[AgentCommit, ...] = ()
    tips: tuple[tuple[str, AgentCommit], ...] = ()
    """The branches of those elsewhere, with the commit that each is at."""
    unread: int = 0
    """Commits that HEAD or a branch leads to, and that cannot be read."""
    archive: bytes = b""
    """`commits.tar` of those of HEAD, where they can be delivered one by one (`carried_commits.py`)."""
    only_as_one: str = ""
    """Why they cannot."""

    @property
    def messages(self) -> tuple[str, ...]:
        """Of those that the files of the copy have."""
        return tuple(commit.message for commit in self.checked_out)

    def of(self, branch: str) -> AgentCommits:
        """Those of a branch that is not checked out, as if it was checked out."""
        return AgentCommits(tuple(commit for commit in self.elsewhere if branch in commit.branches))

    def lines(self) -> Iterator[str]:
        """Lines about them, without their messages: how many there are, and which the files do not have."""
        if self.checked_out:
            yield f"{_many(len(self.checked_out))} of the agent: the messages are in the draft"
            if self.archive:
                yield "they can be delivered one by one: threegate approve --deliver commits"
        yield from self.as_one()
        if names := self._elsewhere():
            yield f"{_many(len(self.elsewhere))} of the agent on {names}, which is not checked out"
        yield from self._not_read()

    def left_out(self) -> Iterator[str]:
        """Those that the files of the copy do not have, and those that cannot be read."""
        if names := self._elsewhere():
            yield (
                f"left out: {_many(len(self.elsewhere))} on {names}, which is not checked out; after git switch in the "
                "jail its files can be proposed"
            )
        yield from self._not_read()

    def as_one(self) -> Iterator[str]:
        """Why they can only be delivered as one commit."""
        if self.only_as_one:
            line = visible(f"commits: only as one commit: {self.only_as_one}")
            yield line.replace("\t", " ").replace("\n", " ")[: limits.LIST_TEXT_CHARS]

    def _elsewhere(self) -> str:
        branches = dict.fromkeys(name for commit in self.elsewhere for name in commit.branches)
        names = ", ".join(ascii(name)[1:-1] for name in list(branches)[:_NAMED])
        return f"{names} and {len(branches) - _NAMED} more" if len(branches) > _NAMED else names

    def _not_read(self) -> Iterator[str]:
        if self.unread:
            yield f"left out: the messages of {_many(self.unread)} that cannot be read"


NO_COMMITS: Final = AgentCommits()


def _many(count: int) -> str:
    return "1 commit" if count == 1 else f"{count} commits"


def read_commits(copy: WorkCopy) -> AgentCommits:
    """The commits of a copy; none without a repository, or one that cannot be read."""
    try:
        with hold_path(copy.top) as top, CopyObjects(top) as objects:
            return _Reading(top, objects, known_objects(copy.run)).commits()
    except OSError:
        return NO_COMMITS


class _Reading:
    """One reading of the commits of a copy."""

    def __init__(self, top: HeldFolder, objects: CopyObjects, known: frozenset[str]) -> None:
        self._top = top
        self._objects = objects
        self._known = known
        self._left = limits.COMMITS_READ
        self._unread: set[str] = set()

    def commits(self) -> AgentCommits:
        references = self._references()
        head = self._text("HEAD").strip()
        name = head.removeprefix("ref: ")
        start = references.get(name, "") if head.startswith("ref: ") else head
        mine = self._from(start, set())
        others: dict[str, AgentCommit] = {}
        for ref, oid in references.items():
            for commit in self._from(oid, set(mine)).values():
                named = others.get(commit.oid, commit).branches
                others[commit.oid] = AgentCommit(commit.oid, commit.message, (*named, ref.removeprefix(_HEADS)))
        tips = tuple((ref.removeprefix(_HEADS), others[oid]) for ref, oid in references.items() if oid in others)
        return AgentCommits(tuple(mine.values()), tuple(others.values()), tips, len(self._unread))

    def _from(self, oid: str, seen: set[str]) -> dict[str, AgentCommit]:
        """The new commits that one leads to, itself first."""
        found: dict[str, AgentCommit] = {}
        left = [oid]
        while left:
            oid = left.pop(0)
            if not is_id(oid) or oid in seen or oid in self._known or self._left == 0:
                continue
            seen.add(oid)
            self._left -= 1
            data = self._objects.read(oid, b"commit", limits.COMMIT_OBJECT_BYTES)
            if data is None:
                self._unread.add(oid)
                continue
            commit = Commit.of(data)
            found[oid] = AgentCommit(oid, commit.message)
            left += commit.parents
        return found

    def _references(self) -> dict[str, str]:
        """Branches and the stash, with the id that each has."""
        found: dict[str, str] = {}
        for line in self._text("packed-refs").splitlines():
            oid, _, name = line.partition(" ")
            if name.startswith(_HEADS):
                found[name] = oid
        for name in self._names(_HEADS.rstrip("/")):
            found[name] = self._text(name).strip()
        found["stash"] = self._text("refs/stash").strip()
        return {name: oid for name, oid in list(found.items())[: limits.COMMITS_READ] if is_id(oid)}

    def _names(self, folder: str) -> Iterator[str]:
        """The files below a folder of the repository, in no deeper folders than names of branches have."""
        left, count = [folder], 0
        while left:
            at = left.pop()
            with suppress(OSError), opened(self._top.fileno(), f".git/{at}") as held, os.scandir(held) as entries:
                for entry in entries:
                    count += 1
                    if count > limits.COMMITS_READ:
                        return
                    path = f"{at}/{entry.name}"
                    if not entry.is_dir(follow_symlinks=False):
                        yield path
                    elif path.count("/") < limits.AGENT_PATH_DEPTH:
                        left.append(path)

    def _text(self, path: str) -> str:
        with suppress(OSError):
            return read_inside(self._top, f".git/{path}", max_bytes=limits.COMMIT_OBJECT_BYTES).decode(
                "utf-8", "replace"
            )
        return ""


def known_objects(run: AgentRun) -> frozenset[str]:
    """The ids of all objects that the agent's repository had at the start (git, Documentation/gitformat-pack).

    Raises OSError.
    """
    found: set[str] = set()
    for path in sorted(Path(run.git / "objects" / "pack").glob("*.idx")):
        data = durable.read_regular(path, max_bytes=limits.AGENT_MANIFEST_BYTES)
        if not data.startswith(PACK_INDEX):
            continue
        start = len(PACK_INDEX) + 256 * 4
        count = int.from_bytes(data[start - 4 : start], "big")
        # The index ends with two checksums; before these, each object has its id, a CRC, an offset of 4 bytes, and the
        # larger packs some of 8. The length of a pack's name shows the length of its ids.
        size = 32 if len(path.stem.removeprefix("pack-")) == 64 else 20
        found.update(data[at : at + size].hex() for at in range(start, start + count * size, size))
    return frozenset(found)
