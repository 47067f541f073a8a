"""How soon a person should look at a change set: the order of lists, and of nothing else.

Invariant: nothing is decided by it, and what cannot be looked through is never the least. A change is looked at first
for what its lines do that its files did not do before, not for how large it is. Source: docs/spec/8-agents.md, "The
order of change sets".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

from threegate.core import limits
from threegate.core.file_diff import Mark, TextChange
from threegate.plugins.changes.action import ProjectPlace
from threegate.plugins.changes.change_facts import ChangedPath, changed_paths, path_diff
from threegate.plugins.changes.change_tar import read_change_set
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
    does,
    is_test,
    marks_of,
)
from threegate.plugins.changes.projects import hold_project
from threegate.plugins.changes.run_later import AGENTS, BINARIES, is_source
from threegate.plugins.changes.table import EXECUTABLE, LINK, Row
from threegate.plugins.changes.trees import HeldTree
from threegate.request.backend import ATTENTIONS, Attention

_ACTS: Final = frozenset((PROCESS, SHELL, NETWORK, CODE))
_HIDES: Final = frozenset((DECODES, ENCODED))
_ALWAYS: Final = frozenset((SHELL, CODE, INSTALL)) | _HIDES
"""Looked at first outside of tests, whatever the file did before."""


def soonest(found: Iterable[Attention]) -> Attention:
    """The one that comes first in a list; the last of all if there are none."""
    return min(found, key=ATTENTIONS.index, default=ATTENTIONS[-1])


def attention_of_file(
    path: str, text: TextChange | None, marks: Iterable[Mark], *, later: str | None, source: bool
) -> Attention:
    """How soon a person should look at a file for its lines and for why it runs by itself, if it does."""
    kinds = {mark.what for mark in marks}
    acts, test = kinds & _ACTS, is_test(path) and later is None
    new = acts - does(path, text.old) if text is not None and acts and not test else frozenset()
    if (
        (later or "").endswith((AGENTS, BINARIES))
        or SKIPS in kinds
        or (HOST in kinds and (acts or later is not None))
        or (kinds & _HIDES and acts)
        or (not test and kinds & _ALWAYS)
        or new
    ):
        return "look first"
    return "look" if kinds or later is not None or source else "rest"


def attention_of_change(stream: BinaryIO, place: ProjectPlace) -> Attention:
    """How soon a person should look at the change set in an archive, for that project as it is. Raises ChangeSetError,
    Refused, OSError.
    """
    found: list[Attention] = []
    left = limits.CHANGE_LOOKED_BYTES
    for item, text in _looked(stream, place):
        left -= item.size + (0 if text is None else sum(map(len, text.old)))
        found.append("look first" if left < 0 else _of_path(item, text, _marks(item, text)))
        if found[-1] == "look first":
            break
    return soonest(found)


def marks_of_change(stream: BinaryIO, place: ProjectPlace) -> Iterator[tuple[str, tuple[Mark, ...]]]:
    """Each path of a change set that has marks of its lines, with them. Raises as `attention_of_change`."""
    for item, text in _looked(stream, place):
        if marks := _marks(item, text):
            yield item.row.path, marks


def _looked(stream: BinaryIO, place: ProjectPlace) -> Iterator[tuple[ChangedPath, TextChange | None]]:
    change = read_change_set(stream)
    with hold_project(place) as held:
        project = HeldTree(held)
        for item in changed_paths(change, stream):
            yield item, path_diff(project, change, stream, item, left=limits.CHANGE_LOOKED_BYTES).text


def _marks(item: ChangedPath, text: TextChange | None) -> tuple[Mark, ...]:
    return () if text is None else tuple(marks_of(item.row.path, text, runs=item.later is not None))


def _of_path(item: ChangedPath, text: TextChange | None, marks: Iterable[Mark]) -> Attention:
    path, after = item.row.path, item.row.after
    special = after is not None and (after.mode == LINK or _becomes_program(item.row))
    if item.hidden or special or (item.unseen and item.later is not None):
        return "look first"
    found = attention_of_file(path, text, marks, later=item.later, source=is_source(path))
    return soonest((found, "look" if item.first or item.unseen else "rest"))


def _becomes_program(row: Row) -> bool:
    """Whether a file that is there already becomes executable."""
    before, after = row.before, row.after
    return before is not None and after is not None and after.mode == EXECUTABLE != before.mode
