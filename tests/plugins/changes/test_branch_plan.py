"""The tree that is signed: git's own for the same files, and nothing arrives when the process dies in the middle."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import few
from tests.plugins.changes.applying import OWNER, TOKEN, own, place_of
from tests.plugins.changes.branches import AUTHOR
from tests.plugins.changes.test_generated_changes import changed, no_link_over_a_link, tree
from tests.plugins.changes.trees_on_disk import build, held, made
from threegate.plugins.changes.apply.apply_engine import Ending, Work
from threegate.plugins.changes.apply.apply_journal import BranchStep, first_line, read_journal
from threegate.plugins.changes.apply.as_owner import preload
from threegate.plugins.changes.apply.branch_delivery import BranchOrder, make_branch, take_back_branch
from threegate.plugins.changes.branch_plan import planned
from threegate.plugins.changes.change_tar import read_change_set
from threegate.plugins.changes.project_repository import ProjectRepository
from threegate.plugins.changes.projects import hold_project
from threegate.plugins.changes.trees import HeldTree


def git(folder: Path, *words: str, index: Path | None = None) -> str:
    more = {"GIT_INDEX_FILE": str(index)} if index is not None else {}
    safe = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    environment = {**os.environ, **AUTHOR, **safe, **more, "HOME": "/nonexistent"}
    return subprocess.run(
        ["git", *words], cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout


def committed(project: Path) -> None:
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "first", "--allow-empty")


@pytest.mark.parametrize("seed", few(range(200), 6))
def test_the_tree_is_what_git_makes_of_the_same_files(tmp_path: Path, seed: int) -> None:
    """Random trees and changes: files, links, modes, kinds, folders, names with blanks and quotes."""
    chance = random.Random(seed)
    before = no_link_over_a_link(tree(chance))
    after = {**no_link_over_a_link(changed(chance, before)), "always": "new"}
    project, work = build(tmp_path / "project", before), build(tmp_path / "work", after)
    committed(project)
    found = made(project, work)
    assert found.rows and not found.left_out
    git(project, "--work-tree", str(work), "add", "-A", index=tmp_path / "index")
    expected = git(project, "write-tree", index=tmp_path / "index").strip()
    change = read_change_set(found.data)
    repository = ProjectRepository.of(project, os.geteuid())
    with held(project) as top, planned(repository, HeldTree(top), change, io.BytesIO(found.data)) as (plan, _):
        assert plan.tree == expected


def in_a_child(work: Callable[[], int]) -> int:
    """The exit code of a fork that does `work`, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Delivery:
    """A project of its owner, a change set, and the order to deliver it, without a workspace."""

    def __init__(self, folder: Path) -> None:
        before = {f"f{number}": f"{number}\n" for number in range(20)}
        self.folder = folder
        self.project = build(folder / "project", before)
        committed(self.project)
        own(self.project)
        work = build(folder / "work", {path: f"{text}more\n" for path, text in before.items()})
        self.data = made(self.project, work).data
        self.place = place_of(self.project)
        self.change = read_change_set(self.data)
        repository = ProjectRepository.of(self.project, self.place.uid)
        with (
            held(self.project) as top,
            planned(repository, HeldTree(top), self.change, io.BytesIO(self.data)) as (plan, _),
        ):
            who = "a <a@b>"
            self.order = BranchOrder("threegate/ar-1", plan.base, plan.tree, who, who, "1", "m\n")
        self.journal = folder / "apply.json"

    def deliver(self, die_at: int = 0) -> int:
        """Deliver it in a child that is the owner, and that dies at a question whether to stop; its exit code."""
        self.journal.write_bytes(first_line(self.place, TOKEN))
        asked = 0

        def stop() -> Ending | None:
            nonlocal asked
            asked += 1
            if asked == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return None

        journal = os.open(self.journal, os.O_RDWR)

        def work() -> int:
            preload()
            with hold_project(self.place) as project:
                if os.geteuid() == 0:
                    os.setgroups([])
                    os.setresgid(OWNER, OWNER, OWNER)
                    os.setresuid(OWNER, OWNER, OWNER)
                given = Work(self.change, io.BytesIO(self.data), journal, TOKEN, None, {}, stop)
                return 0 if make_branch(project, self.place, given, self.order).status == "succeeded" else 1

        try:
            return in_a_child(work)
        finally:
            os.close(journal)

    def branches(self) -> list[str]:
        return git(self.project, "for-each-ref", "--format=%(refname:short)", "refs/heads/threegate").split()


@pytest.fixture
def delivery() -> Iterator[Delivery]:
    """Below /tmp, where its owner can reach it."""
    with tempfile.TemporaryDirectory(prefix="threegate-branching-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Delivery(Path(folder))


@pytest.mark.parametrize("die_at", [1, 2, 12, 21, 22])
def test_killed_in_the_middle_there_is_no_branch(delivery: Delivery, die_at: int) -> None:
    """Before the pack, in it, and after it: the repository is whole, and the next one is made."""
    assert delivery.deliver(die_at) == -signal.SIGKILL
    assert delivery.branches() == []
    git(delivery.project, "fsck", "--strict")
    assert not list((delivery.project / ".git" / "refs").rglob("*.lock"))
    assert delivery.deliver() == 0
    assert delivery.branches() == ["threegate/ar-1"]


def test_a_tree_other_than_the_signed_one_is_not_made(delivery: Delivery) -> None:
    delivery.order = BranchOrder(
        **{**{name: getattr(delivery.order, name) for name in BranchOrder.__slots__}, "tree": "0" * 40}
    )
    assert delivery.deliver() == 1 and delivery.branches() == []


def test_taken_back_only_where_it_was_put(delivery: Delivery) -> None:
    """Recovery removes the branch of a change that was not recorded, once, and no other one."""
    assert delivery.deliver() == 0
    plan = read_journal(delivery.journal.read_bytes()).plan
    assert plan is not None and plan.branch is not None
    step = plan.branch
    assert take_back_branch(delivery.place, BranchStep("make", step.name, "0" * 40)).left == (f"branch {step.name}",)
    assert delivery.branches() == [step.name]
    assert take_back_branch(delivery.place, step).status == "succeeded" and delivery.branches() == []
    assert take_back_branch(delivery.place, step).message == "none of it was made"
    again = take_back_branch(delivery.place, BranchStep("remove", step.name, step.commit))
    assert again.status == "succeeded" and delivery.branches() == [step.name]
