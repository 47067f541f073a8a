"""`threegate agent run` from start to end: what the trail says, what it leaves, and one clear line for everything
that is wrong.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import few
from tests.plugins.agents.people import ACCOUNT, Person, as_account
from tests.support import cgroups, processes, wait_until
from threegate.core import limits
from threegate.runners.jail.jail_cgroup import JailCgroup
from threegate.runners.jail.jail_trial import WALLS


def one_line(done: subprocess.CompletedProcess[str], *words: str, code: int = 2) -> None:
    """It was refused (2) or could not be done (3), and says so in one line."""
    assert (done.returncode, done.stdout) == (code, ""), done
    [line] = done.stderr.splitlines()
    assert line.startswith("threegate: ") and all(word in line for word in words), line


def no_run_is_left(who: Person) -> None:
    assert list(who.workspace.glob("tool-exec/agents/*")) == []
    assert who.events("agent_started") == []


def processes_of(who: Person) -> list[str]:
    """Command lines of processes that have to do with their workspace or project."""
    lines = [line.replace(b"\0", b" ").decode(errors="replace") for _, line in processes()]
    return [line for line in lines if str(who.root) in line]


def wait_until_nothing_lives(who: Person, seconds: float = 10) -> None:
    wait_until(lambda: not processes_of(who), lambda: processes_of(who), seconds)


# ---- a whole run


def test_a_run_leaves_the_project_alone_and_is_recorded(somebody: Person) -> None:
    before = somebody.outside()
    done = somebody.run(
        "/bin/sh", "-c", "cat; echo new >new.txt; rm README; echo err >&2; cat .env 2>/dev/null; exit 7", stdin=b"typed\n"  # noqa: E501
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (7, "typed\n"), done
    assert "err\n" in done.stderr and "hidden from the agent: .env" in done.stderr
    assert somebody.outside() == before
    [started], [ended] = somebody.events("agent_started"), somebody.events("agent_ended")
    assert started["profile"] == "generic" and started["root"] == str(somebody.project)
    assert started["walls"][: len(WALLS)] == list(WALLS) and len(started["program_sha256"]) == 64
    assert started["copy"] == "plain"  # a small project is copied whole
    assert (ended["run"], ended["exit"], ended["changed"]) == (started["run"], 7, 2)
    assert somebody.threegate("audit", "verify").returncode == 0
    wait_until_nothing_lives(somebody)
    shown = somebody.threegate("agent", "show", started["run"])
    assert "add new.txt" in shown.stdout and "delete README" in shown.stdout
    listed = somebody.threegate("agent", "list")
    assert started["run"] in listed.stdout and "ended with exit code 7" in listed.stdout
    assert {path.stat().st_mode & 0o777 for path in (somebody.workspace / "tool-exec" / "agents").iterdir()} == {0o700}


@pytest.mark.slow
def test_the_account_outside_is_the_agents(somebody: Person) -> None:
    """As root a user namespace alone would leave the agent host root."""
    process = somebody.start("/bin/sh", "-c", ": >ready; sleep 60")
    try:
        somebody.wait_for_file("ready")
        facts = somebody.facts()
        [inner] = Path(f"/proc/{facts['jail']}/task/{facts['jail']}/children").read_text().split()
        uids = Path(f"/proc/{inner}/status").read_text().split("Uid:")[1].split("\n")[0].split()
        assert set(uids) == {str(facts["uid"])} and facts["uid"] != 0
    finally:
        process.terminate()
        process.wait(20)
    wait_until_nothing_lives(somebody)


@pytest.mark.slow
def test_processes_and_memory_are_limited_or_that_is_said(somebody: Person) -> None:
    """Processes for everybody; memory as root by a cgroup that is gone afterwards, and an ordinary account reads that
    it has no such limit.
    """
    somebody.settings("[agents.generic]\nprocesses = 40\nmemory_mb = 200\n")
    bomb = "for i in $(seq 80); do sleep 20 >/dev/null 2>&1 & done 2>&1 | head -1; echo after"
    done = somebody.run("/bin/bash", "-c", bomb)
    [started] = somebody.events("agent_started")
    absent = ["memory"]
    if somebody.agent:
        trial = JailCgroup.make(f"trial-{os.getpid()}", memory_mb=64)
        trial.close()
        absent = list(trial.missing)
    assert started["missing"] == absent
    assert ("memory limit" in started["walls"]) == (absent == []) and "processes limit" in started["walls"]
    assert (f"not limited here: {', '.join(absent)}" in done.stderr) == bool(absent)
    assert "Resource temporarily unavailable" in done.stdout
    eater = somebody.run("/usr/bin/python3", "-c", "x = b'x' * (600 << 20); print('ate it')")
    assert ("ate it" in eater.stdout) == (eater.returncode == 0) == ("memory" in absent)
    assert not cgroups(f"threegate-{started['run']}")


@pytest.mark.slow
def test_the_relay_to_the_model_has_the_limits_of_its_run(somebody: Person) -> None:
    """Of the run's cgroup where root has one, and for every account a limit of its own."""
    somebody.settings('[agents.generic]\nprocesses = 60\nmemory_mb = 600\nurl = "http://127.0.0.1:1"\nmodels = ["m"]\n')
    process = somebody.start("/bin/sh", "-c", ": >ready; sleep 60")
    try:
        somebody.wait_for_file("ready")
        launcher = somebody.facts()["launcher"]
        children = Path(f"/proc/{launcher}/task").glob("*/children")
        places = [Path("/proc", child) for line in children for child in line.read_text().split()]
        [place] = [
            place for place in places if b"threegate.plugins.agents.model_relay" in (place / "cmdline").read_bytes()
        ]
        wait_until(lambda: f"{limits.AGENT_MODEL_MEMORY_MB << 20}" in (place / "limits").read_text())
        started = somebody.events("agent_started")[-1]
        held = "memory limit" in started["walls"]
        assert ((place / "cgroup").read_text().count(f"threegate-{started['run']}") > 0) == held
    finally:
        process.terminate()
        process.wait(20)
    wait_until_nothing_lives(somebody)


@pytest.mark.slow
def test_a_home_is_kept_for_the_same_project(somebody: Person) -> None:
    somebody.run("/bin/sh", "-c", "echo remember >$HOME/memory")
    again = somebody.run("/bin/sh", "-c", "cat $HOME/memory")
    assert again.stdout == "remember\n" and "continues with the home" in again.stderr
    fresh = somebody.run("/bin/sh", "-c", "ls $HOME", options=["--fresh"])
    assert fresh.stdout == ""


@pytest.mark.slow
def test_what_is_protected_is_shown_only_when_asked(user: Person) -> None:
    assert user.run("/bin/cat", ".env").returncode != 0
    assert user.run("/bin/cat", ".env", options=["--with", ".env"]).stdout == "TOKEN=CANARY-ENV\n"
    assert [event.get("shown") for event in user.events("agent_started")] == [None, [".env"]]


@pytest.mark.slow
def test_another_folder_can_be_read_and_not_written(somebody: Person) -> None:
    tools = somebody.root / "tools"
    tools.mkdir(mode=0o755)
    (tools / "tool").write_text("a tool\n")
    somebody.own()
    done = somebody.run("/bin/sh", "-c", f"cat {tools}/tool; echo x >{tools}/tool", options=["--read", str(tools)])
    assert done.stdout == "a tool\n" and done.returncode != 0 and (tools / "tool").read_text() == "a tool\n"


@pytest.mark.slow
def test_links_in_the_home_lead_nowhere(somebody: Person) -> None:
    """The configuration is written into what an earlier run left, and that may be links to files of the person."""
    somebody.settings('[agents.mine]\nprofile = "codex"\nprogram = "/bin/sh"\nurl = "http://127.0.0.1:9"\n')
    target = somebody.home / "diary.txt"
    for trap in (
        f"ln -s {target} .codex/config.toml",
        f"rm -r .codex; ln -s {target.parent} .codex",
        "mkfifo .codex",
    ):
        script = f"cd $HOME && rm -rf .codex && mkdir .codex && {trap.replace('mkfifo', 'rm -r .codex; mkfifo')}"
        assert somebody.run("-c", script, profile="mine").returncode == 0
        done = somebody.run("-c", "head -1 $HOME/.codex/config.toml; test ! -L $HOME/.codex", profile="mine")
        assert done.stdout.startswith("model = ") and done.returncode == 0, done
        assert target.read_text() == "CANARY-DIARY\n"


# ---- what is wrong, in one line


@pytest.mark.slow
def test_a_project_that_is_not_there(user: Person) -> None:
    one_line(
        user.threegate("agent", "run", "generic", "--project", str(user.home / "nothing"), "--", "sh"),
        "no such folder",
    )
    no_run_is_left(user)


@pytest.mark.parametrize("place", few(["home", "root", "workspace", "workspace/inbox", "home/.ssh", "state"], 2))
def test_a_project_that_holds_more_than_itself(user: Person, place: str) -> None:
    folder = user.root / place if place != "root" else user.root
    one_line(user.threegate("agent", "run", "generic", "--project", str(folder), "--", "sh"), "is ")
    no_run_is_left(user)


def test_a_project_that_is_a_file_or_the_system(user: Person) -> None:
    for place in (user.project / "README", Path("/"), Path("/usr")):
        one_line(user.threegate("agent", "run", "generic", "--project", str(place), "--", "sh"), "folder")


def test_an_agent_that_is_not_there_names_what_installs_it(user: Person) -> None:
    """On a PATH without it, whatever this machine has."""
    programs = user.home / "programs"
    programs.mkdir()
    for name in ("bwrap", "socat"):
        (programs / name).symlink_to(shutil.which(name))
    user.own()
    user.environment["PATH"] = str(programs)
    one_line(user.run(profile="codex"), "npm install -g @openai/codex", code=3)
    one_line(user.run("no-such-program"), "no-such-program", code=3)
    one_line(user.run(), "threegate agent run generic -- sh")
    one_line(user.run(profile="nobody-knows"), "no such profile", "codex")
    no_run_is_left(user)


def test_without_a_key_the_setting_is_named(user: Person) -> None:
    user.settings('[agents.mine]\nprofile = "codex"\nprogram = "/bin/sh"\n')
    one_line(user.run(profile="mine"), "agents.mine.key", "agents.mine.login")


@pytest.mark.root
def test_root_runs_no_agent() -> None:
    from tests.plugins.agents.people import person

    with person("root") as who:
        who.agent = ""
        one_line(who.run("sh"), "--as USER")
        who.agent = "root"
        one_line(who.run("sh"), "root")
        who.agent = "no-such-account"
        one_line(who.run("sh"), "adduser")
        no_run_is_left(who)


def test_only_root_names_an_account(user: Person) -> None:
    one_line(user.run("sh", options=["--as", ACCOUNT]), "--as works only for root")


@pytest.mark.parametrize("name", ["bwrap", "socat"])
@pytest.mark.root
def test_a_program_that_is_missing_names_the_package(user: Person, name: str, tmp_path: Path) -> None:
    """In a mount namespace where the program is an empty file."""
    empty = user.home / "empty"
    empty.write_text("")
    user.own()
    script = f'mount --bind {empty} /usr/bin/{name} && exec setpriv --reuid "$0" --clear-groups -- "$@"'
    uid = str((user.home).stat().st_uid)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, uid, *user.command(*user.words("sh"))],
        env=user.environ(), cwd=user.home, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    one_line(done, "apt-get install", {"bwrap": "bubblewrap"}.get(name, name), code=3)
    no_run_is_left(user)


@pytest.mark.slow
def test_without_user_namespaces_there_is_no_agent(user: Person) -> None:
    """In a user namespace that may have one more below it, which the launcher itself lives in."""
    again = 'echo 1 >/proc/sys/user/max_user_namespaces; exec unshare --user --map-user=1000 --map-group=1000 -- "$@"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", again, "sh", *user.command(*user.words("sh"))],
        env=user.environ(), cwd=user.home, capture_output=True, text=True, timeout=60, **as_account(user.account),
    )  # fmt: skip
    one_line(done, "user namespaces are forbidden", code=3)
    no_run_is_left(user)


@pytest.mark.root
@pytest.mark.slow
def test_a_disk_that_is_full(user: Person) -> None:
    (user.project / "big").write_bytes(os.urandom(3 << 20))
    user.own()
    agents = user.workspace / "tool-exec" / "agents"
    agents.mkdir(mode=0o700)
    uid = user.home.stat().st_uid
    script = f'mount -t tmpfs -o size=64k,nr_inodes=12,mode=0700,uid={uid} none {agents} && exec setpriv --reuid {uid} --clear-groups -- "$@"'  # noqa: E501
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *user.command(*user.words("sh"))],
        env=user.environ(), cwd=user.home, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 3 and done.stderr.count("\n") == 1 and "space" in done.stderr, done.stderr


# ---- ends that nobody planned


@pytest.mark.slow
def test_ctrl_c_ends_the_agent_and_records_it(somebody: Person) -> None:
    process = somebody.start("/bin/sh", "-c", "trap '' INT TERM HUP; : >ready; while :; do sleep 1; done")
    somebody.wait_for_file("ready")
    process.send_signal(signal.SIGINT)
    process.wait(20)
    wait_until_nothing_lives(somebody)
    [ended] = somebody.events("agent_ended")
    assert ended["reason"] == "stopped" and ended["changed"] == 1


@pytest.mark.slow
def test_ctrl_c_at_every_moment_of_the_start(user: Person) -> None:
    """Whenever it comes: no process, no run that is neither ended nor gone, no traceback."""
    for number in range(8):
        process = user.start("/bin/sleep", "30")
        ours = Path(f"/proc/{process.pid}/maps")
        wait_until(lambda: "_re2" in ours.read_text(), "the end of Python's own start")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(number * 0.12)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert b"Traceback" not in said, said.decode()
        wait_until_nothing_lives(user)
    assert len(user.events("agent_started")) == len(user.events("agent_ended"))
    left = list((user.workspace / "tool-exec" / "agents").glob("*"))
    assert len(left) == len(user.events("agent_started"))


@pytest.mark.slow
def test_stop_ends_a_run(somebody: Person) -> None:
    process = somebody.start("/bin/sh", "-c", ": >ready; sleep 60")
    somebody.wait_for_file("ready")
    run = somebody.facts()["run"]
    assert "runs" in somebody.threegate("agent", "list").stdout
    stopped = somebody.threegate("agent", "stop", run)
    assert stopped.stdout == f"stopped {run}\n", stopped
    process.wait(10)
    assert [event["reason"] for event in somebody.events("agent_ended")] == ["stopped"]
    assert "had already ended" in somebody.threegate("agent", "stop", run).stdout


@pytest.mark.parametrize("victim", few(["launcher", "bubblewrap", "first process of the jail"], 1))
def test_a_kill_leaves_nothing(somebody: Person, victim: str) -> None:
    before = somebody.outside()
    process = somebody.start("/bin/sh", "-c", "setsid sleep 300 & (sleep 301 &) ; : >ready; sleep 302")
    somebody.wait_for_file("ready")
    facts = somebody.facts()
    [inner] = Path(f"/proc/{facts['jail']}/task/{facts['jail']}/children").read_text().split()
    victims = {"launcher": process.pid, "bubblewrap": facts["jail"], "first process of the jail": int(inner)}
    os.kill(victims[victim], signal.SIGKILL)
    process.wait(20)
    wait_until_nothing_lives(somebody)
    if victim == "launcher":
        assert somebody.events("agent_ended") == []
        assert "ended" in somebody.threegate("agent", "list").stdout
    [ended] = somebody.events("agent_ended")
    assert ended.get("reason") == ("killed" if victim == "launcher" else None)
    assert somebody.outside() == before
    assert not cgroups(f"threegate-{facts['run']}")
    assert "add ready" in somebody.threegate("agent", "show", facts["run"]).stdout, "its work is still there"
    assert somebody.run("/bin/true").returncode == 0


@pytest.mark.slow
def test_two_agents_on_one_project(somebody: Person) -> None:
    one = somebody.start("/bin/sh", "-c", ": >ready; read line; ls", stdin=subprocess.PIPE)
    somebody.wait_for_file("ready")
    other = somebody.run("/bin/sh", "-c", "echo other >other.txt; ls")
    assert other.returncode == 0 and "ready" not in other.stdout
    out, _ = one.communicate(b"go\n", timeout=30)
    assert b"ready" in out and b"other.txt" not in out


@pytest.mark.slow
def test_the_work_copy_stands_still_while_it_is_read(somebody: Person) -> None:
    writer = "n=0; : >ready; while :; do n=$((n+1)); echo $n >a.tmp; mv a.tmp a; echo $n >b.tmp; mv b.tmp b; done"
    process = somebody.start("/bin/sh", "-c", writer)
    try:
        somebody.wait_for_file("ready")
        for _ in range(3):
            shown = somebody.threegate("agent", "show", somebody.facts()["run"])
            assert "changes_problem" not in shown.stdout and "add ready" in shown.stdout, shown
        assert process.poll() is None
    finally:
        process.terminate()
        process.communicate(timeout=30)
