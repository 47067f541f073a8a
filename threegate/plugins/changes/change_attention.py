"""How soon a person should look at a change set, by what its lines do: the order of lists, and of nothing else.

Invariant: nothing that decides reads it, and it is part of no signed text. ``rest`` is only what nothing runs and no
mark is in: a change of source is at least ``look``. The time grows with the bytes alone, because lines are compared as
a set: a line that was only moved says nothing here, though the screen marks it. What is too large to be looked through
comes first. Source: docs/spec/8-agents.md, "Marks".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from threegate.core import limits
from threegate.core.file_diff import Mark, Piece, TextChange
from threegate.plugins.changes.action import ProjectPlace
from threegate.plugins.changes.change_facts import ChangedPath, changed_paths, renamed
from threegate.plugins.changes.change_tar import ChangeSet, read_change_set
from threegate.plugins.changes.file_kinds import kind_of
from threegate.plugins.changes.marks import (
    CODE,
    DECODES,
    ENCODED,
    HOST,
    INSTALL,
    NETWORK,
    PROCESS,
    SHELL,
    SKIPS,
    UNCHECKED,
    is_test,
    marks_of,
)
from threegate.plugins.changes.project_paths import collision_key
from threegate.plugins.changes.projects import hold_project
from threegate.plugins.changes.run_later import AGENT, HOOK
from threegate.plugins.changes.table import EXECUTABLE, LINK
from threegate.plugins.changes.trees import HeldTree, Tree
from threegate.request.backend import Attention
from threegate.request.shown_whole import why_not_plain

_ACTS: Final = frozenset({PROCESS, SHELL, NETWORK, CODE})
_HIDES: Final = frozenset({DECODES, ENCODED})
_UPDATED: Final = ".pre-commit-config.yaml"
"""Lists versions that robots bring up to date every week; a new one, or a new host in it, is another matter."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One path, with the marks of its lines."""

    item: ChangedPath
    marks: Sequence[Mark] = ()
    added: Sequence[str] = ()
    """Lines that the old file does not have."""


def attention_of_change(stream: BinaryIO, place: ProjectPlace) -> Attention:
    """The class of the change set in this archive. Raises Refused, ChangeSetError, OSError."""
    change = read_change_set(stream)
    with hold_project(place) as held:
        looked = looked_through(HeldTree(held), change, stream)
    return "look first" if looked is None else class_of(looked)


def class_of(looked: Sequence[Looked]) -> Attention:
    """The class of these paths together."""
    if next(why_first(looked), None) is not None:
        return "look first"
    return "rest" if all(map(_nothing_runs, looked)) else "look"


def why_first(looked: Sequence[Looked]) -> Iterator[str]:
    """Why a person should look at it first, in our words."""
    for one in looked:
        yield from _why_first(one)
    tests = [one.item.row for one in looked if is_test(one.item.row.path)]
    if any(row.change == "delete" for row in tests) and not any(row.change == "add" for row in tests):
        yield "a test is deleted, and no other comes"
    unchecked = any(mark.what in (UNCHECKED, SKIPS) for one in looked for mark in one.marks)
    if unchecked and any(one.item.source and not is_test(one.item.row.path) for one in looked):
        yield "a test loses a check or is skipped, and source changes"


def _why_first(one: Looked) -> Iterator[str]:
    item, row = one.item, one.item.row
    before, after = row.before, row.after
    if after is None:
        return
    if row.change == "type" or after.mode == LINK:
        yield "a link, or another kind of file"
    if before is not None and after.mode == EXECUTABLE != before.mode:
        yield "becomes executable"
    if item.unseen and item.later is not None:
        yield "is not text, and runs later"
    if item.hidden and why_not_plain("\n".join(one.added).encode("utf-8", "surrogateescape")):
        yield "has new hidden characters"
    if item.later == AGENT or (item.later == HOOK and (before is None or not row.path.endswith(_UPDATED))):
        yield item.later
    does = {mark.what for mark in one.marks}
    hides, names, test = not _HIDES.isdisjoint(does), HOST in does, is_test(row.path)
    if not _ACTS.isdisjoint(does) and (item.later is not None or not test or hides or names):
        yield "its lines act"
    if hides and not test:
        yield "has or reads encoded text"
    if INSTALL in does or (names and item.later is not None):
        yield "runs later, and names a new host or what an installation runs"


def _nothing_runs(one: Looked) -> bool:
    """Whether a path is a file that nothing runs, all of its new text is seen, and nothing in it has a mark."""
    item, after = one.item, one.item.row.after
    if after is not None and after.folder:
        return item.row.change == "add"
    inert = item.later is None and kind_of(collision_key(item.row.path)) == "inert"
    return inert and item.row.change in ("add", "modify") and not (one.marks or item.unseen or item.hidden)


def looked_through(project: Tree, change: ChangeSet, stream: BinaryIO) -> list[Looked] | None:
    """Each path but those that have only another name; None if there is too much of them. Raises OSError."""
    paths = changed_paths(change, stream)
    same = renamed(change, stream, paths)
    left, chars, found = limits.LISTED_CHANGE_BYTES, limits.LISTED_ADDED_CHARS, []
    for item in paths:
        row, old = item.row, b""
        if row.path in same or row.path in same.values():
            continue
        if row.after is None or not row.after.file or row.change == "mode" or item.unseen:
            found.append(Looked(item))
            continue
        present = project.look(row.path) if row.before is not None and row.before.file else None
        left -= item.size + (present.size if present is not None else 0)
        if left < 0:
            return None
        if present is not None and present.kind == "file":
            old = b"".join(project.chunks(row.path))
        text = without_moved(old, change.read(stream, row.path))
        chars -= sum(map(len, text.new))
        if chars < 0:
            return None
        found.append(Looked(item, tuple(marks_of(row.path, text, runs=item.later is not None)), text.new))
    return found


def without_moved(old: bytes, new: bytes) -> TextChange:
    """A change in which each line that is in both texts, wherever, is an old one that stays. Only lines that one of
    them has, or has more often, are removed or added.
    """
    before, after = (data.decode("utf-8", "surrogateescape").split("\n") for data in (old, new))
    stays = Counter(before) & Counter(after)
    added, removed, kept = _others(after, stays), _others(before, stays), tuple(stays)
    return TextChange((*removed, *kept), added, (Piece(0, len(removed), 0, len(added)),))


def _others(lines: Sequence[str], stays: Mapping[str, int]) -> tuple[str, ...]:
    """The lines but so many of each, in their order."""
    left = dict(stays)
    found = []
    for line in lines:
        if left.get(line, 0):
            left[line] -= 1
        else:
            found.append(line)
    return tuple(found)
