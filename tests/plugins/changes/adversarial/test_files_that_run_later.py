"""An agent plants what runs later: under names that no list has, through links, in other version control systems."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.changes.adversarial.test_a_diff_that_hides import Screen
from tests.plugins.changes.trees_on_disk import build, held, made
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.plugins.changes.action import ProjectChange, ProjectPlace
from threegate.plugins.changes.change_facts import ChangedPath, changed_paths, job_change
from threegate.plugins.changes.change_tar import change_tar, read_change_set
from threegate.plugins.changes.checks import check_project
from threegate.plugins.changes.table import EXECUTABLE, FILE, FOLDER, LINK, ChangeSetError, Row, TableNode
from threegate.plugins.changes.trees import HeldTree
from threegate.request.job import risk_reasons

PLACE = ProjectPlace("web", "/srv/web", 1, 2, 3)


def seen(folder: Path, before: dict[str, Any], after: dict[str, Any]) -> dict[str, ChangedPath]:
    data = made(build(folder / "project", before), build(folder / "work", after)).data
    return {item.row.path: item for item in changed_paths(read_change_set(data), io.BytesIO(data))}


def archive(rows: dict[str, bytes | None], link: tuple[str, str] | None = None) -> bytes:
    """A change set as an agent writes it by hand: new files, folders (None), and a link."""
    nodes = [Row(path, None, TableNode(FOLDER) if data is None else TableNode(FILE, sha256_hex(data)))
             for path, data in rows.items()]  # fmt: skip
    content = {path: data or b"" for path, data in rows.items()}
    if link is not None:
        content[link[0]] = link[1].encode()
        nodes.append(Row(link[0], None, TableNode(LINK, sha256_hex(content[link[0]]))))
    return change_tar(nodes, lambda row: content[row.path])


@pytest.mark.parametrize(
    "name", ["newtool.toml", ".newtoolrc", "Newtoolfile", "x.newtool", ".newtool/tasks.py", "a/b/newtool.yml"]
)
def test_a_tool_that_nobody_here_knows(name: str, tmp_path: Path) -> None:
    item = seen(tmp_path, {}, {name: "run = 'evil'\n"})[name]
    assert item.later is not None and not item.source


@pytest.mark.parametrize("link", [".vscode", "web/.vscode", ".husky", ".github/workflows", ".claude"])
def test_a_link_that_makes_a_folder_of_data_one_that_runs(link: str, tmp_path: Path) -> None:
    """`.vscode -> assets/v`: the link is flagged, and so is each file that it gives such a name."""
    target = "../" * link.count("/") + "assets/v"
    after = {"assets/v/tasks.json": "{}", "assets/v/a.txt": "1", link: ("link", target), "assets/w/a.txt": "1"}
    found = seen(tmp_path, {}, after)
    assert found[link].later and found["assets/v/tasks.json"].later and found["assets/v/a.txt"].later
    assert "a link leads to it" in str(found["assets/v/tasks.json"].later)
    assert found["assets/w/a.txt"].later is None


def test_links_behind_links_and_in_circles(tmp_path: Path) -> None:
    after = {
        "x/b/run": ("link", "../../c"),
        "c/a.txt": "1",
        ".vscode": ("link", "x/b"),
        "d/up": ("link", ".."),
        "e": "1",
    }
    found = seen(tmp_path, {}, after)
    assert found["c/a.txt"].later, "x/b/run leads to c, and .vscode to x/b"
    many = {f"l{number}": ("link", "c") for number in range(70)}
    found = seen(tmp_path / "many", {}, {**many, "c/a.txt": "1"})
    assert "by more than 64 names" in str(found["c/a.txt"].later)


@pytest.mark.parametrize("absolute", [False, True])
def test_a_link_that_the_project_has(absolute: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link was there before: the screen says so beside the path, and where it did not search all names."""
    target = str(tmp_path / "project/assets/v") if absolute else "../assets/v"
    before = {"web/.vscode": ("link", target), "assets/v/tasks.json": "{}", "assets/w.json": "{}", "up": ("link", "..")}
    before |= {".idea": ("link", ".w"), "w/a.md": "1", ".top": ("link", str(tmp_path / "project2"))}
    screen = Screen(tmp_path, before, {**before, "assets/v/tasks.json": "[]", "assets/w.json": "[]", "w/a.md": "2"})
    lines = " ".join(" ".join(screen.lines()).split())
    assert (
        lines.count("RUNS LATER")
        == lines.count("RUNS LATER: a link leads to it; by that name: a shell or an editor loads or runs it")
        == 1
    )
    assert lines.index("assets/v/tasks.json") < lines.index("assets/w.json")
    monkeypatch.setattr(limits, "CHANGE_LINK_WALK", 2)
    assert "not all were searched for links" in " ".join(" ".join(screen.lines()).split())


def test_a_link_to_what_runs(tmp_path: Path) -> None:
    found = seen(
        tmp_path,
        {"run.sh": "", "a.md": ""},
        {"run.sh": "", "a.md": "", "n.txt": ("link", "run.sh"), "b.md": ("link", "a.md")},
    )
    assert found["n.txt"].later and found["b.md"].later is None


def test_the_risk_and_the_words_follow(tmp_path: Path) -> None:
    """Whatever is applied, nobody says that nothing runs: a source runs with the project, and the rest is flagged."""
    from tests.plugins.changes.test_apply_requests import made as asked_for
    from threegate.request.exposure import exposure_lines
    from threegate.request.model import exposure_of

    data = made(build(tmp_path / "p", {}), build(tmp_path / "w", {".newtoolrc": "x"})).data
    change = read_change_set(data)
    facts = job_change(changed_paths(change, io.BytesIO(data)), change, PLACE)
    assert facts.run_later == 1
    asked = asked_for()
    assert isinstance(asked.action, ProjectChange)
    asked = replace(asked, action=asked.action.bound(facts))
    exposure = exposure_of(asked)
    assert ("high", "it changes files that run later by themselves") in risk_reasons(asked, exposure)
    assert "nothing runs" not in " ".join(exposure_lines(exposure))


@pytest.mark.parametrize(
    "path",
    [
        *""".hg/hgrc .HG/hgrc sub/.hg/hgrc .jj/repo/config.toml .svn/entries _svn/entries _darcs/prefs/defaults _DARCS/x
        .bzr/branch/branch.conf .pijul/config .sl/config .repo/repo/main.py .hgsub HG~1/hgrc .hg./hgrc GITMOD~1
        .fslckout""".split(),
        ".hg /hgrc",
    ],
)
def test_another_version_control_system(path: str, tmp_path: Path) -> None:
    """Refused in an archive by hand, and counted but not carried from a work copy."""
    folders = {"/".join(path.split("/")[:depth]): None for depth in range(1, path.count("/") + 1)}
    with pytest.raises(ChangeSetError, match="is protected"):
        read_change_set(archive({**folders, path: b"[hooks]\n"}))
    found = made(build(tmp_path / "p", {"a": "1"}), build(tmp_path / "w", {"a": "1", path: "[hooks]\n"}))
    assert not found.rows and found.git == 1
    with pytest.raises(ChangeSetError, match="is a link to a path that is protected"):
        read_change_set(archive({}, ("l", path)))


BARE = {"x.git/HEAD": "ref: x\n", "x.git/objects/a": "1", "x.git/refs/a": "1", "x.git/config": "[core]\n"}
SUBVERSION = {"x.git/format": "5\n", "x.git/hooks/a": "1", "x.git/db": "1", "x.git/config": "1"}


@pytest.mark.parametrize("present", [BARE, SUBVERSION], ids=["git", "subversion"])
def test_a_bare_repository_that_is_there(present: dict[str, str], tmp_path: Path) -> None:
    """Its configuration names programs, so nothing in it changes, is added or goes."""
    project = build(tmp_path / "p", {**present, "a": "1"})
    after = {**present, "x.git/config": "[core]\nfsmonitor = evil\n", "x.git/hooks/post-commit": "evil\n", "a": "2"}
    found = made(project, build(tmp_path / "w", after))
    assert [row.path for row in found.rows] == ["a"]
    assert {item.reason for item in found.left_out} == {"is in a bare repository"}
    for path, mode in (("x.git/hooks2", FILE), ("x.git/new", EXECUTABLE)):
        row = Row(path, None, TableNode(mode, sha256_hex(b"x")))
        change = read_change_set(change_tar([row], lambda _: b"x"))
        with held(project) as folder, pytest.raises(ChangeSetError, match="is in a bare repository"):
            check_project(HeldTree(folder), change, project.stat().st_uid)
    gone = made(project, build(tmp_path / "gone", {"a": "1"}))
    assert not gone.rows, "nor is it removed"


def test_a_folder_that_becomes_a_bare_repository(tmp_path: Path) -> None:
    for number, names in enumerate((BARE, {"x/format": "1", "x/hooks/post-commit": "1", "x/db": "1"})):
        work = build(tmp_path / f"w{number}", {**names, "x/README": "1", "x.git/README": "1"})
        found = made(build(tmp_path / f"p{number}", {}), work)
        assert not {row.path.rpartition("/")[2] for row in found.rows} & {
            "HEAD",
            "objects",
            "refs",
            "format",
            "hooks",
            "db",
        }
