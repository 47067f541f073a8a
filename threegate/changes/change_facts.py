"""The meaning of a change set, computed from its bytes: the facts that a Job binds, and the diff that a
person reads.

Invariant: `job_change` is a pure function of the archive and the project's place, so it is the same when a
request is approved and when it is launched. `diff_lines` compares the current bytes with the new ones; both
are read by us.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from threegate.changes.run_later import why_runs_later
from threegate.changes.table import EXECUTABLE, LINK, ChangeSetError, Row
from threegate.core import limits
from threegate.request.job import JobChange, ProjectPlace
from threegate.request.shown_whole import why_not_plain

if TYPE_CHECKING:
    from threegate.changes.change_tar import ChangeSet
    from threegate.changes.trees import Tree
    from threegate.request.model import Changes

_CONTEXT: Final = 3


@dataclass(frozen=True, slots=True)
class ChangedPath:
    """One row, and what a person has to know of it first."""

    row: Row
    size: int
    """Bytes of the new file; 0 for everything else."""
    later: str | None
    """Why it runs by itself later, or None."""
    unseen: str
    """Why its new bytes are not on the screen, or nothing."""

    @property
    def first(self) -> bool:
        """Whether it is shown before all others: a link, a change of type or mode, a deletion."""
        row = self.row
        link = LINK in (row.before and row.before.mode, row.after and row.after.mode)
        return link or row.change in ("type", "delete", "mode")


def changed_paths(change: ChangeSet, stream: BinaryIO) -> list[ChangedPath]:
    """Every row with its facts, in the order of the screen: what is seen first, what runs later, the rest."""
    found = []
    left = limits.CHANGE_SHOWN_BYTES
    for row in change.rows:
        size, later, unseen = 0, None, ""
        if row.after is not None and row.after.file:
            size = change.places[row.path][1]
            data = change.read(stream, row.path) if size <= left else b""
            if size <= left:
                unseen = why_not_plain(data)
                left -= size
            else:
                unseen = f"it has {size} bytes; of all files together {limits.CHANGE_SHOWN_BYTES} are shown"
                stream.seek(change.places[row.path][0])
                data = stream.read(limits.CHANGE_HEAD_BYTES)
            later = why_runs_later(
                row.path, executable=row.after.mode == EXECUTABLE, head=data[: limits.CHANGE_HEAD_BYTES]
            )
        elif row.after is not None and row.after.mode == LINK:
            later = why_runs_later(row.path, executable=False, head=b"")
        found.append(ChangedPath(row, size, later, unseen))
    return sorted(found, key=lambda item: (not item.first, item.later is None))


def job_change(paths: Sequence[ChangedPath], change: ChangeSet, project: ProjectPlace) -> JobChange:
    """The Job's facts about it."""
    return JobChange(
        project=project,
        sha256=change.sha256,
        paths=len(paths),
        deletions=sum(1 for item in paths if item.row.change in ("delete", "type")),
        run_later=sum(1 for item in paths if item.later is not None),
        unseen=sum(1 for item in paths if item.unseen),
    )


def check_said(said: Changes, change: ChangeSet) -> None:
    """Refuse a request whose `## Changes` is not what its archive is. Raises ChangeSetError."""
    if said.sha256 != change.sha256:
        raise ChangeSetError("the digest in ## Changes is not that of changes.tar")
    counted = dict.fromkeys(("add", "modify", "delete", "mode", "type"), 0)
    for row in change.rows:
        counted[row.change] += 1
    for kind, count in counted.items():
        if getattr(said, kind) != count:
            raise ChangeSetError(f"## Changes says {getattr(said, kind)} of {kind}, and changes.tar has {count}")
    rows = {(row.change, row.path) for row in change.rows}
    for named in said.rows:
        if named not in rows:
            raise ChangeSetError("## Changes names a path that changes.tar does not change so")


def diff_lines(project: Tree, change: ChangeSet, stream: BinaryIO, item: ChangedPath) -> list[str]:
    """The lines of one path's diff, without a head; none for what has no text. Raises OSError.

    An old file that is no text, or too large to be shown, is left away: all of the new one is shown then.
    """
    row = item.row
    if row.after is None or not row.after.file or item.unseen or row.change == "mode":
        return []
    new = change.read(stream, row.path)
    old = b""
    if row.before is not None and row.before.file:
        present = project.look(row.path)
        if present is not None and present.kind == "file" and present.size <= limits.CHANGE_SHOWN_BYTES:
            old = b"".join(project.chunks(row.path))
            if why_not_plain(old):
                old = b""
    return list(_unified(_lines(old), _lines(new)))


def _lines(data: bytes) -> list[str]:
    """Lines with a mark where the last one does not end."""
    text = data.decode("utf-8")
    lines = text.split("\n")
    last = lines.pop()
    return [*lines, f"{last}\n\\ no line end"] if last else lines


def _unified(old: list[str], new: list[str]) -> Iterator[str]:
    """A unified diff; line by line where that is quick, else all that differs in one piece."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    gone, come = old[start : len(old) - end], new[start : len(new) - end]
    if len(gone) + len(come) <= limits.CHANGE_DIFF_LINES:
        lines = difflib.unified_diff(old, new, lineterm="", n=_CONTEXT)
        yield from (part for number, line in enumerate(lines) if number > 1 for part in line.split("\n"))
        return
    before, behind = old[max(0, start - _CONTEXT) : start], old[len(old) - end :][:_CONTEXT]
    first = start - len(before) + 1
    more = len(before) + len(behind)
    yield f"@@ -{first},{len(gone) + more} +{first},{len(come) + more} @@"
    for mark, block in ((" ", before), ("-", gone), ("+", come), (" ", behind)):
        yield from (part for line in block for part in f"{mark}{line}".split("\n"))
