"""The maker: what of a work copy is carried, what is left out and why, and that its own reader takes what it makes."""

from __future__ import annotations

import io
import os
import socket
from pathlib import Path

import pytest

from tests.plugins.changes.trees_on_disk import build, held, made
from threegate.core import limits
from threegate.plugins.changes.change_tar import read_change_set
from threegate.plugins.changes.checks import check_project
from threegate.plugins.changes.ignored import Ignoring
from threegate.plugins.changes.make import make_change_set
from threegate.plugins.changes.table import ChangeSetError
from threegate.plugins.changes.trees import HeldTree, OverlayTree


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
    everything = made(project, work, ignoring=None)
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


def test_names_that_are_special_elsewhere_are_ordinary(tmp_path: Path) -> None:
    """A device or a drive of Windows, a home folder of a shell, a form of a URL: on Linux these are names."""
    names = [
        "aux.c",
        "con.rs",
        "nul",
        "com1/lpt1.txt",
        "a: b",
        "c:",
        "~~~",
        "~/x",
        "100%25.txt",
        "x%2fy",
        "-rf",
        "#a",
        "`b`",
    ]
    project = build(tmp_path / "p", {"aux.c": "1"})
    found = made(project, build(tmp_path / "w", dict.fromkeys(names, "2")))
    assert not found.left_out and {*names, "com1", "~"} == changes(found).keys()
    assert read_change_set(found.data).rows == found.rows


def test_names_that_cannot_be_carried_are_left_out_alone(tmp_path: Path) -> None:
    project, work = build(tmp_path / "p", {"fine": "1", "was ": "1"}), build(tmp_path / "w", {"fine": "2", "was ": "2"})
    deep = "/".join(["d"] * limits.TAR_DEPTH)
    build(
        work,
        {
            "blank ": "1",
            "dir /x": "1",
            "wide\u3000": "1",
            "line\nbreak": "1",
            "tab\tx": "1",
            deep: "1",
            ".env.local": "1",
        },
    )
    for name in (b"caf\xe9.txt", b"dir\xff/x"):
        place = os.path.join(os.fsencode(work), name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(b"1")
    found = made(project, work)
    left = {item.path: item.reason for item in found.left_out}
    assert {"was ", "blank ", "dir ", "wide\u3000"} == {
        path for path, why in left.items() if "ends with a blank" in why
    }
    assert left["caf\\xe9.txt"] == left["dir\\xff"] == "has a name that is not UTF-8"
    assert "line\nbreak" in left and "tab\tx" in left and ".env.local" in left
    assert [path for path in changes(found) if not path.startswith("d")] == ["fine"]
    assert read_change_set(found.data).rows == found.rows


def test_tracked_files_in_ignored_folders_are_proposed(tmp_path: Path) -> None:
    """What git tracks is not ignored, whatever a rule says; beside it, everything ignored is."""
    rules = {".gitignore": "dist/\n*.log\nkept/deep\n"}
    project = build(
        tmp_path / "p", {**rules, "dist/app.js": "1", "dist/gone.js": "1", "dist/sub/t": "1", "kept.log": "1"}
    )
    work = build(
        tmp_path / "w",
        {
            **rules,
            "dist/app.js": "2",
            "dist/new.js": "1",
            "dist/sub/t": "2",
            "dist/sub/n": "1",
            "kept.log": "2",
            "x.log": "1",
        },
    )
    known = Ignoring(frozenset({"dist/app.js", "dist/gone.js", "dist/sub/t", "kept.log"}))
    found = made(project, work, ignoring=known)
    assert changes(found) == {
        "dist/app.js": "modify",
        "dist/gone.js": "delete",
        "dist/sub/t": "modify",
        "kept.log": "modify",
    }
    assert found.ignored == 3
    assert made(project, work).ignored == 3 and not made(project, work).rows


def test_the_owners_other_rules_count_after_those_of_the_project(tmp_path: Path) -> None:
    project = build(tmp_path / "p", {".gitignore": "!keep.local\n", "a": "1"})
    work = build(
        tmp_path / "w",
        {".gitignore": "!keep.local\n", "a": "2", "x.local": "1", "keep.local": "1", "sub/.DS_Store": "1"},
    )
    known = Ignoring(patterns=(("app/", "/app/a\n"), ("", "*.local\n!a\n"), ("", ".DS_Store\n")))
    found = made(project, work, ignoring=known)
    assert changes(found) == {"keep.local": "add"} and found.ignored == 3


def test_without_a_repository_outputs_of_builds_are_counted(tmp_path: Path) -> None:
    project = build(tmp_path / "p", {"a": "1", "target/kept": "1", "node_modules/p/x": "1", "pyproject.toml": "1"})
    work = build(
        tmp_path / "w",
        {"a": "2", "target/kept": "2", "node_modules/p/x": "2", "node_modules/q/y": "1", "pyproject.toml": "1",
         "sub/__pycache__/a.pyc": "1", "sub/m.py": "1", "rust/target/debug/x": "1", "b.pyc": "1",
         "rust/Cargo.toml": "1", "env/pyvenv.cfg": "1", "env/bin/python": "1", "build/lib/x": "1", "dist2/x": "1",
         "cache/CACHEDIR.TAG": "1"},
    )  # fmt: skip
    found = made(project, work, ignoring=Ignoring(repository=False))
    assert {"a", "target/kept", "sub/m.py", "rust/Cargo.toml", "dist2/x"} <= changes(found).keys()
    assert found.outputs == {
        "node_modules": 1,
        "__pycache__": 1,
        "target": 1,
        "b.pyc": 1,
        "env": 1,
        "build": 1,
        "cache": 1,
    }
    assert not {path for path in changes(found) if path.split("/")[0] in ("node_modules", "env", "build", "cache")}
    assert made(project, work).outputs == {}


def test_what_is_below_a_refused_folder_is_named(tmp_path: Path) -> None:
    """However deep, also where the folder's own names are the same on both sides."""
    project = build(
        tmp_path / "p",
        {".env.d/in/x": "1", ".env.d/in/same": "1", "b/HEAD": "1", "b/objects/o/x": "1", "b/refs/r": "1"},
    )
    work = build(
        tmp_path / "w",
        {
            ".env.d/in/x": "2",
            ".env.d/in/same": "1",
            ".env.d/in/new/y": "1",
            "b/HEAD": "1",
            "b/objects/o/x": "2",
            "b/refs/r": "1",
        },
    )
    found = made(project, work)
    assert [item.path for item in found.left_out] == [
        ".env.d/in/new",
        ".env.d/in/x",
        "b/objects/o/x",
    ] and not found.rows
    hidden = made(
        build(tmp_path / "q", {"h/key": "1"}), build(tmp_path / "v", {"h/a/b": "1", "h/c": "1"}), hidden={"h"}
    )
    assert [item.path for item in hidden.left_out] == ["h/a/b", "h/c"]


def test_a_draft_that_is_made_fits_its_project(tmp_path: Path) -> None:
    """What `approve` would refuse is left out by name, with what cannot be made without it."""
    project = build(
        tmp_path / "p",
        {"a": "1", "Hidden.txt": "1", "ws/threegate.toml": "", "ws/tool-exec": None, "d/x": "1", "d/y": "1"},
    )
    work = build(
        tmp_path / "w",
        {
            "a": "2",
            "hidden.txt": "1",
            "ws/threegate.toml": "",
            "ws/inbox/n": "1",
            "l": ("link", "ws/inbox"),
            "new/n": "1",
        },
    )
    os.link(project / "d" / "x", tmp_path / "other")
    found = made(project, work, hidden={"Hidden.txt", "ws/tool-exec"})
    left = {item.path: item.reason for item in found.left_out}
    assert "case or Unicode" in left["hidden.txt"] and "workspace" in left["ws/inbox"] and "workspace" in left["l"]
    assert changes(found) == {"a": "modify", "d/y": "delete", "new": "add", "new/n": "add"}
    with held(project) as folder:
        check_project(HeldTree(folder), read_change_set(found.data), os.geteuid())


def test_a_link_that_an_undo_could_not_make_again_is_left_out(tmp_path: Path) -> None:
    """A change set has no such links, and what an undo restores is one."""
    links = {"abs": ("link", "/x"), "up": ("link", "../../y"), "d/abs": ("link", "/"), "fine": ("link", "a")}
    project = build(tmp_path / "p", {**links, "a": "1", "d/x": "1"})
    work = build(tmp_path / "w", {"a": "1", "up": "now a file"})
    found = made(project, work)
    assert changes(found) == {"fine": "delete", "d/x": "delete"}
    assert {item.path for item in found.left_out} == {"abs", "up", "d/abs"}
    assert all("an undo could not make again" in item.reason for item in found.left_out)
