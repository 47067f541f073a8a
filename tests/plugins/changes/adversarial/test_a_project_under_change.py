"""Somebody changes the project at any moment of a change: nothing outside is touched, nothing of theirs is lost, and
what is not taken back whole was changed by them.

The attacker acts before each operation of the seam to the disk in turn, with the rights of the project's owner.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import slow
from tests.plugins.changes.applying import Change, as_root, own, picture
from tests.plugins.changes.trees_on_disk import build
from threegate.core import durable
from threegate.plugins.changes.apply.apply_journal import STAGE

BEFORE = {
    "a": "old a",
    "dir/b": "old b",
    "dir/sub/c": "old c",
    "gone": "old gone",
    "turns": "old turns",
    "link": ("link", "a"),
}
AFTER = {
    "a": "new a",
    "dir/b": "new b",
    "dir/sub/c": "new c",
    "dir/new": "new",
    "turns/in": "new in",
    "fresh/x": "new x",
    "link": ("link", "dir/b"),
}
OUTSIDE = {"b": "outside b", "sub/c": "outside c", "a": "outside a", "in": "outside in", "x": "outside x"}
MINE = b"somebody's own bytes"


def to_a_link(project: Path, outside: Path) -> None:
    (project / "dir").rename(project / "moved")
    (project / "dir").symlink_to(outside)


def inner_to_a_link(project: Path, outside: Path) -> None:
    (project / "dir/sub").rename(project / "dir/moved")
    (project / "dir/sub").symlink_to(outside / "sub")


def file_to_a_link(project: Path, outside: Path) -> None:
    (project / "a").unlink()
    (project / "a").symlink_to(outside / "a")


def file_to_a_hard_link(project: Path, outside: Path) -> None:
    (project / "a").unlink()
    os.link(outside / "a", project / "a")


def written_in_place(project: Path, outside: Path) -> None:
    (project / "dir/b").write_bytes(MINE)


def replaced_by_an_editor(project: Path, outside: Path) -> None:
    (project / "dir/.b.tmp").write_bytes(MINE)
    (project / "dir/.b.tmp").rename(project / "dir/b")


def taken_name(project: Path, outside: Path) -> None:
    (project / "dir/new").write_bytes(MINE)


def taken_folder(project: Path, outside: Path) -> None:
    (project / "fresh").symlink_to(outside)


def gone_file(project: Path, outside: Path) -> None:
    (project / "gone").unlink()


def kept_alive(project: Path, outside: Path) -> None:
    (project / "gone").write_bytes(MINE)


def turned_link(project: Path, outside: Path) -> None:
    (project / "link").unlink()
    (project / "link").symlink_to(outside / "a")


def turned_folder(project: Path, outside: Path) -> None:
    (project / "turns").unlink()
    (project / "turns").symlink_to(outside)


ATTACKS: dict[str, Callable[[Path, Path], None]] = {
    function.__name__: function
    for function in (
        to_a_link, inner_to_a_link, file_to_a_link, file_to_a_hard_link, written_in_place, replaced_by_an_editor,
        taken_name, taken_folder, gone_file, kept_alive, turned_link, turned_folder,
    )
}  # fmt: skip


def contents(root: Path) -> set[Any]:
    return {facts[-1] for facts in picture(root).values() if facts[0] != "link"}


@pytest.mark.parametrize("every", [5, slow(1)])
@pytest.mark.parametrize("name", ATTACKS)
def test_at_every_moment(tmp_path: Path, name: str, every: int) -> None:
    """At some moments, another row of them for each attack; the slow form is at each."""
    moment = list(ATTACKS).index(name) % every
    succeeded = refused = 0
    while True:
        folder = tmp_path / str(moment)
        change = Change.of(folder, BEFORE, AFTER)
        outside = own(build(folder / "outside", OUTSIDE))
        untouched = picture(outside)
        left = iter(range(moment))
        acted = [False]

        def act(
            when: str,
            operation: str,
            path: str,
            left: Any = left,
            acted: Any = acted,
            change: Any = change,
            outside: Any = outside,
        ) -> None:
            if when == "before" and not acted[0] and next(left, None) is None:
                acted[0] = True
                with as_root():
                    try:
                        ATTACKS[name](change.project, outside)
                    except OSError:
                        acted[0] = None  # nothing to attack at this moment
                    own(change.project)

        unobserve = durable.observe(act)
        try:
            done = change.apply()
        finally:
            unobserve()
        if acted[0] is False:
            break
        assert picture(outside) == untouched, (name, moment)
        mine = name in ("written_in_place", "replaced_by_an_editor", "taken_name", "kept_alive") and acted[0] is True
        if mine:
            assert MINE in contents(change.project), (name, moment, done)
        if done.status == "succeeded":
            succeeded += 1
        else:
            refused += 1
            new = {b"new a", b"new b", b"new c", b"new", b"new in", b"new x"}
            rest = {
                facts[-1]
                for path, facts in picture(change.project).items()
                if not path.startswith(STAGE) and facts[0] != "link"
            }
            assert not new & rest or done.left, (name, moment, done)
            old = {b"old a", b"old b", b"old c", b"old turns"}
            lost = old - contents(change.project)
            destroyed = {
                "file_to_a_link": {b"old a"}, "file_to_a_hard_link": {b"old a"}, "written_in_place": {b"old b"},
                "replaced_by_an_editor": {b"old b"}, "turned_folder": {b"old turns"},
            }.get(name, set())  # fmt: skip
            assert lost <= destroyed, (name, moment, done)
        moment += every
    assert refused and moment > 20, (succeeded, refused, moment)
