"""`threegate agent propose`: what is in a run's kept copy is drafted again, for the project as it is now."""

from __future__ import annotations

import json

import pytest

from tests.plugins.agents.people import Person
from tests.plugins.agents.test_what_comes_out import own_project, ran, sign

LINES = "".join(f"{number}\n" for number in range(20))


@pytest.fixture
def someone(user: Person) -> Person:
    """A person whose project has files of several lines."""
    for name in ("text", "other", "third"):
        (user.project / name).write_text(LINES)
    user.own()
    return user


def again(who: Person, *words: str, expect: int = 0) -> str:
    """What `agent propose` says of the newest run."""
    run = who.events("agent_started")[-1]["run"]
    done = who.threegate("agent", "propose", run, *words)
    assert done.returncode == expect, done
    return done.stdout + done.stderr


def reject(who: Person) -> None:
    """No to every draft that waits."""
    for draft in who.workspace.glob("tool-exec/agents/*/inbox/TR-*.md"):
        done = who.threegate(
            "reject", str(draft), "--reason", "in parts, please", "--as", "operator", "--key", str(who.key)
        )
        assert done.returncode == 0, done
    assert who.threegate("run", "--once").returncode == 0


def test_a_change_is_drafted_again_in_parts(someone: Person) -> None:
    ran(someone, "echo a >>text; echo b >>other; mkdir -p new/deep; echo 1 >new/deep/one; echo 2 >new/two")
    assert "is waiting" in again(someone, expect=2)
    reject(someone)
    said = again(someone, "--only", "new/deep/one", "--only", "./text")
    assert "3 added, 1 changed (new, new/deep, new/deep/one and 1 more)" in said
    sign(someone)
    assert (someone.project / "text").read_text() == LINES + "a\n" and (someone.project / "other").read_text() == LINES
    assert (someone.project / "new" / "deep" / "one").is_file() and not (someone.project / "new" / "two").exists()
    again(someone)
    sign(someone)
    assert (someone.project / "other").read_text() == LINES + "b\n" and (someone.project / "new" / "two").is_file()
    assert "nothing in its copy is left to propose" in again(someone, expect=2)
    assert "--only third: no change there" in again(someone, "--only", "third", expect=2)


@pytest.mark.slow
def test_a_project_that_moved_on_is_merged_and_conflicts_are_left_out_by_name(someone: Person) -> None:
    ran(someone, "sed -i s/^3$/three/ text; chmod +x text; echo mine >>other; rm third; echo new >born")
    reject(someone)
    (someone.project / "text").write_text(LINES.replace("17\n", "seventeen\n"))
    (someone.project / "other").write_text(LINES + "theirs\n")
    (someone.project / "third").write_text("changed\n")
    own_project(someone)
    value = json.loads(again(someone, "--json"))
    assert value["changes"] == {"add": 1, "modify": 1, "delete": 0, "mode": 0, "type": 0}
    reason = "changed in the project too since the run began"
    assert value["left_out"] == [f"left out: other: {reason}", f"left out: third: {reason}"]
    sign(someone)
    assert (someone.project / "text").read_text() == LINES.replace("3\n", "three\n", 1).replace("17\n", "seventeen\n")
    assert (someone.project / "text").stat().st_mode & 0o100 and (someone.project / "born").is_file()
    assert (someone.project / "other").read_text() == LINES + "theirs\n"
    run = someone.events("agent_started")[-1]["run"]
    shown = someone.threegate("agent", "show", run).stdout
    assert f"left out: other: {reason}" in shown


@pytest.mark.slow
def test_a_run_whose_launcher_was_killed_can_still_be_proposed(someone: Person) -> None:
    process = someone.start("sh", "-c", "echo x >>text; : >ready; sleep 60")
    someone.wait_for_file("ready")
    process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()
    assert "1 added, 1 changed (ready, text)" in again(someone)
    sign(someone)
    assert (someone.project / "text").read_text() == LINES + "x\n"
