"""The meaning of a change set, computed from its bytes: the facts that a Job binds, and the diff that a person reads.

Invariant: `job_change` is a pure function of the archive and the project's place, so it is the same when a request is
approved and when it is launched. `path_diff` compares the current bytes with the new ones; both are read by us. A path
without a diff has words that say why; one odd character never takes a diff away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple

from threegate.core import limits
from threegate.core.file_diff import TextChange
from threegate.plugins.changes.action import Changes, JobChange, ProjectPlace
from threegate.plugins.changes.change_tar import ChangeSet
from threegate.plugins.changes.path_rules import link_parts
from threegate.plugins.changes.run_later import LinkNames, is_source, why_link_runs_later, why_runs_later
from threegate.plugins.changes.table import EXECUTABLE, LINK, ChangeSetError, Row, count_changes, same_bytes
from threegate.plugins.changes.trees import Tree
from threegate.request.shown_whole import why_not_plain
from threegate.review.text_change import text_change

_NO_TEXT: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f\udc80-\udcff]")
"""Control characters that text does not have, and bytes that are not UTF-8 (as `surrogateescape` decodes them)."""


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
    hidden: str = ""
    """What in its new bytes is not seen, or does not mean what is seen, or nothing."""

    @property
    def first(self) -> bool:
        """Whether it is shown before all others: a link, a change of type or mode, a deletion, hidden characters."""
        row = self.row
        link = LINK in (row.before and row.before.mode, row.after and row.after.mode)
        return link or bool(self.hidden) or row.change in ("type", "delete", "mode")

    @property
    def source(self) -> bool:
        """Whether it is program source: it runs when someone runs the project."""
        return self.later is None and self.row.after is not None and is_source(self.row.path)

    def order(self) -> tuple[bool, bool, bool]:
        """Where it is on the screen: what sorts first is shown first."""
        return not self.first, self.later is None, not self.source


class PathDiff(NamedTuple):
    """One path's diff, None where there is none; `why` the old bytes are not in it."""

    text: TextChange | None
    why: str = ""
    removed_bytes: int = 0
    """Bytes of a file that is not there afterwards."""


def changed_paths(change: ChangeSet, stream: BinaryIO) -> list[ChangedPath]:
    """Every row with its facts, in the order of the screen (`ChangedPath.order`)."""
    found = []
    left = limits.CHANGE_SHOWN_BYTES
    # Links of the change set itself: by another name a file may be one that tools run.
    leads = {path: "/".join(link_parts(path, target)) for path, target in change.targets.items()}
    names = LinkNames(leads)
    for row in change.rows:
        size, later, unseen, hidden = 0, None, "", ""
        if row.after is not None and row.after.file:
            size = change.places[row.path][1]
            data = change.read(stream, row.path) if size <= left else b""
            if size <= left:
                unseen = _why_no_text(data)
                hidden = "" if unseen else why_not_plain(data)
                left -= size
            else:
                unseen = f"it has {size} bytes; of all files together {limits.CHANGE_SHOWN_BYTES} are shown"
                stream.seek(change.places[row.path][0])
                data = stream.read(limits.CHANGE_HEAD_BYTES)
            executable, head = row.after.mode == EXECUTABLE, data[: limits.CHANGE_HEAD_BYTES]
            later = why_runs_later(row.path, executable=executable, head=head)
            later = later or names.why_runs_later(row.path, executable=executable, head=head)
        elif row.after is not None and row.after.mode == LINK:
            later = why_link_runs_later(row.path, leads[row.path])
        found.append(ChangedPath(row, size, later, unseen, hidden))
    return sorted(found, key=ChangedPath.order)


def job_change(paths: Sequence[ChangedPath], change: ChangeSet, project: ProjectPlace) -> JobChange:
    """The Job's facts about it. A path that several commits change counts once for each fact."""

    def count(which: Callable[[ChangedPath], object]) -> int:
        return len({item.row.path for item in paths if which(item)})

    return JobChange(
        project=project,
        sha256=change.sha256,
        paths=count(lambda item: True),
        deletions=count(lambda item: item.row.change in ("delete", "type")),
        run_later=count(lambda item: item.later is not None),
        unseen=count(lambda item: item.unseen),
        hidden=count(lambda item: item.hidden),
    )


def renamed(change: ChangeSet, stream: BinaryIO, paths: Sequence[ChangedPath]) -> dict[str, str]:
    """New path → old path of what has the same bytes and mode under another name, and runs no sooner by it.

    What is made to run by its new name, and what hides something, stays a deletion and an addition, so that all of it
    is read.
    """
    found = {}
    news = {item.row.path: item for item in paths}
    for old, new in same_bytes([item.row for item in paths]):
        head = b""
        if new.path in change.places:
            stream.seek(change.places[new.path][0])
            head = stream.read(min(change.places[new.path][1], limits.CHANGE_HEAD_BYTES))
        executable = new.after is not None and new.after.mode == EXECUTABLE
        ran = why_runs_later(old.path, executable=executable, head=head) is not None
        item = news[new.path]
        if not item.hidden and (ran or (item.later is None and (is_source(old.path) or not item.source))):
            found[new.path] = old.path
    return found


def check_said(said: Changes, change: ChangeSet) -> None:
    """Refuse a request whose `## Changes` is not what its archive is. Raises ChangeSetError."""
    if said.sha256 != change.sha256:
        raise ChangeSetError("the digest in ## Changes is not that of changes.tar")
    for kind, count in count_changes(change.rows).items():
        if getattr(said, kind) != count:
            raise ChangeSetError(f"## Changes says {getattr(said, kind)} of {kind}, and changes.tar has {count}")
    rows = {(row.change, row.path) for row in change.rows}
    for named in said.rows:
        if named not in rows:
            raise ChangeSetError("## Changes names a path that changes.tar does not change in this way")


def path_diff(
    project: Tree, change: ChangeSet, stream: BinaryIO, item: ChangedPath, *, left: int = limits.CHANGE_SHOWN_BYTES
) -> PathDiff:
    """One path's diff, without a head. Raises OSError for the archive, never for the project's file.

    An old file that cannot be read, is not text, or is too large is left out, with the reason: all of the new one is
    shown then. `left` is how much is still shown of what is deleted. What is hidden is in its lines as it is: a screen
    writes it as an escape.
    """
    row = item.row
    if item.unseen or row.change == "mode":
        return PathDiff(None)
    old, why = b"", ""
    stays = row.after is not None and row.after.file
    if row.before is not None and row.before.file:
        try:
            old, why = _old_bytes(project, row.path, limits.CHANGE_SHOWN_BYTES if stays else left, deleted=not stays)
        except OSError as error:
            why = f"it cannot be read ({error.strerror or type(error).__name__})"
    text = file_change(old, change.read(stream, row.path) if stays else b"")
    return PathDiff(text, why, 0 if stays else len(old))


def file_change(old: bytes, new: bytes) -> TextChange | None:
    """How the bytes of a file become others; None if they are the same."""
    return text_change(_decoded(old), _decoded(new))


def _old_bytes(project: Tree, path: str, most: int, *, deleted: bool) -> tuple[bytes, str]:
    """The project's file, or why it is not shown. Raises OSError."""
    present = project.look(path)
    if present is None or present.kind != "file":
        return b"", "it is gone"
    if present.size > most:
        which = "of all deleted files together" if deleted else "at most"
        return b"", f"it has {present.size} bytes, and {which} {limits.CHANGE_SHOWN_BYTES} are shown"
    data = b"".join(project.chunks(path))
    why = _why_no_text(data)
    return (b"", why) if why else (data, "")


def _why_no_text(data: bytes) -> str:
    """Why nobody could read these bytes as lines, in words; nothing for text, whatever is hidden in it."""
    text = _decoded(data)
    odd = len(text) - len(_NO_TEXT.sub("", text))
    if odd * limits.CHANGE_ODD_SHARE <= len(text):
        return ""
    return f"it is not text ({odd} of its {len(text)} characters are controls or not UTF-8)"


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
