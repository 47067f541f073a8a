"""What only the project can tell: where a change set may not be applied, although its archive is in order."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.changes.trees_on_disk import build, held
from threegate.plugins.changes.change_tar import change_tar, read_change_set
from threegate.plugins.changes.checks import check_project, moved_on
from threegate.plugins.changes.table import EXECUTABLE, FILE, FOLDER, LINK, ChangeSetError, Mode, Row, TableNode
from threegate.plugins.changes.trees import HeldTree

UID = os.geteuid()


def node(text: str | None, mode: Mode = FILE) -> TableNode:
    return TableNode(FOLDER) if text is None else TableNode(mode, sha256(text.encode()).hexdigest())


def check(
    project: Path,
    *rows: tuple[str, TableNode | None, TableNode | None],
    content: dict[str, str] | None = None,
    uid: int = UID,
) -> tuple[str, ...]:
    """What moved on, or ChangeSetError."""
    data = change_tar([Row(*row) for row in rows], lambda row: (content or {}).get(row.path, "new").encode())
    change = read_change_set(data)
    with held(project) as folder:
        tree = HeldTree(folder)
        moved = moved_on(tree, change.rows)
        if not moved:
            check_project(tree, change, uid)
        return moved


NEW = node("new")


def test_what_may_be_applied(tmp_path: Path) -> None:
    project = build(tmp_path, {"a": "1", "d/x": "1", "gone/y": "1", "l": ("link", "a"), "t": "1", "Old": "1"})
    rows: tuple[Any, ...] = (
        ("a", node("1"), NEW),
        ("b", None, NEW),
        ("d/l", None, node("../a", LINK)),
        ("gone", node(None), None),
        ("gone/y", node("1"), None),
        ("l", node("a", LINK), None),
        ("t", node("1"), node(None)),
        ("t/in", None, NEW),
        ("Old", node("1"), None),
        ("old", None, NEW),
    )
    assert check(project, *rows, content={"d/l": "../a"}) == ()


@pytest.mark.parametrize(
    ("path", "before"),
    [
        ("a", node("2")),
        ("a", None),
        ("missing", node("1")),
        ("a", node("1", EXECUTABLE)),
        ("a", node("1", LINK)),
        ("l", node("1")),
        ("l", node("b", LINK)),
        ("d", node("1")),
        ("pipe", node("1")),
        ("a/b", node("1")),
    ],
)
def test_what_moved_on(tmp_path: Path, path: str, before: TableNode | None) -> None:
    project = build(tmp_path, {"a": "1", "l": ("link", "a"), "d": None})
    os.mkfifo(project / "pipe")
    assert check(project, (path, before, NEW)) == (path,)


def test_what_is_refused(tmp_path: Path) -> None:
    outside = build(tmp_path / "outside", {"x": "1", "d/x": "1"})
    project = build(
        tmp_path / "p",
        {"a": "1", "h": "1", "s": "1", "Case": "1", "dir/x": "1", "full/x": "1", "full/y": "1", "bare/HEAD": "1", "bare/refs": None,  # noqa: E501
         "to": ("link", "dir"), "out": ("link", str(outside)), "up": ("link", "../outside")},
    )  # fmt: skip
    os.link(project / "h", outside / "h")
    (project / "s").chmod(0o4755)

    def refused(words: str, *rows: tuple[str, TableNode | None, TableNode | None], **more: Any) -> None:
        before = sorted(str(path) for path in tmp_path.rglob("*"))
        with pytest.raises(ChangeSetError, match=words):
            check(project, *rows, **more)
        assert before == sorted(str(path) for path in tmp_path.rglob("*"))

    refused("not a folder", ("out/new", None, NEW))
    refused("not a folder", ("up/new", None, NEW))
    refused("not a folder", ("to/new", None, NEW))
    refused("not a folder", ("nowhere/new", None, NEW))
    refused("not a folder", ("a/new", None, NEW))
    refused("hard links", ("h", node("1"), NEW))
    refused("set-user-id", ("s", node("1", EXECUTABLE), NEW))
    refused("another account", ("a", node("1"), NEW), uid=UID + 1)
    refused("folder of another account", ("dir/new", None, NEW), uid=UID + 1)
    refused("case or Unicode", ("CASE", None, NEW))
    refused("case or Unicode", ("Dir", None, node(None)), ("Dir/x", None, NEW))
    refused("stays", ("full", node(None), None), ("full/x", node("1"), None))
    refused("stays", ("full", node(None), NEW), ("full/x", node("1"), None))
    refused("would make its folder a repository", ("bare/objects", None, node(None)))
    refused("another link", ("l", None, node("to/x", LINK)), content={"l": "to/x"})
    refused("another link", ("l", None, node("to", LINK)), content={"l": "to"})
    refused(
        "another link",
        ("k", None, node("a", LINK)),
        ("l", None, node("k", LINK)),
        content={"k": "a", "l": "k"},
    )
