"""Applying and undoing a change set: whole or not at all, as the owner, with everything else as it was."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import slow
from tests.plugins.changes.applying import OWNER, Change, own, picture, place_of
from tests.plugins.changes.trees_on_disk import build
from threegate.core import durable
from threegate.core.errors import Refused
from threegate.plugins.changes.apply import apply_engine as engine
from threegate.plugins.changes.apply.apply_journal import STAGE, read_journal
from threegate.plugins.changes.projects import hold_project

BEFORE = {
    "same": "1",
    "text": "old\n",
    "tool": "#!/bin/sh\n",
    "run": ("x", "x"),
    "gone": "bye",
    "dir/a": "1",
    "dir/sub/b": "2",
    "turns": "file",
    "folder/x": "1",
    "link": ("link", "same"),
    "deep/er/est/f": "1",
}
AFTER = {
    "same": "1",
    "text": "new\n",
    "tool": ("x", "#!/bin/sh\n"),
    "run": "x",
    "turns/into/folder": "1",
    "folder": "a file now",
    "link": ("link", "text"),
    "deep/er/est/f": "2",
    "new/e": "",
    "new/empty": None,
    "new/link": ("link", "../same"),
}


def content(root: Path) -> dict[str, Any]:
    """A tree without owners."""
    return {path: (facts[0], facts[-1]) if facts[0] != "link" else facts[:2] for path, facts in picture(root).items()}


def test_applied_and_undone(tmp_path: Path) -> None:
    change = Change.of(tmp_path, BEFORE, AFTER)
    before = picture(change.project)
    done = change.apply()
    assert done.status == "succeeded", done
    change.forget()
    assert content(change.project) == content(tmp_path / "work")
    assert {facts[1] for facts in picture(change.project).values() if facts[0] != "link"} == {OWNER}
    undone = change.undo()
    assert undone.status == "succeeded", undone
    change.forget()
    assert picture(change.project) == before
    assert not (change.project / STAGE).exists()


def test_modes_are_kept_and_never_widened(tmp_path: Path) -> None:
    change = Change.of(
        tmp_path,
        {"secret": "1", "gets_x": "1", "group": "1", "closed/f": "1", "loses_x": ("x", "1"), "goes": "1"},
        {"secret": "2", "gets_x": ("x", "1"), "group": "2", "closed/f": "1", "closed/new": ("x", "1"), "closed/d/e": "1", "loses_x": "1"},  # noqa: E501
    )  # fmt: skip
    for path, mode in {
        "secret": 0o600,
        "gets_x": 0o600,
        "group": 0o664,
        "closed": 0o700,
        "loses_x": 0o750,
        "goes": 0o640,
    }.items():
        (change.project / path).chmod(mode)
    before = picture(change.project)
    assert change.apply().status == "succeeded"
    change.forget()
    modes = {
        path: (change.project / path).stat().st_mode & 0o7777
        for path in ("secret", "gets_x", "group", "closed/new", "closed/d", "closed/d/e", "loses_x")
    }
    assert modes == {
        "secret": 0o600,
        "gets_x": 0o700,
        "group": 0o664,
        "closed/new": 0o700,
        "closed/d": 0o700,
        "closed/d/e": 0o600,
        "loses_x": 0o640,
    }
    assert change.undo().status == "succeeded"
    change.forget()
    assert picture(change.project) == before


def test_a_mode_change_makes_a_new_inode(tmp_path: Path) -> None:
    """Whoever has the old file open, or another name for it, does not get the new mode."""
    change = Change.of(tmp_path, {"f": "1"}, {"f": ("x", "1")})
    inode = (change.project / "f").stat().st_ino
    assert change.apply().status == "succeeded"
    assert (change.project / "f").stat().st_ino != inode


@pytest.mark.root
def test_a_folder_that_passes_its_group_on_does_so(tmp_path: Path) -> None:
    change = Change.of(tmp_path, {"d/x": "1"}, {"d/x": "1", "d/new/y": "1"})
    os.chown(change.project / "d", OWNER, 12345)
    (change.project / "d").chmod(0o2775)
    refused = change.apply()
    assert refused.status == "project_not_writable"
    said = "d/new could not be changed (its owner is not a member of the group 12345); nothing was changed"
    assert refused.message == said
    assert not (change.project / STAGE).exists()
    os.chown(change.project / "d", OWNER, OWNER)
    (change.project / "d").chmod(0o2775)
    assert change.apply().status == "succeeded"
    assert (change.project / "d/new").stat().st_mode & 0o7777 == 0o2755


@pytest.mark.root
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    change = Change.of(tmp_path, {"a": "1", "d/x": "1"}, {"a": "2", "d/x": "2"})
    (change.project / "d").chmod(0o555)
    before = picture(change.project)
    refused = change.apply()
    said = "d/x could not be changed (Permission denied); nothing was changed"
    assert (refused.status, refused.message) == ("project_not_writable", said)
    assert picture(change.project) == before and not (change.project / STAGE).exists()


@pytest.mark.parametrize("path", ["text", "gone", "turns", "link", "dir/sub/b", "new", "tool", "run", "folder/x"])
def test_a_project_that_moved_on_is_left_alone(tmp_path: Path, path: str) -> None:
    change = Change.of(tmp_path, BEFORE, AFTER)
    place = change.project / path
    if place.is_symlink() or path == "run":
        place.unlink()
        place.symlink_to("gone")
    elif path == "tool":
        place.chmod(0o755)
    else:
        place.write_text("someone else")
    own(change.project)
    before = picture(change.project)
    done = change.apply()
    assert done.status == "project_changed" and path in done.message
    assert picture(change.project) == before


def test_another_folder_at_the_path_is_not_the_project(tmp_path: Path) -> None:
    change = Change.of(tmp_path, BEFORE, AFTER)
    place = place_of(change.project)
    change.project.rename(tmp_path / "elsewhere")
    own(build(change.project, BEFORE))
    with pytest.raises(Refused, match="another folder"):
        hold_project(place)
    change.project.rename(tmp_path / "third")
    with pytest.raises(Refused, match="cannot be opened"):
        hold_project(place)
    change.project.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="cannot be opened"):
        hold_project(place)


@pytest.mark.root
def test_root_changes_nothing(tmp_path: Path) -> None:
    change = Change.of(tmp_path, {"a": "1"}, {"a": "2"})
    for path in (change.project, change.project / "a"):
        os.chown(path, 0, 0)
    assert change.apply().status == "project_not_writable"
    assert (change.project / "a").read_text() == "1"


def test_a_cut_off_change_blocks_the_next(tmp_path: Path) -> None:
    change = Change.of(tmp_path, {"a": "1"}, {"a": "2"})
    assert change.apply().status == "succeeded"
    assert change.undo().status == "project_not_writable"
    assert (change.project / "a").read_text() == "2"


def test_a_stop_takes_everything_back(tmp_path: Path) -> None:
    change = Change.of(tmp_path, BEFORE, AFTER)
    before = picture(change.project)
    for count in range(0, 30, 3):
        answers = iter([None] * count)
        done = change.apply(stop=lambda answers=answers: next(answers, "timed_out"))
        if done.status == "succeeded":
            break
        assert done.status == "timed_out" and not done.left
        assert picture(change.project) == before
    else:
        pytest.fail("it never ran to its end")


class Killed(BaseException):
    """Stands for a process that is gone: nothing of ours runs after it."""


def operations(change: Change, act: str) -> list[tuple[str, str]]:
    """All operations of an act, told before and after each."""
    told: list[tuple[str, str]] = []
    forget = durable.observe(lambda moment, operation, path: told.append((moment, operation)))
    try:
        assert getattr(change, act)().status == "succeeded"
    finally:
        forget()
    return told


@pytest.mark.parametrize("act", ["apply", slow("undo")])
def test_a_crash_at_every_operation_leaves_nothing_half(
    tmp_path: Path, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = Change.of(tmp_path, BEFORE, AFTER)
    if act == "undo":
        assert change.apply().status == "succeeded"
        change.forget()
    before = picture(change.project)
    count = len(operations(change, act))
    change.take_back(act)
    assert picture(change.project) == before
    # What a crash leaves is what the operations before it made: nothing of ours may clean up on the way out.
    for name in ("forget", "take_back"):
        monkeypatch.setattr(engine, name, lambda *_: ())
    for number in range(count):
        left = iter(range(number))

        def stop(moment: str, operation: str, path: str, left: Any = left) -> None:
            if next(left, None) is None:
                raise Killed

        unobserve = durable.observe(stop)
        try:
            with pytest.raises(Killed):
                getattr(change, act)()
        finally:
            unobserve()
        monkeypatch.undo()
        assert change.take_back(act) == ()
        assert picture(change.project) == before, number
        for name in ("forget", "take_back"):
            monkeypatch.setattr(engine, name, lambda *_: ())


@pytest.mark.parametrize("number", [errno.ENOSPC, slow(errno.EIO), slow(errno.EMFILE), slow(errno.EACCES)])
def test_a_disk_that_fails_at_every_operation(tmp_path: Path, number: int) -> None:
    change = Change.of(tmp_path, BEFORE, AFTER)
    before = picture(change.project)
    count = [moment for moment, _ in operations(change, "apply")].count("before")
    change.take_back()
    for place in range(count):
        left = iter(range(place))
        armed = [True]

        def fail(moment: str, operation: str, path: str) -> None:
            if armed[0] and moment == "before" and next(left, None) is None:
                armed[0] = False
                raise OSError(number, os.strerror(number), path)

        unobserve = durable.observe(fail)
        try:
            done = change.apply()
        finally:
            unobserve()
        assert done.status != "succeeded" and not done.left
        change.take_back()
        assert picture(change.project) == before


def test_recovery_is_cut_off_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = Change.of(tmp_path, BEFORE, AFTER)
    before = picture(change.project)
    assert change.apply().status == "succeeded"
    for number in range(200):
        left = iter(range(number))

        def stop(moment: str, operation: str, path: str, left: Any = left) -> None:
            if next(left, None) is None:
                raise Killed

        unobserve = durable.observe(stop)
        try:
            assert change.take_back() == ()
            break
        except Killed:
            continue
        finally:
            unobserve()
    assert picture(change.project) == before


def test_what_somebody_wrote_since_the_crash_stays(tmp_path: Path) -> None:
    change = Change.of(tmp_path, BEFORE, AFTER)
    assert change.apply().status == "succeeded"
    (change.project / "text").write_text("mine")
    (change.project / "gone").write_text("mine too")
    left = change.take_back()
    assert set(left) == {"text", "gone"}
    assert (change.project / "text").read_text() == "mine" and (change.project / "gone").read_text() == "mine too"
    kept = {path.read_bytes() for path in (change.project / STAGE).iterdir() if path.is_file()}
    assert {b"old\n", b"bye"} <= kept  # nothing is lost


def test_a_journal_that_is_none() -> None:
    for data in (b"", b"{}\n", b"[]\n", b'{"project":{},"token":"x"}\n', b"\xff"):
        with pytest.raises(ValueError, match="not a journal"):
            read_journal(data)
