"""Decide by file: take some paths of a proposed change as a draft of its own, and leave the others with the agent.

Invariant: the new draft has the verified bytes of the taken paths and nothing else; its requester is that of the old
one. The old draft ends as `superseded` by an event that names the new one, which is in place before: until then nobody
can approve it (`taken_parts.py`), and from then on nobody can approve the old one. A crash in between leaves the old
draft as it was. Nothing smaller than a path is taken: half of a file was tested by nobody.
Source: docs/spec/8-agents.md, "A part of a change".
"""

from __future__ import annotations

import os
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final

from threegate.acts.reject import end_draft, refuse_placed
from threegate.acts.retry import free_file_name
from threegate.acts.signed_acts import OperatorDecision
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.core.workspace import RequesterFolders
from threegate.launch.context import Context
from threegate.plugins.changes.action import JobPart
from threegate.plugins.changes.change_draft import said_changes
from threegate.plugins.changes.change_tar import ChangeSet, change_tar, read_change_set
from threegate.plugins.changes.changes_section import ARCHIVE, COMMITS
from threegate.plugins.changes.requested_change import RequestedChange, change_of, refuse_unfit_change
from threegate.plugins.changes.table import Row, folders_above, table_digest
from threegate.plugins.changes.taken_parts import as_recorded
from threegate.request.model import InputFile, Request
from threegate.request.render_draft import render_request, slug_of
from threegate.review.reviewed_draft import SUPERSEDED, ReviewedDraft
from threegate.trail import moves, payloads
from threegate.trail.payloads.payload import Owner
from threegate.trail.payloads.run_events import TakenPart
from threegate.trail.trail import LockedTrail

TAKE = "threegate-take-part/1"
_SUFFIX: Final = re.compile(r"\.(?:r[0-9]{1,6}|p[0-9a-f]{6})$")
_SUFFIX_CHARS: Final = len(".p000000")
_EMPTY: Final = sha256_hex(b"")
Decided = Callable[[str, Mapping[str, Any]], OperatorDecision]
"""(type of the act, what it is about) → who takes it, with a signature if one could be made (`signed_acts.decide`)."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The new draft, and what is and is not in it."""

    path: Path
    request_id: str
    of: str
    """The request that it is a part of, which has ended."""
    taken: tuple[str, ...]
    left_out: tuple[str, ...]
    """The paths that were left out now."""


def take_part(
    context: Context,
    reviewed: ReviewedDraft,
    *,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    decided: Decided,
) -> Taken:
    """Make a draft of some paths of a waiting change set, and end that as `superseded`.

    `only` are the paths to take, `without` those to leave, one of them; a folder stands for all in it. `decided` is
    called once everything else has been checked. Raises InvalidInput for a path that does not change, for paths that
    cannot be split, and if nothing or everything is taken; Refused (`project_changed` for a taken path whose file is
    another one now, `input_unfit`, and what `refuse_used` gives if somebody decided meanwhile), Unavailable without the
    run's inbox, OSError.
    """
    refuse_placed(reviewed.draft)
    name, change = reviewed.draft.path.name, change_of(reviewed.draft.path.name, reviewed.bound)
    folders = context.workspace.requester_folders(reviewed.owner)
    if not folders.inbox.is_dir():
        raise Unavailable(f"{folders.inbox}: the run that asked for this was removed; have it proposed again")
    _refuse_other_account(name, reviewed.owner)
    rows = chosen_rows(change.change, only=only, without=without)
    with reviewed.inputs[0].open() as stream:
        data = change_tar(rows, lambda row: change.change.content(stream, row.path))
    refuse_unfit_change(
        change.job.project,
        rows,
        lambda: read_change_set(data),
        what="without the other paths",
        advice="; take the other paths, or see: threegate project redraft --help",
    )
    taken_paths = {row.path for row in rows}
    left = tuple(row.path for row in change.change.rows if row.path not in taken_paths)
    part = _part(reviewed.request, change.job.part, rows, left)
    request = _request(context, reviewed.request, change, rows, data, folders.inbox)
    taken = TakenPart(
        request_id=request.request_id,
        file=request.file_name,
        sha256=table_digest(rows),
        root=part.root,
        paths=part.paths,
        of=part.of,
        left_out=tuple(map(as_recorded, part.left_out)),
    )
    about = {
        "file": moves.told_name(name),
        "draft_sha256": sha256_hex(reviewed.draft.data),
        "request_id": request.request_id,
        "part_sha256": taken.sha256,
    }
    by = decided(TAKE, about)
    with context.workspace.hold(folders.files) as files:
        files.deliver_content(data)
    placing = _Placing(context, folders, request, reviewed.owner)
    told = f"{part.paths} of {part.of} paths are the draft {request.request_id} now; the others were left out"
    try:
        end_draft(
            context,
            reviewed.draft,
            payloads.Rejected(reason=SUPERSEDED, message=told, part=taken),
            by=by,
            kind=TAKE,
            about=about,
            prepare=placing.place,
        )
    except (Refused, Unavailable, OSError):
        placing.take_back(reviewed.request.request_id)
        raise
    return Taken(
        folders.inbox / request.file_name,
        request.request_id,
        reviewed.request.request_id,
        tuple(row.path for row in rows),
        left,
    )


def _refuse_other_account(name: str, owner: Owner | None) -> None:
    """A draft outside of a run has the owner of its file as its requester, and the new one must have the same. Raises
    InvalidInput.
    """
    if isinstance(owner, int) and os.geteuid() not in (0, owner):
        raise InvalidInput(f"{name}: uid {owner} asked for it, so only that account or root can take a part of it")


# ---- which paths


def chosen_rows(change: ChangeSet, *, only: Sequence[str] = (), without: Sequence[str] = ()) -> tuple[Row, ...]:
    """The rows that are taken, with the new folders above them. Raises InvalidInput as `take_part`."""
    if bool(only) == bool(without):
        raise InvalidInput("name the paths to take, or the paths to leave with --without")
    named = {_plain(path): path for path in only or without}
    inside = {row.path for row in change.rows if not named.keys().isdisjoint((row.path, *folders_above(row.path)))}
    known = {row.path for row in change.rows}.union(*(folders_above(path) for path in inside))
    for path, given in named.items():
        if path not in known:
            raise InvalidInput(f"{given}: the change has no such path; its paths are listed by: threegate show ID")
    wanted = inside if only else {row.path for row in change.rows} - inside
    chosen = _with_folders(change.rows, wanted)
    if not chosen:
        raise InvalidInput("nothing of it is left; reject the draft instead")
    if len(chosen) == len(change.rows):
        raise InvalidInput("that is all of it; approve the draft itself")
    _refuse_split(change, chosen)
    return tuple(row for row in change.rows if row.path in chosen)


def _plain(path: str) -> str:
    """A path as the table has it, from one that was typed."""
    while path.startswith("./"):
        path = path[2:]
    return path.rstrip("/")


def _is_below(folder: str, path: str) -> bool:
    return path.startswith(f"{folder}/")


def _with_folders(rows: Sequence[Row], wanted: Collection[str]) -> set[str]:
    """The wanted paths, with the folders that are made for them, and without those that would be made for nothing."""
    made = {row.path for row in rows if row.before is None and row.after is not None and row.after.folder}
    filled = {above for row in rows for above in folders_above(row.path)}
    chosen = {path for path in wanted if path not in made or path not in filled}
    return chosen | {above for path in chosen for above in folders_above(path) if above in made}


def _refuse_split(change: ChangeSet, chosen: Collection[str]) -> None:
    """Raises InvalidInput for paths that are one change and are taken in part: it says what must come along."""
    for together in _together(change):
        inside = sorted(path for path in together.paths if path in chosen)
        missing = sorted(path for path in together.paths if path not in chosen)
        if missing and (together.needs in chosen if together.needs else inside):
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise InvalidInput(
                f"{together.needs or inside[0]}: {together.why}, so {missing[0]}{more} must come along; take both or "
                "leave both"
            )


@dataclass(frozen=True, slots=True)
class _Together:
    """Paths that are taken together."""

    paths: tuple[str, ...]
    why: str
    needs: str | None = None
    """If only this one needs the others; None if each does."""


def _together(change: ChangeSet) -> Iterable[_Together]:
    """What of a change set cannot be split."""
    gone: dict[str, list[str]] = defaultdict(list)
    come: dict[str, list[str]] = defaultdict(list)
    for at, row in enumerate(change.rows):
        before, after = row.before, row.after
        # Sorted by their parts: what is below a path comes right behind it.
        rest = (other.path for other in islice(change.rows, at + 1, None))
        below = tuple(takewhile(partial(_is_below, row.path), rest))
        if row.change == "type" and below:
            yield _Together((row.path, *below), "it becomes another kind of file with what is in it")
        elif row.change == "delete" and before is not None and before.folder and below:
            yield _Together(below, "a folder goes with all that is in it", row.path)
        elif row.change == "delete" and before is not None and before.sha256 != _EMPTY:
            gone[before.sha256].append(row.path)
        elif row.change == "add" and after is not None and not after.folder:
            come[after.sha256].append(row.path)
    for digest, paths in gone.items():
        if digest in come:
            yield _Together((*paths, *come[digest]), "it is one half of a rename")


# ---- the new draft


def _part(old: Request, whole: JobPart | None, rows: Sequence[Row], left: Sequence[str]) -> JobPart:
    """Which part of what was first proposed this is: a part of a part is a part of the whole."""
    named: list[str] = []
    size = 0
    for path in (*(whole.left_out if whole is not None else ()), *left):
        size += len(as_recorded(path))
        if size > limits.PART_NAMED_CHARS or len(named) >= limits.CHANGE_ROWS_LISTED:
            break
        named.append(path)
    root, of = (old.request_id, len(rows) + len(left)) if whole is None else (whole.root, whole.of)
    return JobPart(root, len(rows), of, tuple(named))


def _request(
    context: Context, old: Request, change: RequestedChange, rows: Sequence[Row], data: bytes, inbox: Path
) -> Request:
    """The new draft, read by gate 1; without the paths if it refuses the words in one. Raises InvalidInput."""
    now = datetime.now(UTC).replace(microsecond=0)
    with context.trail.locked() as held:
        request_id = _part_id(old.request_id)
        slug = old.file_name[len("TR-20260101-000000Z-") : -len(".md")].removesuffix("-part")
        name = free_file_name(held, inbox, now, slug_of(f"{slug}-part"))
    as_one = ["commits: only as one commit: a part of the change was taken"]
    had_commits = any(item.name == COMMITS for item in old.inputs)
    for named in (True, False):
        fresh = replace(
            old.drafted_again(name, request_id, now),
            inputs=(InputFile(ARCHIVE, sha256_hex(data)),),
            constraints=(*old.constraints, *(as_one if had_commits else ())),
            action=old.action.changed(
                changes=said_changes(rows, table_digest(rows), named=named), derived_from=old.request_id
            ),
        )
        report = context.read(render_request(fresh), name, "draft", now)
        if report.request is not None:
            return report.request
    raise InvalidInput(f"{old.file_name}: no part of it can be drafted as a request; have it proposed again")


def _part_id(request_id: str) -> str:
    """A new id with the same stem. Random: the trail does not know the ids of drafts that no daemon has seen yet."""
    stem = _SUFFIX.sub("", request_id)[: limits.REQUEST_ID_CHARS - _SUFFIX_CHARS]
    return f"{stem}.p{secrets.token_hex(3)}"


class _Placing:
    """The new draft's way into the inbox, and out of it again if the old one could not be ended."""

    def __init__(self, context: Context, folders: RequesterFolders, request: Request, owner: Owner | None) -> None:
        self._context = context
        self._folders = folders
        self._request = request
        self._owner = owner
        self._placed = False

    def place(self, held: LockedTrail, _: Owner | None) -> None:
        """Put it there, under the lock. Raises Unavailable, OSError."""
        if held.index.history(self._request.request_id) is not None:
            raise Unavailable(f"{self._request.request_id}: was used meanwhile; take the paths again")
        with self._context.workspace.hold(self._folders.inbox) as inbox:
            owner = self._owner if isinstance(self._owner, int) else None
            inbox.deliver(self._request.file_name, self._request.data, 0o644, owner=owner)
        self._placed = True

    def take_back(self, of: str) -> None:
        """Remove it, unless the trail says that the old one has ended."""
        if not self._placed:
            return
        with self._context.trail.locked() as held:
            history = held.index.history(of)
            if history is not None and history.end is not None:
                return
            with self._context.workspace.hold(self._folders.inbox) as inbox, suppress(FileNotFoundError):
                inbox.unlink(self._request.file_name)
