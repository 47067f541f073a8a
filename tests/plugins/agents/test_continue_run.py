"""`threegate agent continue`: a new run goes on in the kept copy of one that ended, without its permissions."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import soak
from tests.plugins.agents.people import Person
from tests.plugins.agents.test_what_comes_out import own_project, sign
from threegate.core import limits

LINES = "".join(f"{number}\n" for number in range(20))


@pytest.fixture
def someone(somebody: Person) -> Person:
    """Who runs agents; the project has files of several lines."""
    for name in ("text", "other", "third", "fourth"):
        (somebody.project / name).write_text(LINES)
    (somebody.project / "sub").mkdir()
    (somebody.project / "sub" / "b").write_text(LINES)
    somebody.own()
    return somebody


def large(who: Person) -> None:
    """Make the project so large that the copy is an overlay, where there are overlays."""
    (who.project / "many").mkdir()
    for number in range(limits.AGENT_SMALL_ENTRIES):
        (who.project / "many" / str(number)).touch()
    own_project(who)


def newest(who: Person) -> str:
    return str(who.events("agent_started")[-1]["run"])


def first(who: Person, script: str, *options: str) -> str:
    """A run whose changes stay in its copy; its id."""
    done = who.run("sh", "-c", script, options=["--propose", "never", *options])
    assert done.returncode == 0, done
    return newest(who)


def go_on(who: Person, run: str, script: str, *options: str, expect: int = 0) -> Any:
    done = who.threegate("agent", "continue", run, "--propose", "always", *options, "--", "sh", "-c", script)
    assert done.returncode == expect and "internal error" not in done.stderr, done
    return done


def test_a_new_run_goes_on_in_the_copy(someone: Person) -> None:
    run = first(someone, "echo 1 >>text; mkdir new; echo 1 >new/x; rm other; git init -q .; echo home >$HOME/kept")
    done = go_on(someone, run, "cat new/x $HOME/kept; tail -1 text; ls; echo 2 >>text; test -d .git")
    assert done.stdout.startswith("1\nhome\n1\n") and "other" not in done.stdout
    started = someone.events("agent_started")
    assert started[-1]["parent"] == run != started[-1]["run"] and "parent" not in started[0]
    assert started[-1]["account"] == started[0]["account"] and started[-1]["copy"] == started[0]["copy"]
    assert "2 added, 1 changed, 1 deleted" in done.stderr
    told = someone.threegate("agent", "propose", run)
    assert told.returncode == 2 and newest(someone) in told.stderr
    again = someone.threegate("agent", "continue", run, "--", "true")
    assert again.returncode == 2 and newest(someone) in again.stderr
    assert f"parent    {run}" in someone.threegate("agent", "show", newest(someone)).stdout
    assert someone.threegate("agent", "remove", run).returncode == 0
    done = go_on(someone, newest(someone), "tail -2 text; echo 3 >>text")
    assert done.stdout == "1\n2\n"
    assert someone.threegate("audit", "verify").returncode == 0


def test_nothing_that_the_run_before_was_allowed_is_inherited(user: Person) -> None:
    tools = user.root / "tools"
    tools.mkdir()
    (tools / "t").write_text("a tool\n")
    user.own()
    run = first(user, "cat .env; echo stolen >>.env; echo x >>app.py", "--with", ".env", "--read", str(tools))
    done = go_on(user, run, f"cat .env 2>/dev/null; cat {tools}/t 2>/dev/null; ls -A; true")
    assert "TOKEN" not in done.stdout and "a tool" not in done.stdout and ".env" not in done.stdout
    assert ".env: not in this copy any more" in done.stderr
    started = user.events("agent_started")[-1]
    assert not {"shown", "hosts"} & started.keys() and "in its copy: 1 changed (app.py)" in done.stderr
    done = go_on(user, newest(user), "cat .env", "--with", ".env")
    assert done.stdout == "TOKEN=CANARY-ENV\n"
    for options in (("--allow", "example.com"), ()):
        go_on(user, newest(user), "true", *options)
    started, last = user.events("agent_started")[-2:]
    assert started["hosts"] == ["example.com"] and "hosts" not in last and last["parent"] == started["run"]


@pytest.mark.parametrize("kind", ["plain", "overlay"])
@pytest.mark.slow
def test_the_project_is_merged_and_conflicts_are_marked(someone: Person, kind: str) -> None:
    if kind == "overlay":
        large(someone)
    run = first(
        someone, "sed -i s/^3$/three/ text; echo mine >>other; echo 1 >>sub/b; rm third; sed -i s/^9$/nine/ fourth"
    )
    (someone.project / "text").write_text(LINES.replace("17\n", "seventeen\n"))
    (someone.project / "other").write_text(LINES + "theirs\n")
    (someone.project / "third").write_text("changed\n")
    (someone.project / "README").write_text("read this\n")
    (someone.project / "app.py").unlink()
    (someone.project / "born").write_text("since\n")
    own_project(someone)
    script = (
        "cat README; ls; grep -c . text; cat other | grep -v '^[0-9]'; grep -v '^[<=>]' other >o; cat o >other; rm o"
    )
    done = go_on(someone, run, script)
    assert done.stdout.startswith("read this\n") and "app.py" not in done.stdout and "born" not in done.stdout
    assert "<<<<<<< the project\ntheirs\n=======\nmine\n>>>>>>> the copy\n" in done.stdout
    assert "text: changed in the project too; it was merged" in done.stderr
    assert "other: changed in the project too; it has 1 conflicts, marked in the file" in done.stderr
    assert "third: changed in the project too" in done.stderr
    assert "in its copy: 4 changed, 1 deleted" in done.stderr
    assert someone.events("agent_started")[-1]["copy"] == ("plain" if someone.agent else kind)
    if someone.agent:
        return  # nothing of root's is applied
    sign(someone)
    assert (someone.project / "text").read_text() == LINES.replace("3\n", "three\n", 1).replace("17\n", "seventeen\n")
    assert (someone.project / "other").read_text() == LINES + "theirs\nmine\n"
    assert (someone.project / "born").read_text() == "since\n" and not (someone.project / "third").exists()


@pytest.mark.parametrize("kind", ["plain", "overlay"])
@pytest.mark.slow
def test_traps_in_the_copy_lead_nowhere(someone: Person, kind: str) -> None:
    """The launcher writes into the copy where both sides changed a file: through no link, and out of no folder."""
    if kind == "overlay":
        large(someone)
    outside = someone.home / "outside"
    outside.mkdir()
    (outside / "b").write_text("untouched\n")
    diary = someone.home / "diary.txt"
    someone.own()
    run = first(
        someone,
        f"rm text; ln -s {diary} text; rm -r sub; ln -s {outside} sub; rm other; mkfifo other; rm third; mkdir third; "
        f"ln -s {diary} third/x; chmod 000 fourth; chmod 000 third .",
    )
    for name in ("text", "sub/b", "other", "third", "fourth"):
        (someone.project / name).write_text("changed\n")
    (someone.project / "app.py").unlink()
    own_project(someone)
    before = someone.outside()
    done = go_on(someone, run, "ls -A; echo x >>README")
    assert someone.outside() == before and (outside / "b").read_text() == "untouched\n"
    assert diary.read_text() == "CANARY-DIARY\n" and "README" in done.stdout


@pytest.mark.slow
def test_budgets_count_on(user: Person) -> None:
    user.settings('[agents.generic]\nrequests = 20\ndisk_mb = 16\nurl = "http://127.0.0.1:9"\nmodels = ["m"]\n')
    run = first(user, "head -c 9000000 /dev/urandom >big")
    facts = user.workspace / "tool-exec" / "agents" / run / "run.json"
    value = json.loads(facts.read_text())
    assert (value["used_requests"], value["used_bytes"], value["used_tokens"]) == (0, 0, 0)
    facts.write_text(json.dumps({**value, "used_requests": 20}))
    told = user.threegate("agent", "continue", run, "--", "true")
    assert told.returncode == 2 and "agents.generic.requests: used up by the run" in told.stderr
    facts.write_text(json.dumps({**value, "used_requests": -1}))
    told = user.threegate("agent", "continue", run, "--", "true")
    assert told.returncode == 2 and f"threegate agent propose {run}" in told.stderr
    facts.write_text(json.dumps({**value, "used_requests": 7}))
    done = user.threegate(
        "agent", "continue", run, "--propose", "never", "--", "sh", "-c", "head -c 9000000 /dev/urandom >more; sleep 9"
    )
    assert user.events("agent_ended")[-1]["reason"] == "disk_bytes", done
    newer = user.workspace / "tool-exec" / "agents" / newest(user) / "run.json"
    assert json.loads(newer.read_text())["used_requests"] == 7


KILLING = """
import os
rename, left = os.rename, [int(os.environ["RENAMES"])]
def dying(old, new, **more):
    moved = os.path.basename(old) in ("tree", "upper", "git", "state")
    if moved and not left[0]:
        os.kill(os.getpid(), 9)
    left[0] -= moved
    return rename(old, new, **more)
os.rename = dying
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "renames"), [soak("plain", 0), ("plain", 1), soak("plain", 2), ("overlay", 2)])
def test_a_launcher_that_is_killed_while_it_takes_the_copy_gives_it_back(user: Person, kind: str, renames: int) -> None:
    """Whoever looks next returns it: the work is where it was, and can be proposed and continued."""
    if kind == "overlay":
        large(user)
    subprocess.run(["git", "init", "-q", str(user.project)], check=True)
    user.own()
    run = first(user, "echo mine >>app.py")
    folder = user.root / "killing"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(KILLING)
    killing = replace(
        user, environment={"PYTHONPATH": f"{folder}:{user.environ()['PYTHONPATH']}", "RENAMES": str(renames)}
    )
    done = killing.threegate("agent", "continue", run, "--", "true", restore_signals=True)
    assert done.returncode == -9, done
    if renames == 2:
        go_on(user, run, "cat app.py")
        return
    assert "1 changed (app.py)" in user.threegate("agent", "propose", run).stdout
    listed = user.threegate("agent", "list").stdout
    assert listed.count("never started") == 1 and f"{run}  ended with exit code 0" in listed
    assert user.threegate("audit", "verify").returncode == 0


@pytest.mark.slow
def test_a_run_that_does_not_start_gives_the_copy_back(user: Person) -> None:
    run = first(user, "echo mine >>app.py")
    refused = user.threegate("agent", "continue", run, "--with", "/elsewhere/x", "--", "true")
    assert refused.returncode == 2
    told = user.threegate("agent", "continue", run, "--read", str(user.root / "none"), "--", "true")
    assert told.returncode == 2 and "no such folder" in told.stderr
    assert os.listdir(user.workspace / "tool-exec" / "agents") == [run]
    process = user.start("true")
    process.communicate(timeout=60)
    alive = user.start("sh", "-c", ": >ready; sleep 60")
    try:
        user.wait_for_file("ready")
        told = user.threegate("agent", "continue", newest(user), "--", "true")
        assert told.returncode == 2 and "is running; stop it first" in told.stderr
    finally:
        alive.terminate()
        alive.communicate(timeout=30)
    assert "1 changed (app.py)" in user.threegate("agent", "propose", run).stdout
    assert Path(user.workspace / "tool-exec" / "agents" / run / "work").is_dir()


@pytest.mark.slow
def test_the_next_run_takes_over_the_names_of_an_earlier_one(someone: Person) -> None:
    """Which is still drafted and continued; the next run sees the project as it is now."""
    large(someone)
    run = first(someone, "echo 1 >>text; rm other")
    if someone.facts()["copy"] != "overlay":
        pytest.skip("no overlay here")
    (someone.project / "third").write_text("TOKEN\n")
    os.rename(someone.project / "third", someone.project / ".env")
    own_project(someone)
    done = someone.run("sh", "-c", "ls -a; tail -1 text", options=["--propose", "never"])
    assert ".env" not in done.stdout.split() and "third" not in done.stdout and "other" in done.stdout
    runs = someone.workspace / "tool-exec" / "agents"
    assert not (runs / run / "work/names").exists() and (runs / newest(someone) / "work/names").is_dir()
    done = go_on(someone, run, "tail -1 text; ls -a; echo 2 >>text")
    assert done.stdout.startswith("1\n") and not {".env", "third", "other"} & set(done.stdout.split())
    [draft] = (runs / newest(someone) / "inbox").glob("TR-*.md")
    assert "text" in draft.read_text() and "other" in draft.read_text()
