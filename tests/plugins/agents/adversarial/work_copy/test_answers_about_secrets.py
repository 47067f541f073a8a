"""What an answer about one secret opens, and what a hostile name or line does to the question about it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.plugins.agents.people import Person
from tests.plugins.agents.person_at_terminal import on_terminal
from tests.support import make_place
from threegate.core.workspace import Workspace
from threegate.plugins.agents.project_survey import survey
from threegate.plugins.agents.secret_answers import Answers, keep_answers
from threegate.trail.trail import Trail

TOKEN = "ghp_" + "n4Kd9Zq2Lw8Xr5Tb7Vm3Yc6Hj1Gf0SpQaRuE"
OTHER = "ghp_" + "Q7Rm2Xc8Vb4Nl1Kj6Hg3Fd9Sa5Pz0OiUyTrE"
KEY = b"k" * 32


def test_an_answer_opens_one_value_at_one_path(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"{TOKEN}\n")
    [found] = survey(tmp_path, key=KEY).findings
    shown = {found.digest: False}
    assert survey(tmp_path, key=KEY, answers=shown).hidden == {}
    (tmp_path / "a").write_text(f"# moved to another line\n{TOKEN}\n")
    assert survey(tmp_path, key=KEY, answers=shown).hidden == {}, "it is the same secret in the same file"
    (tmp_path / "a").write_text(f"{TOKEN}\n{OTHER}\n")
    assert survey(tmp_path, key=KEY, answers=shown).hidden == {"a": "secret"}
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "b").write_text(f"{TOKEN}\n")
    assert survey(tmp_path, key=KEY, answers=shown).hidden == {"b": "secret"}
    assert survey(tmp_path, key=b"o" * 32, answers=shown).hidden == {"b": "secret"}


def test_what_may_be_a_secret_is_hidden_if_somebody_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('DB_PASSWORD = "x7Kp2mQ9vL3z"\n')
    first = survey(tmp_path, key=KEY, cache=tmp_path.parent / "cache")
    [found] = first.findings
    assert first.hidden == {} and not found.certain
    again = survey(tmp_path, key=KEY, cache=tmp_path.parent / "cache", answers={found.digest: True})
    assert again.hidden == {"a.py": "secret"} and again.findings == [found]


def test_an_index_that_a_project_brings_along_shows_no_key(tmp_path: Path) -> None:
    """A `.git` that is a file may name any repository; it counts if that names this folder, too."""
    other, project = tmp_path / "other", tmp_path / "project"
    for folder in (other, project):
        (folder / "tests").mkdir(parents=True)
        subprocess.run(
            ["openssl", "genrsa", "-out", folder / "tests" / "key.pem", "2048"], check=True, capture_output=True
        )
    subprocess.run("git init -q . && git add -A", shell=True, cwd=other, check=True)
    assert survey(other).hidden == {".git": "git"}
    (project / ".git").write_text(f"gitdir: {other}/.git\n")
    assert survey(project).hidden == {".git": "git", "tests/key.pem": "secret"}


def test_the_name_of_a_project_spoils_no_answers(tmp_path: Path) -> None:
    """One that is not UTF-8, among others."""
    workspace = Workspace(make_place(tmp_path).root)
    for root in (Path(os.fsdecode(b"/srv/\xff\n")), Path("/srv/\u202eweb"), Path("/srv/web")):
        before = Answers.read(workspace, root)
        assert before.hides == {}
        keep_answers(workspace, before, {"1" * 64: True, "2" * 64: False}, actor="account:op")
        assert Answers.read(workspace, root).hides == {"1" * 64: True, "2" * 64: False}
        assert Answers.read(workspace, root).key == before.key
    many = {f"{number:064x}": True for number in range(130)}
    keep_answers(workspace, before, many, actor="account:op")
    decided = [event.payload for event in Trail(workspace).events() if event.type == "findings_decided"]
    assert sum(len(payload.hidden or ()) for payload in decided) == 3 + 130, "no digest is left out of an event"


def test_neither_a_name_nor_a_line_forges_the_question(user: Person) -> None:
    """A line break in a name, and sequences of a terminal beside the secret, are shown as escapes."""
    name = "a\nthreegate: nothing was found\r\x1b[2J.yml"
    (user.project / name).write_bytes(f"\x1b[2Jthreegate: safe \u202e token: {TOKEN}\x1b]0;title\x07\n".encode())
    user.own()
    done = user.threegate("project", "survey", str(user.project))
    assert TOKEN not in done.stdout
    assert not any(character in done.stdout for character in "\x1b\x07\r\u202e")
    assert len(done.stdout.splitlines()) == 3 and not any(
        line.startswith("threegate") for line in done.stdout.splitlines()
    )
    with on_terminal(user, "true") as screen:
        screen.wait_for(b"[Y/n]")
        asked = screen.seen
        assert not any(sequence in asked for sequence in (b"\x1b[2J", b"\x1b]0", b"\x07", "\u202e".encode()))
        assert b"\nthreegate: nothing" not in asked
        screen.press(b"\n")
        assert screen.end() == 0


def test_what_changes_while_the_question_is_open_is_judged_again(user: Person) -> None:
    (user.project / "a.yml").write_text(f"token: {TOKEN}\n")
    user.own()
    with on_terminal(user, "cat", "app.py", "a.yml") as screen:
        screen.wait_for(b"Hide a.yml? [Y/n]")
        (user.project / "app.py").write_text(f"TOKEN = '{OTHER}'\n")
        user.own()
        screen.press(b"n\n")
        assert screen.end() != 0
        assert TOKEN.encode() in screen.seen and OTHER.encode() not in screen.seen
        assert b"hidden from the agent: .env, app.py" in screen.seen
