"""The maker: what of a work copy is carried, what is left out and why, and that its own reader takes what it makes."""

from __future__ import annotations

import io
import os
import socket
from pathlib import Path

import pytest

from tests.changes.trees_on_disk import build, held, made
from threegate.changes.change_tar import read_change_set
from threegate.changes.make import make_change_set
from threegate.changes.table import ChangeSetError
from threegate.changes.trees import HeldTree, OverlayTree
from threegate.core import limits


def changes(found: object) -> dict[str, str]:
    return {row.path: row.change for row in found.rows}  # type: ignore[attr-defined]


def test_each_kind_of_change(tmp_path: Path) -> None:
    project = build(
        tmp_path / "p",
        {
            "same": "1",
            "new": "1",
            "gone": "1",
            "exec": "1",
            "turns": "1",
            "d/x": "1",
            "old/deep/x": "1",
            "l": ("link", "same"),
        },
    )
    work = build(
        tmp_path / "w",
        {
            "same": "1",
            "new": "2",
            "exec": ("x", "1"),
            "turns/in": "3",
            "d/x": "1",
            "d/e/y": "",
            "l": ("link", "new"),
            "empty": None,
        },
    )
    found = made(project, work)
    assert changes(found) == {
        "new": "modify",
        "gone": "delete",
        "exec": "mode",
        "turns": "type",
        "turns/in": "add",
        "d/e": "add",
        "d/e/y": "add",
        "old": "delete",
        "old/deep": "delete",
        "old/deep/x": "delete",
        "l": "modify",
        "empty": "add",
    }
    assert not found.left_out
    read = read_change_set(found.data)
    assert read.rows == found.rows and read.sha256 == found.sha256
    assert read.read(io.BytesIO(found.data), "new") == b"2" and read.targets == {"l": "new"}
    assert found.counts == {"add": 4, "modify": 2, "delete": 4, "mode": 1, "type": 1}


def test_equal_trees_give_nothing(tmp_path: Path) -> None:
    spec = {"a": "1", "d/b": ("x", "2"), "l": ("link", "a")}
    found = made(build(tmp_path / "p", spec), build(tmp_path / "w", spec))
    assert found.data == b"" and found.rows == ()


def test_a_folder_becomes_a_file_and_back(tmp_path: Path) -> None:
    one = build(tmp_path / "p", {"d/x": "1"})
    two = build(tmp_path / "w", {"d": "2"})
    assert changes(made(one, two)) == {"d": "type", "d/x": "delete"}
    assert changes(made(two, one)) == {"d": "type", "d/x": "add"}


def test_what_cannot_be_carried_is_named_and_the_rest_is_made(tmp_path: Path) -> None:
    project = build(tmp_path / "p", {"f": "1", "hard": "1"})
    os.link(project / "hard", project / "hard2")
    work = build(
        tmp_path / "w",
        {
            "f": "2",
            "out": ("link", "/etc/passwd"),
            "up": ("link", "../x"),
            "two": ("link", "one/x"),
            "one": ("link", "d"),
            "togit": ("link", ".git/config"),
            "hidden": ("link", "a​b"),
            "set": "1",
            "hard": "2",
            "hard2": "1",
            "Case": "1",
            "case": "1",
            "sub/.git/config": "x",
            ".gitmodules": "x",
            "GIT~1/x": "x",
            ".env": "x",
            "bare/HEAD": "x",
            "bare/objects/x": "x",
            "bare/refs": None,
            "bad​name": "x",
        },
    )
    (work / "set").chmod(0o4755)
    os.mkfifo(work / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(work)
        server.bind("sock")
    found = made(project, work)
    os.chdir("/")
    left = {item.path: item.reason for item in found.left_out}
    assert set(left) == {
        "out", "up", "two", "togit", "hidden", "set", "hard", "Case", "case", ".env", "pipe", "sock",
        "bare/HEAD", "bare/objects", "bare/refs", "bad​name",
    }  # fmt: skip
    assert left["pipe"] == "is a FIFO" and "absolute" in left["out"] and "another link" in left["two"]
    assert found.git == 3
    assert changes(found) == {"f": "modify", "one": "add"}
    read_change_set(found.data)


def test_the_starting_ignore_files_decide(tmp_path: Path) -> None:
    project = build(
        tmp_path / "p",
        {
            ".gitignore": "*.o\n/build/\n!keep.o\n",
            "src/.gitignore": "!odd.o\n",
            "a": "1",
            "build/x": "1",
            "src/t": "1",
        },
    )
    work = build(
        tmp_path / "w",
        {".gitignore": "a\n", "src/.gitignore": "", "a": "2", "x.o": "1", "keep.o": "1", "src/odd.o": "1", "build/y": "1", "src/t": "1",  # noqa: E501
         "only/z.o": "1"},
    )  # fmt: skip
    found = made(project, work)
    assert changes(found) == {
        ".gitignore": "modify",
        "a": "modify",
        "keep.o": "add",
        "src/.gitignore": "modify",
        "src/odd.o": "add",
    }
    assert found.ignored == 3
    everything = made(project, work, include_ignored=True)
    assert {"x.o", "build/x", "build/y", "only", "only/z.o"} <= changes(everything).keys()


def test_what_stays_keeps_its_folder(tmp_path: Path) -> None:
    project = build(
        tmp_path / "p",
        {".gitignore": "*.o\n", "d/x": "1", "d/y.o": "1", "e/y.o": "1", "h/key": "1", "h/x": "1"},
    )
    work = build(tmp_path / "w", {".gitignore": "*.o\n", "e": "1"})
    found = made(project, work, hidden={"h/key"})
    assert changes(found) == {"d/x": "delete", "h/x": "delete"}
    assert [item.path for item in found.left_out] == ["e"]


def test_hidden_paths_are_neither_deleted_nor_written(tmp_path: Path) -> None:
    project = build(tmp_path / "p", {"a": "1", "key": "s", "deep/key": "s"})
    work = build(tmp_path / "w", {"a": "1", "key": "mine", "deep": None})
    found = made(project, work, hidden={"key", "deep/key"})
    assert not found.rows and [item.reason for item in found.left_out] == ["was hidden from the agent"]


def test_candidates_are_the_only_paths(tmp_path: Path) -> None:
    project = build(tmp_path / "p", {"a": "1", "d/x": "1", "d/y": "1"})
    work = build(tmp_path / "w", {"a": "2", "d/x": "2", "d/y": "2", "n/m/z": "1"})
    assert changes(made(project, work, candidates=["d/x"])) == {"d/x": "modify"}
    assert changes(made(project, work, candidates=["d"])) == {"d/x": "modify", "d/y": "modify"}
    assert changes(made(project, work, candidates=["d", "d/x"])) == {"d/x": "modify", "d/y": "modify"}
    assert changes(made(project, work, candidates=["n/m/z", "missing"])) == {
        "n": "add",
        "n/m": "add",
        "n/m/z": "add",
    }
    assert len(made(project, work, candidates=["."]).rows) == 6
    emptied = build(tmp_path / "e", {"a": "1"})
    assert changes(made(project, emptied, candidates=["d/x"])) == {"d/x": "delete"}
    assert len(made(project, emptied, candidates=["d/x", "d/y"]).rows) == 3
    assert not made(project, work, candidates=[]).rows
    with pytest.raises(ChangeSetError, match="leaves"):
        made(project, work, candidates=["../x"])


@pytest.mark.root
def test_an_overlay_is_read_without_mounting_it(tmp_path: Path) -> None:
    base = build(tmp_path / "p", {"a": "1", "b": "1", "d/x": "1", "d/y": "1", "gone/x": "1", "o/x": "1", "f/x": "1"})
    upper = build(tmp_path / "u", {"a": "2", "d/x": "1", "o/new": "1", "f": "now a file"})
    for path in ("b", "gone", "d/y"):
        os.mknod(upper / path, 0o020000, 0)
    os.setxattr(upper / "o", "trusted.overlay.opaque", b"y")
    with held(base) as one, held(upper) as other:
        tree = HeldTree(one)
        work = OverlayTree(HeldTree(other), tree)
        found = make_change_set(tree, work)
        assert work.look("gone/x") is None and work.look("f/x") is None and work.look("o/x") is None
        assert work.look("") is not None and work.names("gone") == {} and work.look("b") is None
        assert list(work.chunks("d/x")) == [b"1"]
    assert changes(found) == {
        "a": "modify",
        "b": "delete",
        "d/y": "delete",
        "f": "type",
        "f/x": "delete",
        "gone": "delete",
        "gone/x": "delete",
        "o/new": "add",
        "o/x": "delete",
    }


def test_too_much_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, work = build(tmp_path / "p", {}), build(tmp_path / "w", {str(n): "1" for n in range(9)})
    monkeypatch.setattr(limits, "CHANGE_ROWS", 8)
    with pytest.raises(ChangeSetError, match="in parts"):
        made(project, work)
    monkeypatch.setattr(limits, "CHANGE_WALK_ENTRIES", 5)
    with pytest.raises(ChangeSetError, match="names to compare"):
        made(project, work)
