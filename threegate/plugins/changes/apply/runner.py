"""Apply a cleared change set to its project, and keep what it replaced.

Invariant: the trail's `finished` makes a change final. Until it is on disk, the journal in the run's folder lets
recovery revert the whole change; after it, the stage folder is removed and the originals stay for an undo.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from threegate.core import durable, limits
from threegate.core.errors import Refused
from threegate.core.held_folder import HeldFolder, open_beneath
from threegate.plugins.changes.action import BoundChange, JobBranch, JobChange, ProjectPlace
from threegate.plugins.changes.apply.apply_engine import Done, Ending
from threegate.plugins.changes.apply.apply_journal import STAGE, Journal, first_line, read_journal
from threegate.plugins.changes.apply.as_owner import Order, not_writable, perform
from threegate.plugins.changes.apply.branch_delivery import BranchOrder
from threegate.plugins.changes.projects import hold_project
from threegate.request.job import Job
from threegate.runners.interface import EMPTY, Artifact, Control, Outcome, Status, StreamMeter

if TYPE_CHECKING:
    from threegate.judgement.judge import Clearance

JOURNAL: Final = "apply.json"
"""In the run's folder: the journal of the change, and afterwards the record of what was replaced."""
ORIGINALS: Final = "originals.tar"
"""Next to it: the change set that reverts the change."""
_STATUSES: Final[dict[Ending, Status]] = {
    "succeeded": "succeeded",
    "project_changed": "project_changed",
    "project_not_writable": "failed",
    "failed": "failed",
    "cancelled": "cancelled",
    "timed_out": "timed_out",
}
_OWN_FOLDER: Final = stat.S_IRWXU


class ApplyRunner:
    """Runs jobs of backend apply, in this process or in a child of the project's owner."""

    starts_late = False

    def available(self, job: Job | None = None) -> str | None:
        """None if the project can be changed now, else one line (the request waits)."""
        return None if job is None else why_not_now(_change_of(job).project)

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        """Apply the change set once; see Runner.run. Raises OSError if what is kept of it cannot be read."""
        clearance.must_cover(job)
        begun = time.monotonic()
        if control.cancelled.is_set() or control.interrupted.is_set():
            done = Done("cancelled", "was stopped before it began; nothing was changed")
        else:
            done = self._apply(clearance, job, _change_of(job), control)
        meter = StreamMeter()
        meter.write(f"{done.message}\n".encode())
        for path in done.left:
            meter.write(f"left as someone else changed it meanwhile: {path}\n".encode())
        control.ran()
        return Outcome(
            status=_STATUSES[done.status],
            detail=_sentence(done, _change_of(job).project),
            wall_ms=int((time.monotonic() - begun) * 1000),
            stdout=meter.result(),
            stderr=EMPTY,
            kept=_kept(control.run_folder),
        )

    def close(self) -> None:
        """Nothing is started ahead."""

    def _apply(self, clearance: Clearance, job: Job, change: JobChange, control: Control) -> Done:
        def stop() -> Ending | None:
            return "cancelled" if control.cancelled.is_set() or control.interrupted.is_set() else None

        with ExitStack() as opened:
            try:
                order = _order(clearance, job, change, control, opened)
            except Refused as error:
                done = Done("project_changed", str(error))
            except OSError as error:
                why = error.strerror or error
                done = Done("failed", f"the run's folder cannot be written ({why}); nothing was changed")
            else:
                done = perform(order, stop)
        if done.status == "succeeded":
            control.recorded = lambda: forget_stage(control.run_folder)
        elif not done.left and not done.halfway:
            for name in (JOURNAL, ORIGINALS):  # nothing was changed, so there is nothing to revert
                with suppress(OSError):  # what stays is named in the record (`_kept`)
                    durable.unlink(control.run_folder / name)
        return done


def _change_of(job: Job) -> JobChange:
    assert isinstance(job.action, BoundChange)
    return job.action.change


def _order(clearance: Clearance, job: Job, change: JobChange, control: Control, opened: ExitStack) -> Order:
    """What is to be done, all open until `opened` ends. Changes nothing in the project. Raises Refused, OSError."""

    def held(path: Path, flags: int) -> int:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)
        opened.callback(os.close, descriptor)
        return descriptor

    token, folder, branch = secrets.token_hex(8), control.run_folder, change.branch
    # Before anything is in the project: by the journal recovery finds what a crash left there.
    durable.deliver(folder / JOURNAL, first_line(change.project, token))
    project = opened.enter_context(hold_project(change.project))
    # The second lock: the Job has both from one place, and a mixture would write files where a branch was signed.
    if (branch is None) != (change.project.deliver == "tree"):
        raise Refused("project_changed", "the project's changes are not delivered as the job says")
    pinned = [control.inputs_folder / item.sha256 for item in job.inputs]
    originals = commits = -1
    if branch is None:
        run_folder = held(folder, os.O_RDONLY | os.O_DIRECTORY)
        originals = durable.create_at(run_folder, ORIGINALS, folder / ORIGINALS)
        opened.callback(os.close, originals)
        durable.sync_folder_at(run_folder, folder)
    elif branch.commits:
        commits = held(pinned[1], os.O_RDONLY)
    return Order(
        "apply", change.project, project.fileno(), token, held(folder / JOURNAL, os.O_RDWR),
        archive=held(pinned[0], os.O_RDONLY), originals=originals, sha256=change.sha256,
        seconds=job.limits.time_sec, branch={} if branch is None else _branch(clearance, branch), commits=commits,
    )  # fmt: skip


def _branch(clearance: Clearance, branch: JobBranch) -> dict[str, Any]:
    """The texts of the commits: the operator who approved it is the committer, at the moment of the approval."""
    who = clearance.approved_by
    order = BranchOrder(
        name=branch.name,
        base=branch.base,
        tree=branch.tree,
        author=branch.author,
        committer=f"{who} <{who}@threegate.invalid>",
        seconds=str(int(clearance.approved_utc.timestamp())),
        message=branch.message,
        commits=branch.commits,
    )
    return asdict(order)


def why_not_now(place: ProjectPlace) -> str | None:
    """Why a project cannot be changed by this process now, in one line; None if it can."""
    why = not_writable(place)
    if why is None:
        with suppress(Refused), hold_project(place) as held, suppress(OSError):
            held.stat(STAGE)
            why = f"another change of the project {place.name} is in progress or was interrupted ({STAGE}/ exists)"
        if why is None:
            why = _closed(place)
    return why


def _kept(run_folder: Path) -> tuple[Artifact, ...]:
    """The journal and the originals, as the record names them. Raises OSError."""
    found = []
    for name in (JOURNAL, ORIGINALS):
        with suppress(FileNotFoundError), (run_folder / name).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            found.append(Artifact(name, stream.tell(), digest))
    return tuple(found)


def _sentence(done: Done, place: ProjectPlace) -> str:
    if done.halfway and place.deliver == "tree":
        return f"{done.message}; until then its originals are in {STAGE}/."
    if done.left:
        return f"{done.message}; {len(done.left)} paths were changed by someone else meanwhile and stay; see {STAGE}/"
    return f"{done.message}."


def _closed(place: ProjectPlace) -> str | None:
    """Why a project's folder cannot be written to; None if it can, or does not exist."""
    try:
        read_only = os.statvfs(place.path).f_flag & os.ST_RDONLY
        mode = os.stat(place.path).st_mode
    except OSError:
        return None
    if read_only:
        return (
            f"the project {place.name} is on a file system that is read-only here; see: threegate settings service "
            "install"
        )
    if mode & _OWN_FOLDER != _OWN_FOLDER:
        return f"the project {place.name}: its owner may not write to {place.path}; allow it with: chmod u+rwx"
    return None


def forget_stage(run_folder: Path, name: str = JOURNAL) -> None:
    """The change is final: remove its stage folder. If that fails, the next start does it."""
    with (
        suppress(OSError, ValueError, Refused),
        _journal(run_folder, name) as (descriptor, journal),
        hold_project(journal.place) as project,
    ):
        if journal.place.deliver == "branch":
            return  # nothing is staged for one
        project.stat(STAGE)  # normally gone already: then no child needs to be started
        perform(Order("forget", journal.place, project.fileno(), journal.token, descriptor))


def take_back_change(run_folder: Path, name: str = JOURNAL, *, pending: bool = False) -> Done:
    """Revert what an interrupted change has done. With `pending`, do nothing if no stage folder is left of it. Raises
    Refused, OSError if the project cannot be reached.
    """
    try:
        with _journal(run_folder, name) as (descriptor, journal), hold_project(journal.place) as project:
            as_files = journal.place.deliver == "tree"
            if pending and as_files and not _exists(project, STAGE):
                return Done("succeeded", "none of it is left")
            done = perform(Order("take_back", journal.place, project.fileno(), journal.token, descriptor))
            if pending and as_files and _exists(project, STAGE):
                return Done("failed", f"{STAGE}/ is still there", done.left)
            return done
    except FileNotFoundError:
        return Done("succeeded", "none of it was made")
    except ValueError as error:
        return Done("failed", f"{run_folder / name}: {error}")


def _exists(project: HeldFolder, name: str) -> bool:
    try:
        project.stat(name)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _journal(run_folder: Path, name: str) -> Iterator[tuple[int, Journal]]:
    folder = os.open(run_folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = open_beneath(folder, name)
    finally:
        os.close(folder)
    try:
        with os.fdopen(os.dup(descriptor), "rb") as stream:
            journal = read_journal(stream.read(limits.APPLY_JOURNAL_BYTES))
        yield descriptor, journal
    finally:
        os.close(descriptor)
