"""A change fails, and so does reverting it: no result says that nothing was changed, and nothing needed is removed."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.plugins.changes.applying import TOKEN, Change, as_owner, as_root, own, picture
from tests.plugins.changes.branches import Branching, branching, edit
from tests.support import THREEGATE
from threegate.core import durable
from threegate.plugins.changes.apply.apply_journal import STAGE, ApplyPlan, BranchStep, first_line, write_plan
from threegate.plugins.changes.apply.as_owner import Order, perform
from threegate.plugins.changes.apply.branch_delivery import remove_branch
from threegate.plugins.changes.projects import hold_project, look_at_project


@contextmanager
def observed(stop: object) -> Iterator[None]:
    forget = durable.observe(stop)  # type: ignore[arg-type]
    try:
        yield
    finally:
        forget()


@pytest.mark.parametrize("rename", range(1, 5))
def test_no_descriptor_is_left_at_a_rename(tmp_path: Path, rename: int) -> None:
    """The change cannot go on, and the stage folder cannot be opened to revert it."""
    change = Change.of(tmp_path, {"a": "1", "b": "1", "gone": "1"}, {"a": "2", "b": "2", "new": "1"})
    before = picture(change.project)
    bounds = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = 0

    def exhaust(moment: str, operation: str, path: str) -> None:
        nonlocal seen
        seen += moment == "after" and operation in ("rename", "exchange")
        if seen == rename:
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, bounds[1]))

    with observed(exhaust):
        try:
            done = change.apply()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, bounds)
    assert done.status == "failed" and picture(change.project) != before
    assert done.halfway and "nothing was changed" not in done.message
    assert change.take_back() == () and picture(change.project) == before and not (change.project / STAGE).exists()


@pytest.fixture
def here() -> Iterator[Branching]:
    with branching({"app.py": "print(1)\n"}) as made:
        yield made


def blocked(here: Branching, branch: str) -> Path:
    """Somebody's lock on a branch: git changes it no more."""
    lock = here.project / ".git/refs/heads" / f"{branch}.lock"
    lock.touch()
    return own(lock)


@pytest.mark.root
def test_a_child_that_could_not_remove_the_branch_says_so(here: Branching) -> None:
    """Its parent heard only that it failed, and threw away the journal."""
    place = look_at_project("app", str(here.project), "branch")
    commit = here.git("rev-parse", "HEAD").strip()
    here.git("branch", "threegate/x")
    lock = blocked(here, "threegate/x")
    with open(here.folder / "journal", "wb+") as journal, hold_project(place) as project:
        journal.write(first_line(place, TOKEN))
        journal.flush()
        write_plan(journal.fileno(), ApplyPlan((), {}, BranchStep("make", "threegate/x", commit)), "journal")
        back = Order("take_back", place, project.fileno(), TOKEN, journal.fileno())
        assert perform(back).halfway
        lock.unlink()
        done = perform(back)
    assert done.status == "succeeded" and not done.halfway and here.branches() == []


def test_a_branch_that_was_removed_and_cannot_be_made_again(here: Branching) -> None:
    place = look_at_project("app", str(here.project), "branch")
    here.git("branch", "threegate/x")
    here.git("branch", "threegate/keeps-its-folder")
    commit = here.git("rev-parse", "HEAD").strip()

    def fail(moment: str, operation: str, path: str) -> None:
        if (moment, operation) == ("after", "reference"):
            with as_root():
                blocked(here, "threegate/x")
            raise OSError(5, os.strerror(5))

    with open(here.folder / "journal", "wb+") as journal, as_owner(), observed(fail):
        done = remove_branch(place, journal.fileno(), name="threegate/x", commit=commit)
    assert here.branches() == ["threegate/keeps-its-folder"] and done.halfway, done


def test_a_branch_whose_removal_failed_is_there(here: Branching) -> None:
    """It was removed before the failure: the change stands, so the branch is made again."""
    place = look_at_project("app", str(here.project), "branch")
    here.git("branch", "threegate/x")
    commit = here.git("rev-parse", "HEAD").strip()
    failures = iter([5])

    def fail(moment: str, operation: str, path: str) -> None:
        if (moment, operation) == ("after", "reference") and (number := next(failures, None)):
            raise OSError(number, os.strerror(number))

    with open(here.folder / "journal", "wb+") as journal, as_owner(), observed(fail):
        done = remove_branch(place, journal.fileno(), name="threegate/x", commit=commit)
    assert done.status == "failed" and not done.halfway and here.branches() == ["threegate/x"]


@pytest.mark.root
def test_a_branch_that_was_made_and_cannot_be_taken_back(here: Branching) -> None:
    """The daemon's record says so, and the journal stays until the next start has removed the branch."""
    heads, acts = here.project / ".git/refs/heads", here.folder / "acts"
    acts.mkdir()
    (acts / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'threegate.plugins.changes.apply.as_owner' in sys.orig_argv:\n"
        "    from threegate.core import durable\n"
        "    def fail(moment, operation, path):\n"
        "        if (moment, operation) == ('after', 'reference'):\n"
        f"            open({str(heads)!r} + '/' + path.partition('refs/heads/')[2] + '.lock', 'x').close()\n"
        "            raise OSError(5, 'I/O error')\n"
        "    durable.observe(fail)\n"
    )
    here.approve(here.propose(edit))
    environment = {**os.environ, "PYTHONPATH": str(acts)}
    subprocess.run([*THREEGATE, "run", "--once"], cwd=here.place.root, env=environment, check=True, timeout=60)
    [branch] = here.branches()
    request_id = here.place.events("finished")[-1]["request_id"]
    result = here.place.result(request_id)
    assert "status: failed" in result and "cannot be reverted now" in result and "nothing was changed" not in result
    (heads / f"{branch}.lock").unlink()
    here.place.once()
    assert here.branches() == []
    here.place.run("audit", "verify", expect=0)
