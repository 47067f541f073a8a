"""Deliver a change set as commits on a new branch of the project's repository, or remove that branch again.

Invariant: this runs as the project's owner. Nothing in the project's folder is touched: no file, no index, no `HEAD`.
The objects come as one pack, the branch by one reference transaction that needs it to be absent, after git itself has
compared the new tree with HEAD's. Before that there is only garbage that git collects; the journal names branch and
commit, so after a crash recovery knows what to remove. Source: docs/spec/8-agents.md, "A branch".
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from threegate.core import durable, limits
from threegate.core.held_folder import HeldFolder
from threegate.plugins.changes.action import ProjectPlace
from threegate.plugins.changes.apply.apply_engine import LATER, ChangeStopped, Done, Work
from threegate.plugins.changes.apply.apply_journal import ApplyPlan, BranchStep, write_plan
from threegate.plugins.changes.branch_plan import BranchPlan, planned
from threegate.plugins.changes.checks import check_project, moved_on
from threegate.plugins.changes.commit_chain import CarriedCommit
from threegate.plugins.changes.git_objects import Entry, object_id, pack_head, packed
from threegate.plugins.changes.project_repository import HEADS, BranchRefused, ObjectStore, ProjectRepository
from threegate.plugins.changes.stored_form import is_pointer
from threegate.plugins.changes.table import ChangeSetError
from threegate.plugins.changes.trees import HeldTree, TreeChanged

BRANCH_LEFT: Final = "branch "
"""Before the name of a branch that somebody moved, so that it stays."""


@dataclass(frozen=True, slots=True)
class BranchOrder:
    """The signed facts of the commits. `committer` is an operator, `seconds` the moment of the approval, since 1970."""

    name: str
    base: str
    tree: str
    author: str
    committer: str
    seconds: str
    message: str
    commits: tuple[tuple[str, str], ...] = ()
    """Tree and message of each commit, oldest first; empty for the one with `tree` and `message`."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> BranchOrder:
        """The order as it comes through JSON."""
        commits = tuple((tree, message) for tree, message in told["commits"])
        return cls(**{**told, "commits": commits})

    def made(self, algorithm: str) -> list[tuple[str, bytes]]:
        """Id and bytes of each commit, oldest first."""
        found: list[tuple[str, bytes]] = []
        parent = self.base
        for tree, message in self.commits or ((self.tree, self.message),):
            data = (
                f"tree {tree}\nparent {parent}\nauthor {self.author} {self.seconds} +0000\n"
                f"committer {self.committer} {self.seconds} +0000\n\n{message}"
            ).encode()
            parent = object_id(algorithm, b"commit", data)
            found.append((parent, data))
        return found


def make_branch(project: HeldFolder, place: ProjectPlace, work: Work, order: BranchOrder) -> Done:
    """Make the commit and the branch. Never raises because of the project or the disk."""
    if os.geteuid() != place.uid or place.uid == 0:
        return Done("project_not_writable", "only its owner's account may change a project, and never root")
    try:
        return _made(project, place, work, order)
    except ChangeStopped as error:
        return Done(error.status, f"{error}; nothing was changed")
    except BranchRefused as error:
        return Done("project_changed" if error.moved else "failed", f"{error}; no branch was made")
    except ChangeSetError as error:
        return Done("project_changed", str(error))
    except TreeChanged as error:
        return Done("project_changed", f"{error.filename}: {error.strerror}")
    except OSError as error:
        return Done("failed", f"the branch could not be made ({error.strerror or error}); nothing was changed")


def _made(project: HeldFolder, place: ProjectPlace, work: Work, order: BranchOrder) -> Done:
    tree = HeldTree(project)
    if moved := moved_on(tree, work.change.rows):
        raise ChangeStopped("project_changed", f"{moved[0]}: differs from what the change was made from")
    check_project(tree, work.change, place.uid)
    repository = ProjectRepository.of(Path(place.path), place.uid)
    with planned(repository, tree, work.change, work.archive, order.base, work.commits) as (plan, store):
        if plan.tree != order.tree or [item.tree for item in plan.commits] != [tree for tree, _ in order.commits]:
            raise BranchRefused("the commit would have another tree than the one that was approved", moved=True)
        made = order.made(store.algorithm)
        commit = made[-1][0]
        name = _free_name(repository, order.name)
        step = BranchStep("make", name, commit)
        write_plan(work.journal, ApplyPlan((), {}, step), "journal")
        _stop(work)
        # First the contents, then what points to them: a crash in between leaves what nothing refers to.
        _keep_large_files(repository, plan, work)
        with durable.announced("pack", repository.common / "objects" / "pack"):
            store.take_pack(_pack(store, plan, work, [data for _, data in made]))
        parent = order.base
        for (oid, _), entries in zip(made, [item.entries for item in plan.commits] or [plan.entries], strict=True):
            _compare(store, entries, parent, oid)
            parent = oid
        _stop(work)
        if (halfway := _change_branch(repository, step, place)) is not None:
            return halfway
    return Done("succeeded", f"made the branch {name} at {commit[:12]} in {place.path}")


def _stop(work: Work) -> None:
    status = work.stop()
    if status is not None:
        raise ChangeStopped(status, "was stopped before it was complete")


def _free_name(repository: ProjectRepository, wanted: str) -> str:
    """The name, or the first one with a number that no branch has, nor one below it."""
    taken = repository.branches(wanted.partition("/")[0])
    for number in range(1, limits.BRANCH_NAMES):
        name = wanted if number == 1 else f"{wanted}-{number}"
        # A branch may be a file of its name, so git makes no `a` beside `a/b`.
        if not any(other == name or other.startswith(f"{name}/") for other in taken):
            return name
    raise BranchRefused(f"there are {limits.BRANCH_NAMES} branches {wanted}-…; delete those that were merged")


def _pack(store: ObjectStore, plan: BranchPlan, work: Work, commits: list[bytes]) -> Iterator[bytes]:
    """The new objects as a pack (git, Documentation/gitformat-pack), one blob in memory at a time."""
    blobs: dict[str, tuple[str, CarriedCommit | None]] = {}
    steps: list[tuple[Mapping[str, Entry | None], CarriedCommit | None]] = [(plan.entries, None)]
    if plan.commits:
        steps = [(item.entries, item.commit) for item in plan.commits]
    for entries, carried in steps:
        for path, entry in entries.items():
            if entry is not None:
                blobs.setdefault(entry[1], (path, carried))
    digest = hashlib.new(store.algorithm)

    def pieces() -> Iterator[bytes]:
        yield pack_head(len(blobs) + len(plan.trees) + len(commits))
        for oid, (path, carried) in blobs.items():
            _stop(work)
            data = plan.blob(work.change, work.archive, path) if carried is None else carried.content(path)
            if object_id(store.algorithm, b"blob", data) != oid:
                raise BranchRefused(f"{path}: changes.tar changed while it was read", moved=True)
            yield packed(b"blob", data)
        for tree in plan.trees.values():
            yield packed(b"tree", tree)
        for commit in commits:
            yield packed(b"commit", commit)

    for piece in pieces():
        digest.update(piece)
        yield piece
    yield digest.digest()


def _compare(store: ObjectStore, entries: Mapping[str, Entry | None], base: str, commit: str) -> None:
    """Let git say what differs between the two commits: exactly what was approved. Raises BranchRefused."""
    listed = store.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", base, commit).split(b"\0")
    found = {}
    for facts, path in zip(listed[:-1:2], listed[1::2], strict=True):
        _, mode, _, oid, kind = facts.split(b" ")
        found[os.fsdecode(path)] = None if kind == b"D" else (mode, oid.decode())
    if found != dict(entries):
        raise BranchRefused("git does not find the approved change in the new commit")


def _keep_large_files(repository: ProjectRepository, plan: BranchPlan, work: Work) -> None:
    """Put the contents that git-lfs has pointers to where git-lfs looks for them. Raises OSError."""
    for path, how in plan.stored.items():  # none, where commits are delivered one by one (branch_plan.py)
        entry = plan.entries[path]
        if how != "lfs" or entry is None or path in work.change.targets:
            continue
        data = work.change.read(work.archive, path)
        if not data or is_pointer(data):
            continue
        name = hashlib.sha256(data).hexdigest()
        folder = repository.common / "lfs" / "objects" / name[:2] / name[2:4]
        folder.mkdir(parents=True, exist_ok=True)
        staged = folder / f"{name}.{secrets.token_hex(8)}"
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            durable.write_fd(descriptor, data, staged)
            durable.sync_fd(descriptor, staged)
        finally:
            os.close(descriptor)
        durable.replace(staged, folder / name)
        durable.sync_folder(folder)


def _change_branch(repository: ProjectRepository, step: BranchStep, place: ProjectPlace) -> Done | None:
    """Make or remove a branch. What fails is reverted and raised again; if it cannot be reverted, it is returned."""
    try:
        _move(repository, "create" if step.do == "make" else "delete", step, place)
    except BaseException as error:
        # git may have written it before something failed.
        halfway = take_back_branch(place, step).halfway
        if halfway and isinstance(error, (BranchRefused, OSError)):
            return Done("failed", f"git could not {step.do} the branch {step.name}, {LATER}", halfway=True)
        raise
    return None


def _move(
    repository: ProjectRepository, verb: Literal["create", "delete"], step: BranchStep, place: ProjectPlace
) -> None:
    """Create a reference at a commit, or delete it there, by a transaction that ends with this process: git drops it
    where no `commit` comes.

    Raises BranchRefused: the reference is not where it was, or cannot be written; OSError.
    """
    command, path = f"{verb} {HEADS}{step.name} {step.commit}", Path(place.path) / HEADS / step.name
    with durable.announced("reference", path), repository.open("update-ref", "--stdin") as moving:
        assert moving.stdin is not None and moving.stdout is not None
        try:
            for words, answer in (("start", b"start: ok\n"), (f"{command}\nprepare", b"prepare: ok\n")):
                moving.stdin.write(f"{words}\n".encode())
                moving.stdin.flush()
                if moving.stdout.readline() != answer:
                    raise BranchRefused(
                        f"{path.name}: git cannot change this branch now; see: git branch -v", moved=True
                    )
            moving.stdin.write(b"commit\n")
            moving.stdin.close()
            moving.stdout.read()
            if moving.wait(limits.BRANCH_GIT_SECONDS) != 0:
                raise BranchRefused(f"{path.name}: git could not write this branch")
        except BrokenPipeError:
            raise BranchRefused(f"{path.name}: git cannot change this branch now", moved=True) from None
        except subprocess.TimeoutExpired:
            raise OSError(errno.ETIMEDOUT, "git update-ref did not end") from None


def take_back_branch(place: ProjectPlace, step: BranchStep) -> Done:
    """Revert the change of a branch that was not recorded as done, or was not done. The message is empty if something
    was reverted. Never raises.
    """
    try:
        repository = ProjectRepository.of(Path(place.path), place.uid)
        now = repository.commit_of(HEADS + step.name)
        if step.do == "make" and now == step.commit:
            _move(repository, "delete", step, place)
        elif step.do == "remove" and now is None:
            _move(repository, "create", step, place)
        elif step.do == "make" and now is not None:
            return Done("failed", "", (f"{BRANCH_LEFT}{step.name}",))
        else:
            return Done("succeeded", "none of it was made")
    except (BranchRefused, OSError) as error:
        return Done("failed", f"the branch {step.name} cannot be changed now ({error})", halfway=True)
    return Done("succeeded", "")


def remove_branch(place: ProjectPlace, journal: int, *, name: str, commit: str) -> Done:
    """Undo: remove a branch that is still where it was put. Never raises because of the project or the disk."""
    if os.geteuid() != place.uid or place.uid == 0:
        return Done("project_not_writable", "only its owner's account may change a project, and never root")
    try:
        repository = ProjectRepository.of(Path(place.path), place.uid)
        why_not = branch_moved(repository, name, commit)
        if why_not:
            return Done("project_changed", why_not)
        step = BranchStep("remove", name, commit)
        write_plan(journal, ApplyPlan((), {}, step), "journal")
        if (halfway := _change_branch(repository, step, place)) is not None:
            return halfway
    except BranchRefused as error:
        return Done("project_changed" if error.moved else "failed", str(error))
    except OSError as error:
        return Done("failed", f"the branch could not be removed ({error.strerror or error})")
    return Done("succeeded", f"removed the branch {name}, which was at {commit[:12]}, from {place.path}")


def branch_moved(repository: ProjectRepository, name: str, commit: str) -> str:
    """Why a branch is not removed by an undo; empty if it may be. Raises BranchRefused."""
    now = repository.commit_of(HEADS + name)
    if now is None:
        return f"the branch {name} is not there any more, so there is nothing to undo"
    if now != commit:
        return f"the branch {name} is not where it was put ({commit[:12]}), but at {now[:12]}; remove it yourself"
    if where := repository.checked_out_in(HEADS + name):
        return f"the branch {name} is checked out in {where}; switch to another one first: git switch -"
    return ""
