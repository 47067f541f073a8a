"""Draft an agent's change set again after its project changed: a three-way merge, file by file.

Invariant: nothing in the project is written, and the result is a draft like any other, which a person reads
and signs. A file that both sides changed is merged by `git merge-file` from three plain files outside any
repository: the bytes that the run's launcher kept, those of the project, and those of the change set, each
with the digest that the change set names. What cannot be merged is left out by name, and stays in the run's work copy.
Source: docs/spec/8-agents.md, "Draft again".
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from threegate.acts.retry import free_file_name, free_request_id
from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.core.workspace import AgentRun
from threegate.launch.context import Context
from threegate.plugins.changes.change_draft import said_changes
from threegate.plugins.changes.change_tar import ChangeSet, change_tar, read_change_set
from threegate.plugins.changes.changes_section import ARCHIVE
from threegate.plugins.changes.checks import check_project, fitting_rows
from threegate.plugins.changes.merge import base_name, merge_files
from threegate.plugins.changes.projects import hold_project
from threegate.plugins.changes.requested_change import RequestedChange, change_of
from threegate.plugins.changes.table import ChangeSetError, Row, TableNode, table_digest
from threegate.plugins.changes.trees import HeldTree, node_of
from threegate.request.model import InputFile, Request
from threegate.request.render_draft import render_request, slug_of
from threegate.review.reviewed_draft import ReviewedDraft

_AGAIN: Final = "drafted again from "
_CONFLICT: Final = "both sides changed it in ways that cannot be merged"


def _advice(owner: int | str | None) -> str:
    """What to do about a conflict."""
    if not isinstance(owner, str):
        return "have it proposed again"
    return f"its copy has the agent's side: threegate agent continue {owner}"


@dataclass(frozen=True, slots=True)
class Redrafted:
    """The new draft, the merged paths, and the paths that the project already has."""

    path: Path
    request_id: str
    merged: tuple[str, ...]
    there_already: tuple[str, ...]
    left_out: Mapping[str, str]
    """Paths that are not in the new draft, with the reasons."""


def redraft(context: Context, reviewed: ReviewedDraft) -> Redrafted:
    """Draft a change set again for the current project; the old draft stays.

    Raises InvalidInput if there is nothing to merge, Refused (project_changed, input_unfit) for what cannot
    be merged, Unavailable without git or without the inbox, OSError.
    """
    name, change = reviewed.draft.path.name, change_of(reviewed.draft.path.name, reviewed.bound)
    if reviewed.draft.placed is not None:
        raise InvalidInput(f"{name}: cannot be drafted again; have it proposed again")
    requester_folders = context.workspace.requester_folders(reviewed.owner)
    if not requester_folders.inbox.is_dir():
        raise Unavailable(f"{requester_folders.inbox}: the run that asked for this was removed; have it proposed again")
    merging = _Merging(change.change, requester_folders.base if isinstance(requester_folders, AgentRun) else None)
    data = _merged(merging, reviewed, change)
    if not merging.moved:
        raise InvalidInput(f"{name}: the project has not changed since; approve the draft itself")
    request = _request(context, reviewed.request, change, merging, data, requester_folders.inbox)
    with context.workspace.hold(requester_folders.files) as files:
        files.deliver_content(data)
    with context.workspace.hold(requester_folders.inbox) as inbox:
        inbox.deliver(request.file_name, request.data, 0o644)
    return Redrafted(
        requester_folders.inbox / request.file_name,
        request.request_id,
        tuple(merging.merged),
        tuple(merging.there),
        merging.left_out,
    )


class _Merging:
    """The entries of a change set compared with the current project: kept, merged, already there, or in conflict."""

    def __init__(self, change: ChangeSet, base: Path | None) -> None:
        self._change = change
        self._base = base
        self.rows: list[Row] = []
        self.content: dict[str, bytes] = {}
        """path → bytes of a file that differs from the old change set."""
        self.merged: list[str] = []
        self.there: list[str] = []
        self.conflicts: list[str] = []
        self.left_out: dict[str, str] = {}
        """path → why it is not in the new draft."""

    @property
    def moved(self) -> bool:
        """Whether the project differs from the one the change was made from."""
        return bool(self.merged or self.there or self.left_out)

    def add(self, tree: HeldTree, stream: BinaryIO, row: Row) -> None:
        """Process one entry. Raises OSError, Unavailable."""
        entry = tree.look(row.path)
        if entry is not None and entry.kind not in ("file", "folder", "link"):
            self.conflicts.append(row.path)
            return
        now = None if entry is None else node_of(tree, row.path, entry)
        if now == row.before:
            self.rows.append(row)
        elif now == row.after:
            self.there.append(row.path)
        elif (content := self._three_ways(tree, stream, row, now)) is None:
            self.conflicts.append(row.path)
        else:
            assert row.before and row.after and now
            mode = now.mode if row.after.mode == row.before.mode else row.after.mode
            self.merged.append(row.path)
            self.content[row.path] = content
            after = TableNode(mode, sha256_hex(content))
            if after != now:
                self.rows.append(Row(row.path, now, after))

    def _three_ways(self, tree: HeldTree, stream: BinaryIO, row: Row, now: TableNode | None) -> bytes | None:
        """The bytes of a file that both sides changed; None if they cannot be merged."""
        before, after = row.before, row.after
        if not (before and after and now and before.file and after.file and now.file):
            return None
        theirs, ours = self._change.read(stream, row.path), b"".join(tree.chunks(row.path))
        if sha256_hex(ours) != now.sha256:
            return None
        if after.sha256 in (before.sha256, now.sha256):
            return ours
        if now.sha256 == before.sha256:
            return theirs
        base = self._base_of(row.path)
        return merge_files(ours, base, theirs) if sha256_hex(base) == before.sha256 else None

    def _base_of(self, path: str) -> bytes:
        """The launcher's copy of a path; None if it kept none."""
        if self._base is not None:
            with suppress(OSError):
                return durable.read_regular(self._base / base_name(path), max_bytes=limits.AGENT_BASE_BYTES)
        return b""


def _merged(merging: _Merging, reviewed: ReviewedDraft, change: RequestedChange) -> bytes:
    """`changes.tar` of the merged entries; empty if the project has not changed. Raises Refused, InvalidInput."""
    place = change.job.project
    with hold_project(place) as held, reviewed.inputs[0].open() as stream:
        tree = HeldTree(held)
        try:
            for row in change.change.rows:
                merging.add(tree, stream, row)
            if not merging.rows and not merging.conflicts:
                raise InvalidInput(f"{place.path}: already has all of this change; reject the draft")
            merging.rows = list(
                fitting_rows(
                    tree,
                    [*merging.rows, *(row for row in change.change.rows if row.path in merging.conflicts)],
                    lambda path: change.change.targets[path],
                    merging.left_out.setdefault,
                    without=dict.fromkeys(merging.conflicts, _CONFLICT),
                )
            )
            if not merging.moved:
                return b""
            if not merging.rows:
                named = ", ".join(list(merging.left_out)[: limits.CHANGE_CONFLICTS_NAMED])
                more = len(merging.left_out) - limits.CHANGE_CONFLICTS_NAMED
                raise Refused(
                    "project_changed",
                    f"both sides changed {named}{f' and {more} more' if more > 0 else ''} in ways that cannot be "
                    f"merged, and nothing else is left of it; {_advice(reviewed.owner)}",
                )
            data = change_tar(merging.rows, lambda row: _content(merging, change.change, stream, row))
            check_project(tree, read_change_set(data), place.uid)
        except ChangeSetError as error:
            raise Refused("input_unfit", f"changes.tar: {error}") from None
        return data


def _content(merging: _Merging, change: ChangeSet, stream: BinaryIO, row: Row) -> bytes:
    found = merging.content.get(row.path)
    return change.content(stream, row.path) if found is None else found


def _request(
    context: Context, old: Request, change: RequestedChange, merging: _Merging, data: bytes, inbox: Path
) -> Request:
    """The new draft, read by gate 1; without the paths if it refuses the words in one. Raises InvalidInput."""
    now = datetime.now(UTC).replace(microsecond=0)
    with context.trail.locked() as held:
        request_id = free_request_id(held, old.request_id)
        slug = old.file_name[len("TR-20260101-000000Z-") : -len(".md")].removesuffix("-merged")
        name = free_file_name(held, inbox, now, slug_of(f"{slug}-merged"))
    told = (
        f"{_AGAIN}{old.request_id}: {len(merging.merged)} files merged with the project, "
        f"{len(merging.there)} already there"
    )
    left_out = [f"left out: {path}: {why}"[: limits.LIST_TEXT_CHARS] for path, why in merging.left_out.items()]
    before = [line for line in old.constraints if not line.startswith(_AGAIN)]
    part = change.job.part
    if part is not None:  # what is merged is another change than the one that was taken, and only says so
        before.append(f"part: {part.paths} of {part.of} paths of {part.root} were taken; the words describe all")
    for named in (True, False):
        if named:
            lines = left_out[: limits.CHANGE_CONFLICTS_NAMED]
        else:
            lines = []
        if len(left_out) > len(lines):
            lines.append(f"left out: {len(left_out) - len(lines)} paths that both sides changed")
        fresh = replace(
            old,
            file_name=name,
            request_id=request_id,
            created_utc=now,
            inputs=(InputFile(ARCHIVE, sha256_hex(data)),),
            constraints=(*before, told, *lines),
            action=old.action.changed(
                changes=said_changes(merging.rows, table_digest(merging.rows), named=named), derived_from=""
            ),
        )
        report = context.read(render_request(fresh), name, "draft", now)
        if report.request is not None:
            return report.request
    raise InvalidInput(f"{old.file_name}: cannot be drafted again as the same request; have it proposed again")
