"""Ten times as many files take about ten times the work: counted in calls and syncs, so that a busy machine decides
nothing.
"""

from __future__ import annotations

import cProfile
import io
import pstats
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugins.changes.applying import OWNER, Change, own
from tests.plugins.changes.trees_on_disk import build, held, made
from threegate.core import durable
from threegate.plugins.changes.change_facts import changed_paths, path_diff
from threegate.plugins.changes.change_tar import read_change_set
from threegate.plugins.changes.checks import check_project, moved_on
from threegate.plugins.changes.trees import HeldTree

FEW, MANY = 80, 800
MOST = 12
"""The aim for ten times as many files."""


def calls(work: Callable[[], object]) -> int:
    """How many functions a piece of work calls."""
    profile = cProfile.Profile()
    profile.runcall(work)
    found: int = pstats.Stats(profile, stream=io.StringIO()).total_calls  # type: ignore[attr-defined]
    return found


class Codemod:
    """One line of each file changes; the files are in a few folders, or all in one."""

    def __init__(self, folder: Path, count: int, folders: int) -> None:
        before = {f"src/d{number % folders}/f{number}.py": f"value = {number}\n" * 9 for number in range(count)}
        self.folder = folder
        self.project = own(build(folder / "project", before))
        self.work = build(folder / "work", {path: text.replace("value", "v", 1) for path, text in before.items()})
        self.data = made(self.project, self.work).data

    def parts(self) -> dict[str, int]:
        """The calls of each part."""
        return {
            "make": calls(lambda: made(self.project, self.work)),
            "read": calls(lambda: read_change_set(self.data)),
            "check and show": calls(self.show),
            "apply": calls(self.apply),
        }

    def show(self) -> None:
        change, stream = read_change_set(self.data), io.BytesIO(self.data)
        with held(self.project) as folder:
            tree = HeldTree(folder)
            assert moved_on(tree, change.rows) == ()
            check_project(tree, change, OWNER)
            assert all(path_diff(tree, change, stream, item).text for item in changed_paths(change, stream))

    def apply(self) -> None:
        change = Change(self.project, self.data, self.folder)
        assert change.apply().status == "succeeded"
        change.forget()


@pytest.mark.parametrize("folders", [1, 20])
@pytest.mark.slow
def test_ten_times_the_files_take_ten_times_the_calls(tmp_path: Path, folders: int) -> None:
    Codemod(tmp_path / "warm", 9, folders).parts()  # what is loaded and compiled once
    few, many = (Codemod(tmp_path / str(count), count, folders).parts() for count in (FEW, MANY))
    growth = {part: many[part] / few[part] for part in few}
    assert all(each <= MOST for each in growth.values()), growth


def test_a_change_is_synced_as_often_however_many_files_it_has(tmp_path: Path) -> None:
    """On a slow disk a sync takes 10 ms: 6,000 files with one each take a minute."""
    syncs = []
    for count in (FEW, MANY):
        codemod, told = Codemod(tmp_path / str(count), count, 20), list[str]()
        forget = durable.observe(lambda moment, what, _, told=told: told.append(what) if moment == "before" else None)
        try:
            codemod.apply()
        finally:
            forget()
        syncs.append([what for what in told if "sync" in what])
    assert syncs[0] == syncs[1] and 0 < len(syncs[0]) < 12, syncs
