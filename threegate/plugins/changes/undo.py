"""Revert a change of a project: shown, signed, and made by the same code that applies one.

Invariant: what is written are the kept originals, whose digests are in the trail's record; every path must be
as the change left it, else nothing is changed and the differences are listed. A folder that the change added stays
if somebody else put something in it, and is named. The signature covers both digests, the project's folder, and what
stays. An undo takes effect with the trail's `undone`; one that was interrupted before it is
reverted by the next start or the next undo. Source: docs/spec/8-agents.md, "Undo".
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from threegate.acts.signed_acts import checked_act
from threegate.core import canonical, durable, limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.launch.context import Context
from threegate.launch.results.result_facts import read_record
from threegate.plugins.changes.action import ProjectChange, ProjectPlace
from threegate.plugins.changes.apply.apply_engine import Done
from threegate.plugins.changes.apply.apply_journal import ApplyPlan, first_line, read_journal
from threegate.plugins.changes.apply.as_owner import Order, not_writable, perform
from threegate.plugins.changes.apply.branch_delivery import branch_moved
from threegate.plugins.changes.apply.runner import JOURNAL, ORIGINALS
from threegate.plugins.changes.change_draft import said_changes
from threegate.plugins.changes.change_facts import changed_paths, job_change
from threegate.plugins.changes.change_tar import ChangeSet, read_change_set
from threegate.plugins.changes.checks import standing_folders
from threegate.plugins.changes.cut_off_changes import lock_undo, recover_undos, undo_journal
from threegate.plugins.changes.kinds import Undone, UndoStarted
from threegate.plugins.changes.project_repository import BranchRefused, ProjectRepository
from threegate.plugins.changes.projects import hold_project
from threegate.plugins.changes.requested_change import RequestedChange, refuse_unfit
from threegate.plugins.changes.table import ChangeSetError
from threegate.plugins.changes.trees import HeldTree
from threegate.review.input_copies import InputCopy
from threegate.trail import moves
from threegate.trail.payloads import Finished

UNDO: Final = "threegate-undo/1"


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """What an undo would do, computed from verified bytes."""

    request_id: str
    place: ProjectPlace
    requested: RequestedChange | None
    """What is restored; None for a change that was delivered as a branch."""
    originals: InputCopy | None
    kept: ApplyPlan
    """The plan of the change: exact permission bits and groups of what is restored, or the branch."""
    stays: Mapping[str, str]
    """Folders that the change added and that stay: path → the name of something in it that is somebody else's."""
    about: Mapping[str, Any]
    """What is signed."""


def plan_undo(context: Context, request_id: str) -> UndoPlan:
    """Work out the undo of a change, and check all of it against the trail and the current project.

    Raises InvalidInput, Refused (result_unverified, project_changed, input_unfit), Unavailable, TrailError.
    """
    recover_undos(context)
    with context.trail.locked() as held:
        history = held.index.history(request_id)
    finished = Finished.of(history.end) if history else None
    if history is None or history.end is None or finished is None or finished.status != "succeeded":
        raise InvalidInput(f"{request_id}: not a change that was made; threegate status lists finished requests")
    folder = context.workspace.run_folder(request_id)
    facts = read_record(folder, created_utc=history.end.when, trail_seq=history.end.seq, sha256=finished.record_sha256)
    kept = {item.path: item.sha256 for item in facts.kept}
    if JOURNAL not in kept:
        raise InvalidInput(f"{request_id}: changed no project, so there is nothing to undo")
    journal = read_journal(_verified(folder / JOURNAL, kept.get(JOURNAL), limits.APPLY_JOURNAL_BYTES))
    about: dict[str, Any] = {
        "request_id": request_id,
        "approval_sha256": facts.approval_sha256,
        "project": journal.place.to_json(),
        "journal_sha256": kept[JOURNAL],
    }
    if journal.plan is not None and journal.plan.branch is not None:
        return _branch_plan(journal.place, journal.plan, about)
    originals = folder / ORIGINALS
    try:
        copy = InputCopy(ORIGINALS, kept.get(ORIGINALS, ""), originals.lstat().st_size, originals)
        if copy.digest_now() != copy.sha256:
            raise Refused("result_unverified", f"{originals}: differs from what the trail recorded")
        with copy.open() as stream:
            change = read_change_set(stream)
            stays = _standing(journal.place, change)
            left = replace(change, rows=tuple(row for row in change.rows if row.path not in stays))
            paths = tuple(changed_paths(left, stream))
    except OSError as error:
        raise Unavailable(f"{originals}: cannot be read ({error.strerror}); it is needed to undo") from None
    except ChangeSetError as error:
        raise Refused("result_unverified", f"{originals}: {error}") from None
    if journal.plan is None:
        raise Refused("result_unverified", f"{folder / JOURNAL}: has no plan")
    asked = ProjectChange(journal.place.name, said_changes(left.rows, left.sha256))
    action = asked.bound(job_change(paths, left, journal.place))
    requested = RequestedChange(action=action, change=left, paths=paths)
    refuse_unfit(requested, undone=True)
    about |= {"originals_sha256": change.sha256, **({"stays": sorted(stays)} if stays else {})}
    return UndoPlan(request_id, journal.place, requested, copy, journal.plan, stays, about)


def _branch_plan(place: ProjectPlace, plan: ApplyPlan, about: Mapping[str, Any]) -> UndoPlan:
    """The undo of a change that was delivered as a branch. Raises Refused (project_changed), Unavailable."""
    assert plan.branch is not None
    hold_project(place).close()
    try:
        why_not = branch_moved(ProjectRepository.of(Path(place.path), place.uid), plan.branch.name, plan.branch.commit)
    except BranchRefused as error:
        raise Unavailable(str(error)) from None
    if why_not:
        raise Refused("project_changed", why_not)
    about = {**about, "branch": plan.branch.name, "commit": plan.branch.commit}
    return UndoPlan(about["request_id"], place, None, None, plan, {}, about)


def _standing(place: ProjectPlace, change: ChangeSet) -> dict[str, str]:
    """Raises Refused, Unavailable."""
    with hold_project(place) as held:
        try:
            return standing_folders(HeldTree(held), change.rows)
        except OSError as error:
            raise Unavailable(f"{place.path}: cannot be read ({error.strerror or error})") from None


def _verified(path: Path, sha256: str | None, most: int) -> bytes:
    try:
        data = durable.read_regular(path, max_bytes=most)
    except OSError as error:
        raise Unavailable(f"{path}: cannot be read ({error.strerror or error}); it is needed to undo") from None
    if canonical.sha256_hex(data) != sha256:
        raise Refused("result_unverified", f"{path}: differs from what the trail recorded")
    return data


def undo_change(context: Context, plan: UndoPlan, signed: bytes) -> str:
    """Record the signed act, revert the change, record that it was reverted. Returns one line.

    Raises Refused (nothing was changed), Unavailable, TrailError, OSError.
    """
    place = plan.place
    if (why := not_writable(place)) is not None:
        raise Unavailable(why)
    token = secrets.token_hex(8)
    path = undo_journal(context.workspace, plan.request_id)
    recover_undos(context)
    with hold_project(place) as project:
        actor, journal = _begin(context, plan, signed, token, path)
        try:
            done = _performed(plan, project.fileno(), token, journal)
            if done.halfway:
                raise Unavailable(done.message)
            with context.trail.locked() as held:
                undone = Undone(status=done.status, message=done.message, token=token)
                moves.announce(held, undone, request_id=plan.request_id, actor=actor)
            if done.status == "succeeded":
                perform(Order("forget", place, project.fileno(), token, journal))
            if not done.left:
                durable.unlink(path)
        finally:
            os.close(journal)
    if done.status != "succeeded":
        raise Refused("project_changed" if done.status == "project_changed" else done.status, done.message)
    return done.message


def _performed(plan: UndoPlan, project: int, token: str, journal: int) -> Done:
    """Revert the change. Raises OSError for the originals."""
    seconds = float(limits.APPLY_SECONDS)
    if plan.requested is None or plan.originals is None:
        assert plan.kept.branch is not None
        branch = {"name": plan.kept.branch.name, "commit": plan.kept.branch.commit}
        return perform(Order("remove_branch", plan.place, project, token, journal, seconds=seconds, branch=branch))
    with plan.originals.open() as archive:
        sha256, exact = plan.requested.change.sha256, plan.kept.kept
        order = Order(
            "apply", plan.place, project, token, journal, archive.fileno(), sha256=sha256, seconds=seconds, exact=exact,
            stays=tuple(sorted(plan.stays)),
        )  # fmt: skip
        return perform(order)


def _begin(context: Context, plan: UndoPlan, signed: bytes, token: str, path: Path) -> tuple[str, int]:
    """Record that an undo begins, and take its lock; return the actor and the journal's descriptor, which has the lock.

    The project's owner could hold up what follows, so it is done without the trail's lock. Raises Refused, Unavailable,
    TrailError, OSError.
    """
    place = plan.place
    originals = None if plan.requested is None else plan.requested.change.sha256
    with context.trail.locked() as held:
        actor, act = checked_act(context, held, signed, UNDO, plan.about)
        try:
            durable.deliver(path, first_line(place, token))
        except FileExistsError:
            raise Unavailable(
                f"{plan.request_id}: another undo of it is in progress or cannot be reverted; see the daemon's log"
            ) from None
        journal = lock_undo(path)
        assert journal is not None  # only under the trail's lock is it made or taken
        try:
            started = UndoStarted(project=place.path, originals_sha256=originals, token=token, **act)
            moves.announce(held, started, request_id=plan.request_id, actor=actor)
        except BaseException:
            os.close(journal)
            raise
    return actor, journal
