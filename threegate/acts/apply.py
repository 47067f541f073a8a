"""Applying a finished write or cleanup to the project: shown, signed, checked again, done atomically, with a backup.

Invariant: only bytes whose sha256 the trail's `finished` names are written; the project must be what it was when the
draft pinned it (by hash, also at the very moment of the exchange); no protected path, no link, nothing outside; what
was there lies in `.threegate-backup/REQUEST_ID/` of the project afterwards.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threegate.acts.proposal_finished import FinishedProposal, announce_act, finished_proposal, refuse_done
from threegate.changes.project_paths import PathBlocked, ProjectPath, read_path
from threegate.core import canonical, durable, limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.launch.context import Context
from threegate.proposals.gather import removal_facts
from threegate.proposals.lanes import unified_diff
from threegate.proposals.project import Project, ProjectError, read_at
from threegate.trail.payloads import Applied

BACKUP = ".threegate-backup"
APPLIED = frozenset({"file.write_safe", "project.cleanup_safe"})


@dataclass(frozen=True, slots=True)
class Change:
    """What applying would do, worked out from verified bytes."""

    finished: FinishedProposal
    project: Project
    shown: str
    """The diff, or the list of what would be moved."""
    about: Mapping[str, Any]
    """What is signed."""
    write: tuple[ProjectPath, bytes] | None = None
    moves: tuple[tuple[ProjectPath, str], ...] = ()
    """(path, sha256 of what is there) of everything that a cleanup moves."""


def plan_change(context: Context, request_id: str) -> Change:
    """Work out the change and check all of it against the trail and the project as they are now.

    Raises InvalidInput, Refused (result_unverified, project_changed, path_blocked, replayed), Unavailable.
    """
    with context.trail.locked() as held:
        finished = finished_proposal(context, held, request_id, APPLIED)
        refuse_done(held, request_id)
    try:
        project = Project.open(context.policy.settings.project.root)
        if finished.tool == "file.write_safe":
            return _plan_write(finished, project)
        return _plan_cleanup(finished, project)
    except ProjectError as error:
        raise Unavailable(f"{request_id}: {error}") from None


def _plan_write(finished: FinishedProposal, project: Project) -> Change:
    given = finished.given
    path = checked_path(project, str(given["path"]))
    content = finished.output("/out/content")
    after = canonical.sha256_hex(content)
    if after != given["after"]:
        raise Refused("result_unverified", "/out/content: is not the content that was proposed")
    current = project.read(path, max_bytes=limits.PROPOSAL_FILE_BYTES)
    before = None if current is None else canonical.sha256_hex(current)
    if before != given["before"]:
        raise Refused(
            "project_changed", f"{path.text}: changed since it was proposed; have it proposed again"
        )
    about = {
        "request_id": finished.request_id,
        "approval_sha256": finished.approval_sha256,
        "root": str(project.root),
        "path": path.text,
        "before": before,
        "after": after,
    }
    shown = unified_diff(current, content, path.text).decode("utf-8", "replace")
    return Change(finished, project, shown, about, write=(path, content))


def _plan_cleanup(finished: FinishedProposal, project: Project) -> Change:
    manifest = canonical.loads_strict(finished.output("/out/manifest.json"), max_bytes=limits.OUT_FILE_BYTES)
    moves = []
    for entry in manifest["entries"]:
        path = checked_path(project, entry["path"])
        _refuse_moved(project, path, entry["sha256"])
        moves.append((path, str(entry["sha256"])))
    if not moves:
        raise InvalidInput(f"{finished.request_id}: there was nothing to clean up")
    about = {
        "request_id": finished.request_id,
        "approval_sha256": finished.approval_sha256,
        "root": str(project.root),
        "moves": [{"path": path.text, "sha256": digest} for path, digest in moves],
    }
    lines = [
        f"move {entry['path']} ({entry['files']} files, {entry['bytes']} bytes) to {BACKUP}/{finished.request_id}/"
        for entry in manifest["entries"]
    ]
    return Change(finished, project, "\n".join(lines) + "\n", about, moves=tuple(moves))


def checked_path(project: Project, text: str) -> ProjectPath:
    """A path that may be changed now. Raises Refused("path_blocked")."""
    try:
        path = read_path(text, writing=True)
        reached = project.resolve(path, writing=True)
    except PathBlocked as error:
        raise Refused("path_blocked", f"the path may not be changed: {error}") from None
    if reached.parts != path.parts:
        raise Refused(
            "path_blocked", f"{path.text}: a part of the path is a link now; have it proposed again"
        )
    if path.protected or not path.parts:
        raise Refused("path_blocked", f"{path.text}: is protected; change it by hand")
    return path


def _refuse_moved(project: Project, path: ProjectPath, digest: str) -> None:
    if project.kind_of(path) is None or removal_facts(project, path)["sha256"] != digest:
        raise Refused(
            "project_changed", f"{path.text}: changed since it was proposed; have it proposed again"
        )


def apply_change(context: Context, change: Change, signed: bytes) -> Path:
    """Announce the signed act, then change the project; returns the folder of the backup.

    Raises Refused (nothing was changed), TrailError, Unavailable when the disk does not take it.
    """
    request_id = change.finished.request_id
    applied = Applied(
        tool=change.finished.tool,
        paths=tuple(path.text for path, _ in change.moves) or (str(change.about["path"]),),
        before=change.about.get("before"),
        after=change.about.get("after"),
    )
    backup = change.project.root / BACKUP / request_id
    try:
        with _backup_folder(change.project, request_id) as kept, context.trail.locked() as held:
            for path, digest in change.moves:
                _refuse_moved(change.project, path, digest)
            announce_act(context, held, signed, change.about, request_id, applied)
            if change.write is not None:
                _exchange(change, *change.write, kept, backup)
            for path, _ in change.moves:
                _move_away(change.project, path, kept, backup)
    except ProjectError as error:
        raise Unavailable(f"{request_id}: {error}") from None
    except OSError as error:
        raise Unavailable(
            f"{request_id}: could not be applied whole ({error.strerror}); look at {backup}"
        ) from None
    return backup


@contextmanager
def _backup_folder(project: Project, request_id: str) -> Iterator[int]:
    """A fresh folder for what is taken away, held open. Raises Unavailable when it is there already."""
    backup = project.root / BACKUP
    with project.folder(()) as root:
        with suppress(FileExistsError):
            durable.make_folder_at(root, BACKUP, backup)
        with project.folder((BACKUP,)) as top:
            try:
                with suppress(OSError):  # empty: one that was stopped before it did anything
                    os.rmdir(request_id, dir_fd=top)
                durable.make_folder_at(top, request_id, backup / request_id)
            except FileExistsError:
                raise Unavailable(
                    f"{BACKUP}/{request_id}: is there already; look at it and move it away"
                ) from None
            durable.sync_folder_at(top, backup)
        durable.sync_folder_at(root, project.root)
    with project.folder((BACKUP, request_id)) as kept:
        try:
            yield kept
        except BaseException:
            with suppress(OSError):  # it stays when something was already moved into it
                (backup / request_id).rmdir()
            raise


def _exchange(change: Change, path: ProjectPath, content: bytes, kept: int, backup: Path) -> None:
    """Put the new bytes in the place of the old ones; the old ones go into the backup. Raises Refused, OSError."""
    name, before = path.parts[-1], change.about["before"]
    place = change.project.root.joinpath(*path.parts)
    with change.project.folder(path.parts[:-1]) as parent:
        mode = 0o644
        if before is not None:
            mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode & 0o777
        temporary = place.with_name(f".threegate-{secrets.token_hex(8)}")
        descriptor = durable.create_at(parent, temporary.name, temporary, mode)
        try:
            os.fchmod(descriptor, mode)
            durable.write_fd(descriptor, content, temporary)
            durable.sync_fd(descriptor, temporary)
        except OSError:
            _forget(parent, temporary.name)
            raise
        finally:
            os.close(descriptor)
        try:
            durable.rename_at(parent, temporary, parent, place, exchange=before is not None)
        except OSError:
            _forget(parent, temporary.name)
            raise Refused(
                "project_changed", f"{path.text}: changed while it was applied; nothing was changed"
            ) from None
        durable.sync_folder_at(parent, place.parent)
        if before is not None:
            _keep_old(parent, temporary, place, str(before), kept, backup / name)
            durable.sync_folder_at(kept, backup)
            durable.sync_folder_at(parent, place.parent)


def _keep_old(parent: int, temporary: Path, place: Path, before: str, kept: int, backup: Path) -> None:
    """After the exchange the temporary name holds the old bytes: they must be those that were shown, and are kept.

    Where they are not, or cannot be kept, the exchange is undone, and only then is the temporary name, which holds the
    new bytes again, taken away. Raises Refused; OSError when it could not be undone: then both are there.
    """
    try:
        same = (
            canonical.sha256_hex(read_at(parent, temporary.name, max_bytes=limits.PROPOSAL_FILE_BYTES))
            == before
        )
        if same:
            durable.rename_at(parent, temporary, kept, backup)
            return
        problem = "changed while it was applied"
    except OSError as error:
        problem = f"its old bytes cannot be kept ({error.strerror or error})"
    durable.rename_at(parent, temporary, parent, place, exchange=True)
    _forget(parent, temporary.name)
    raise Refused("project_changed", f"{place.name}: {problem}; it was put back")


def _move_away(project: Project, path: ProjectPath, kept: int, backup: Path) -> None:
    """Move one file or folder into the backup under its path with `+` for slashes (flat, so that nothing collides)."""
    with project.folder(path.parts[:-1]) as parent:
        place = project.root.joinpath(*path.parts)
        durable.rename_at(parent, place, kept, backup / "+".join(path.parts))
        durable.sync_folder_at(kept, backup)
        durable.sync_folder_at(parent, place.parent)


def _forget(parent: int, temporary: str) -> None:
    """Take the temporary file of ours away, where it is still there."""
    try:
        os.unlink(temporary, dir_fd=parent)
    except FileNotFoundError:
        return
