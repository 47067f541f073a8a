"""Which process accesses a project: one with the owner's account, either this process or a child that root starts.

Invariant: no file of a project is opened, created or renamed with root's privileges. The child drops all privileges
before it accesses the project, gets its files as open descriptors, and dies with its parent, so that a change is never
made while another process reverts it. The owner may stop, slow or kill it: it is watched and killed by its pidfd, and
nobody waits for it without a limit, or under the trail's lock.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from threegate.core import canonical, limits
from threegate.core.held_folder import HeldFolder
from threegate.core.own_process import own_process
from threegate.plugins.changes.action import ProjectPlace
from threegate.plugins.changes.apply.apply_engine import LATER, Done, Ending, Work, carry_out, forget, take_back
from threegate.plugins.changes.apply.apply_journal import ApplyPlan, read_journal
from threegate.plugins.changes.apply.branch_delivery import BranchOrder, make_branch, remove_branch, take_back_branch
from threegate.plugins.changes.change_tar import read_change_set
from threegate.plugins.changes.commit_chain import CarriedCommit, read_commits_tar
from threegate.plugins.changes.projects import groups_of
from threegate.plugins.changes.table import ChangeSetError

Verb = Literal["apply", "take_back", "forget", "remove_branch"]
_LOOK_MS: Final = 100
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38


@dataclass(frozen=True, slots=True)
class Order:
    """What to do in a project, with open descriptors. `archive` is -1 if nothing is applied, `originals` -1
    if none are kept. `sha256` is the required digest of the change set, `seconds` the time limit.
    """

    verb: Verb
    place: ProjectPlace
    project: int
    token: str
    journal: int
    archive: int = -1
    originals: int = -1
    sha256: str = ""
    seconds: float = limits.APPLY_BACK_SECONDS
    exact: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    stays: tuple[str, ...] = ()
    """Paths of the change set that are left as they are: for an undo, folders in which is something else."""
    branch: Mapping[str, Any] = field(default_factory=dict)
    """For a change that is delivered as a branch: the texts of a `BranchOrder`, or of the `BranchStep` to remove."""
    commits: int = -1
    """The open `commits.tar`, where commits are delivered one by one."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The open descriptors."""
        named = (self.project, self.journal, self.archive, self.commits, self.originals)
        return tuple(item for item in named if item >= 0)


def perform(order: Order, stop: Callable[[], Ending | None] = lambda: None) -> Done:
    """Do it as the project's owner. Never raises because of the project or the disk.

    `stop` is called before each step if this process is the owner, else several times a second: then the child is
    killed, and what it did is reverted.
    """
    uid = os.geteuid()
    if order.place.uid == 0 or uid not in (0, order.place.uid):
        return Done("project_not_writable", not_writable(order.place) or "")
    if uid != 0:
        return obey(order, stop)
    if (status := stop()) is not None:
        return Done(status, "was stopped before it began; nothing was changed")
    done = _in_child(order, stop)
    if isinstance(done, Done):
        return done
    if order.verb not in ("apply", "remove_branch"):
        return Done("failed", done.why, halfway=order.verb == "take_back")
    back = _reverted(order)
    if back.halfway:
        return Done(done.status, f"{done.why}, {LATER}", halfway=True)
    return Done(done.status, f"{done.why}; nothing was changed", back.left)


def not_writable(place: ProjectPlace) -> str | None:
    """Why a project cannot be changed by this process, in one line; None if it can."""
    if place.uid == 0:
        return f"the project {place.name} belongs to root; nothing is changed as root, so give it to another account"
    if os.geteuid() not in (0, place.uid):
        return (
            f"the project {place.name} belongs to the account with uid {place.uid}, and this daemon is uid "
            f"{os.geteuid()}: run it as that account or as root"
        )
    return None


def obey(order: Order, stop: Callable[[], Ending | None] = lambda: None) -> Done:
    """Do it with the privileges of this process."""
    until = time.monotonic() + order.seconds
    # The descriptors belong to the caller: only what is opened here is closed here.
    with HeldFolder(os.dup(order.project), Path(order.place.path)) as project:
        if order.verb == "forget":
            if order.place.deliver == "tree":  # a branch leaves nothing in the project's folder
                with suppress(OSError):
                    forget(project, order.token)
            return Done("succeeded", "")
        if order.verb == "remove_branch":
            return remove_branch(order.place, order.journal, **order.branch)
        if order.verb == "take_back":
            return _taken_back(project, order)
        with os.fdopen(os.dup(order.archive), "rb") as archive:
            try:
                change = read_change_set(archive)
            except ChangeSetError as error:
                return Done("failed", f"changes.tar: {error}")
            if change.sha256 != order.sha256:
                return Done("failed", "changes.tar is not the change set that was approved")
            commits: tuple[CarriedCommit, ...] = ()
            if order.commits >= 0:
                with os.fdopen(os.dup(order.commits), "rb") as carried:
                    try:
                        commits = read_commits_tar(carried)
                    except ChangeSetError as error:
                        return Done("failed", f"commits.tar: {error}")
            change = replace(change, rows=tuple(row for row in change.rows if row.path not in order.stays))
            with nullcontext() if order.originals < 0 else os.fdopen(os.dup(order.originals), "wb") as originals:
                work = Work(
                    change, archive, order.journal, order.token, originals, order.exact,
                    lambda: stop() or ("timed_out" if time.monotonic() > until else None), commits,
                )  # fmt: skip
                if order.branch:
                    return make_branch(project, order.place, work, BranchOrder.of(order.branch))
                return carry_out(project, order.place, work)


def _taken_back(project: HeldFolder, order: Order) -> Done:
    plan = plan_of(order.journal)
    if plan is not None and plan.branch is not None:
        return take_back_branch(order.place, plan.branch)
    if plan is None:
        with suppress(OSError):
            forget(project, order.token)
        return Done("succeeded", "none of it was made")
    try:
        left = take_back(project, plan, order.token)
    except OSError as error:
        return Done("failed", f"{order.place.path}: {error.strerror or error}", halfway=True)
    return Done("failed" if left else "succeeded", "", left)


def plan_of(journal: int) -> ApplyPlan | None:
    """The plan in an open journal; None if it has none."""
    os.lseek(journal, 0, os.SEEK_SET)
    with os.fdopen(os.dup(journal), "rb") as stream, suppress(ValueError):
        return read_journal(stream.read(limits.APPLY_JOURNAL_BYTES)).plan
    return None


@dataclass(frozen=True, slots=True)
class _Failed:
    """A child that did not report: the status of its change, and why."""

    status: Ending
    why: str


def _reverted(order: Order) -> Done:
    """What a killed child did, reverted by another one."""
    back = Order("take_back", order.place, order.project, order.token, order.journal)
    # The owner may kill or stop each child, so the tries are bounded in number and in time.
    until = time.monotonic() + limits.APPLY_BACK_SECONDS
    for _ in range(limits.APPLY_BACK_TRIES):
        if not (done := perform(back)).halfway or time.monotonic() > until:
            break
    return done


def _in_child(order: Order, stop: Callable[[], Ending | None]) -> Done | _Failed:
    """Do it in a child that becomes the owner. Both ways are files in memory, so nobody waits for a reader."""
    told = {**asdict(order), "parent": os.getpid()}
    with (
        os.fdopen(os.memfd_create("order", os.MFD_CLOEXEC), "w+b") as given,
        os.fdopen(os.memfd_create("done", os.MFD_CLOEXEC), "w+b") as written,
    ):
        given.write(json.dumps(told).encode())
        given.seek(0)
        try:
            child = subprocess.Popen(
                own_process("threegate.plugins.changes.apply.as_owner"),
                stdin=given,
                stdout=written,
                stderr=subprocess.DEVNULL,
                pass_fds=order.descriptors,
                env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
            )
        except OSError as error:
            return _Failed("failed", f"the child of the project's owner could not be started ({error.strerror})")
        if (ended := _watched(child, order, stop)) is not None:
            return ended
        written.seek(0)
        try:
            done = Done(**json.loads(written.read()))
            return replace(done, left=tuple(done.left))
        except (ValueError, TypeError):
            return _Failed("failed", f"the child of the project's owner ended early (exit code {child.returncode})")


def _watched(child: subprocess.Popen[bytes], order: Order, stop: Callable[[], Ending | None]) -> _Failed | None:
    """Wait for a child; None if it ended by itself, else why it was killed. It has ended, even if this raises."""
    try:
        watch = os.pidfd_open(child.pid)
    except OSError as error:
        child.kill()
        child.wait()
        return _Failed("failed", f"the child of the project's owner cannot be watched ({error.strerror})")
    ending = select.poll()
    ending.register(watch, select.POLLIN)
    until = time.monotonic() + order.seconds + limits.APPLY_CHILD_SECONDS
    failed = None
    try:
        while failed is None and not ending.poll(_LOOK_MS):
            if (status := stop()) is not None:
                failed = _Failed(status, "was stopped before it was complete")
            elif _is_stopped(watch):
                failed = _Failed(
                    "failed", "the account of the project's owner stopped the process that makes the change"
                )
            elif time.monotonic() > until:
                failed = _Failed("timed_out", "the process that makes the change did not end in time")
        return failed
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(watch, signal.SIGKILL)
        child.wait()
        os.close(watch)


def _is_stopped(watch: int) -> bool:
    """Whether a child is stopped. One that has just ended can be stopped no more, which the kernel calls an error."""
    try:
        return os.waitid(os.P_PIDFD, watch, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def become(place: ProjectPlace, project: int, parent: int) -> None:
    """Turn this process permanently into one of the project's owner that ends with its parent. Raises OSError."""
    gid, groups = groups_of(place, project)
    # Groups before the user: after that this process may set none, and would keep root's.
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(place.uid, place.uid, place.uid)
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_PR_SET_NO_NEW_PRIVS, 1), (_PR_SET_PDEATHSIG, int(signal.SIGKILL))):
        if libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    # The death signal is set after the privileges are dropped, which would clear it; a parent that died
    # earlier sends none.
    if os.getresuid() != (place.uid,) * 3 or os.getppid() != parent:
        raise OSError("could not become the project's owner")


def preload() -> None:
    """Load what would otherwise be loaded on first use: the owner may not be able to read this installation's files."""
    canonical.canonical_bytes({"é": 0})  # sorts by utf-16, whose codec is a separate module


def main() -> int:
    """The child: read the order, become the owner, do it, print the result."""
    told = json.loads(sys.stdin.buffer.read())
    preload()
    place, parent = ProjectPlace(**told.pop("place")), told.pop("parent")
    exact = {path: (mode, gid) for path, (mode, gid) in told.pop("exact").items()}
    become(place, told["project"], parent)  # from here on nothing is done with root's privileges
    done = obey(Order(place=place, exact=exact, stays=tuple(told.pop("stays")), **told))
    sys.stdout.write(json.dumps(asdict(done)))
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
