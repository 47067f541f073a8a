"""A change set whose project moved on: merged into a new draft, or refused by name; never applied by itself."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.plugins.agents.agent_runs import drop, make_run
from tests.plugins.changes.applying import own, picture
from tests.plugins.changes.trees_on_disk import Spec, build, made
from tests.support import Done, Place, make_place, monty_draft, request_id
from threegate.core.errors import Unavailable
from threegate.core.settings import RequestSettings
from threegate.plugins.changes import machine_programs, merge
from threegate.plugins.changes.change_draft import draft_change_set
from threegate.plugins.changes.merge import base_name, merge_files

LINES = "".join(f"{number}\n" for number in range(20))
BEFORE = {"text": LINES, "run.sh": ("x", LINES), "same": "1\n", "gone": "1\n", "both": "1\n"}
AFTER = {
    "text": LINES.replace("2\n", "two\n", 1),
    "run.sh": ("x", LINES + "end\n"),
    "same": "2\n",
    "both": "2\n",
    "new": "1\n",
    "link": ("link", "same"),
}


@pytest.fixture(autouse=True)
def with_git() -> None:
    if shutil.which("git") is None:
        missing("git (apt-get install git)")


class Moved:
    """A run's draft, and the files that its launcher kept."""

    def __init__(self, folder: Path, before: Spec = BEFORE, after: Spec = AFTER) -> None:
        self.project = own(build(folder / "project", before))
        self.place: Place = make_place(folder, settings={"project.root": str(self.project)})
        self.run = make_run(self.place)
        found = made(self.project, build(folder / "work", after))
        for row in found.rows:
            if row.before is not None and row.before.file:
                (self.run.base / base_name(row.path)).write_bytes((self.project / row.path).read_bytes())
        draft = draft_change_set(
            found, project="default", request_id=request_id("moved"), requested_by="codex", purpose="Change it.",
            justification="It was wrong.", now=datetime.now(UTC).replace(microsecond=0), settings=RequestSettings(),
        )  # fmt: skip
        (self.run.files / hashlib.sha256(found.data).hexdigest()).write_bytes(found.data)
        self.draft = drop(self.run.inbox, draft.data.decode(), draft.name)

    def redraft(self, expect: int = 0) -> Done:
        return self.place.run("project", "redraft", str(self.draft), expect=expect)

    def fresh(self) -> Path:
        """The other draft of the run."""
        [path] = (path for path in self.run.inbox.glob("TR-*.md") if path != self.draft)
        return path


def test_what_both_sides_changed_is_merged_and_signed_anew(tmp_path: Path) -> None:
    moved = Moved(tmp_path)
    (moved.project / "text").write_text(LINES.replace("17\n", "seventeen\n"))
    (moved.project / "run.sh").write_text("start\n" + LINES)
    (moved.project / "run.sh").chmod(0o644)
    (moved.project / "both").write_text("2\n")
    (moved.project / "other").write_text("theirs\n")
    own(moved.project)
    before = picture(moved.project)
    refused = moved.place.run(
        "approve", str(moved.draft), "--as", "operator", "--key", str(moved.place.key), "--yes", expect=2
    )
    assert "moved on" in refused.err and "threegate project redraft" in refused.err
    told = moved.redraft().out
    assert "merged with the project: text" in told and "merged with the project: run.sh" in told
    assert picture(moved.project) == before and moved.draft.is_file()
    shown = moved.place.approve(moved.fresh()).out
    assert "+ | two" in shown and "- | 17" not in shown and "drafted again from" in shown
    moved.place.once()
    assert (moved.project / "text").read_text() == LINES.replace("2\n", "two\n", 1).replace("17\n", "seventeen\n")
    assert (moved.project / "run.sh").read_text() == "start\n" + LINES + "end\n"
    assert (moved.project / "run.sh").stat().st_mode & 0o777 == 0o644
    assert (moved.project / "same").read_text() == "2\n" == (moved.project / "both").read_text()
    assert not (moved.project / "gone").exists() and os.readlink(moved.project / "link") == "same"
    assert (moved.project / "other").read_text() == "theirs\n"
    moved.place.run("audit", "verify", expect=0)


@pytest.mark.slow
def test_what_cannot_be_merged_is_named_and_the_rest_is_drafted(tmp_path: Path) -> None:
    before = {
        "lines": LINES,
        "gone": "1\n",
        "kind": "1\n",
        "lost": LINES,
        "forged": LINES,
        "odd": "1\n",
        "fine": LINES,
    }
    after = {name: LINES + "end\n" for name in before if name != "gone"}
    moved = Moved(tmp_path, before, after)
    (moved.project / "lines").write_text(LINES + "another end\n")
    (moved.project / "gone").write_text("2\n")
    (moved.project / "kind").unlink()
    (moved.project / "kind").symlink_to("fine")
    for name in ("lost", "forged", "fine"):
        (moved.project / name).write_text("start\n" + LINES)
    (moved.run.base / base_name("lost")).unlink()
    (moved.run.base / base_name("forged")).write_text("start\n" + LINES)
    (moved.project / "odd").unlink()
    os.mkfifo(moved.project / "odd")
    before_it = picture(moved.project)
    said = moved.redraft().out
    for name in ("forged", "gone", "kind", "lines", "lost", "odd"):
        assert f"left out: {name}: both sides changed it" in said
    assert "merged with the project: fine" in said and picture(moved.project) == before_it
    assert "left out: lines: both sides changed it in ways that cannot be merged" in moved.fresh().read_text()
    moved.place.approve(moved.fresh())
    moved.place.once()
    assert (moved.project / "fine").read_text() == "start\n" + LINES + "end\n"
    assert (moved.project / "lines").read_text() == LINES + "another end\n"


def test_a_change_of_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    moved = Moved(tmp_path, {"a": "1\n", "b": "1\n"}, {"a": "2\n"})
    for name in ("a", "b"):
        (moved.project / name).write_text("3\n")
    said = moved.redraft(expect=2).err
    assert "both sides changed a, b in ways that cannot be merged" in said
    assert f"threegate agent continue {moved.run.run_id}" in said
    assert [path.name for path in moved.run.inbox.glob("TR-*.md")] == [moved.draft.name]


def test_there_is_something_to_merge_or_it_is_said(tmp_path: Path) -> None:
    moved = Moved(tmp_path, {"a": "1\n"}, {"a": "2\n"})
    assert "approve the draft itself" in moved.redraft(expect=2).err
    (moved.project / "a").write_text("2\n")
    assert "has all of this change" in moved.redraft(expect=2).err
    (moved.project / "a").unlink()
    own(build(moved.project, {"a": "1\n", "b/c": "1\n"}))
    other = moved.place.drop(monty_draft(request_id("sum"), "print(1)"))
    assert "changes no project" in moved.place.run("project", "redraft", str(other), expect=2).err


@pytest.mark.slow
def test_a_folder_that_has_more_in_it_now_stays(tmp_path: Path) -> None:
    moved = Moved(tmp_path, {"d/x": "1\n", "a": LINES}, {"a": LINES + "end\n"})
    build(moved.project, {"d/y": "1\n", "a": "start\n" + LINES})
    own(moved.project)
    assert "left out: d: has 'y' in it, which stays" in moved.redraft().out
    moved.place.approve(moved.fresh())
    moved.place.once()
    assert [path.name for path in (moved.project / "d").iterdir()] == ["y"]


@pytest.mark.slow
def test_a_folder_that_only_got_something_new_is_no_dead_end(tmp_path: Path) -> None:
    """No path of the change moved on, but it cannot be applied as it is: tests ran, and left a `__pycache__`."""
    moved = Moved(tmp_path, {"d/x": "1\n", "a": "1\n"}, {"a": "2\n"})
    build(moved.project, {"d/__pycache__/x.pyc": "1"})
    own(moved.project)
    assert "left out: d: has '__pycache__' in it" in moved.redraft().out
    moved.place.approve(moved.fresh())
    moved.place.once()
    assert (moved.project / "a").read_text() == "2\n" and not (moved.project / "d" / "x").exists()


@pytest.mark.slow
def test_the_mode_of_one_side_and_the_text_of_the_other(tmp_path: Path) -> None:
    moved = Moved(tmp_path, {"a": "1\n", "b": "1\n"}, {"a": ("x", "1\n"), "b": "2\n"})
    (moved.project / "a").write_text("2\n")
    (moved.project / "b").chmod(0o755)
    moved.redraft()
    moved.place.approve(moved.fresh())
    moved.place.once()
    for name in ("a", "b"):
        path = moved.project / name
        assert (path.read_text(), path.stat().st_mode & 0o777) == ("2\n", 0o755)


def test_git_merges_three_plain_files_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No repository around, no configuration of the account's or the machine's."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "evil"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text("[merge]\n\tconflictStyle = nonsense\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, env={"PATH": os.environ["PATH"]})
    (tmp_path / ".git" / "config").write_text("[broken")
    assert merge_files(b"1\n2\n3\n4\n0\n", b"1\n2\n3\n4\n5\n", b"0\n2\n3\n4\n5\n") == b"0\n2\n3\n4\n0\n"
    assert merge_files(b"1\n", b"2\n", b"3\n") is None
    assert merge_files(b"1\0\n", b"2\0\n", b"3\0\n") is None
    assert not list(tmp_path.glob("threegate-merge-*"))
    (tmp_path / "git").write_text("no program")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert merge_files(b"1\n", b"1\n", b"2\n") == b"2\n", "git is that of the machine, whatever the caller's PATH"
    monkeypatch.setattr(machine_programs, "PROGRAMS", str(tmp_path / "nothing"))
    with pytest.raises(Unavailable, match="apt-get install git"):
        merge_files(b"1", b"2", b"3")
    monkeypatch.setattr(merge, "find_program", lambda name: str(tmp_path / name))
    with pytest.raises(Unavailable, match="could not be run"):
        merge_files(b"1", b"2", b"3")
