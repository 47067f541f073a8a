"""What may die, fill up or go away while an agent works: one clear line, its end in the trail, and nothing left or
half done.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import missing, slow
from tests.plugins.agents.people import Person, as_account, python
from tests.plugins.agents.test_agent_run_command import wait_until_nothing_lives
from tests.plugins.agents.test_frozen_jail import door_of
from tests.support import wait_until
from threegate.plugins.agents.runs import jail_processes

CONNECTS = """
import socket
print("ready", flush=True)
input()
for place in ("/run/door.sock", ("127.0.0.1", 8300), ("127.0.0.1", 8301)):
    client = socket.socket(socket.AF_UNIX if isinstance(place, str) else socket.AF_INET)
    client.settimeout(20)
    try:
        client.connect(place)
        print(client.recv(1))
    except OSError as error:
        print(error.strerror)
raise SystemExit(5)
"""


def kill(pid: int) -> None:
    """`kill -9`, and wait until nothing of the process is there but its exit code."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: ") Z " in Path(f"/proc/{pid}/stat").read_text(), "the end of a killed process", 20)


def command_line(pid: int) -> bytes:
    """What a process was started with; empty for one that has ended since it was listed."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def said_by(process: subprocess.Popen[bytes], typed: bytes = b"") -> tuple[str, list[str]]:
    """The output of a launcher, and its own lines; no traceback."""
    out, said = process.communicate(typed, timeout=60)
    assert b"Traceback" not in said, said.decode()
    return out.decode(), [line for line in said.decode().splitlines() if line.startswith("threegate: ")]


@pytest.mark.slow
def test_whatever_works_beside_an_agent_may_be_killed(user: Person) -> None:
    """Door, relay and proxy: nobody answers in their place, and the person reads which of them it was."""
    user.settings('[agents.mine]\nprofile = "generic"\nurl = "http://127.0.0.1:9"\n')
    options = ["--allow", "example.com", "--key", str(user.key), "--operator", "operator"]
    before = user.outside()
    words = user.words("/usr/bin/python3", "-c", CONNECTS, profile="mine", options=options)
    process = subprocess.Popen(
        user.command(*words), env=user.environ(), cwd=user.home,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **as_account(user.account),
    )  # fmt: skip
    assert process.stdout and process.stdout.readline() == b"ready\n"
    for name in ("serve mcp --run", "agents.model_relay", "jail.host_proxy"):
        kill(door_of(process, name))
    out, lines = said_by(process, b"go\n")
    assert (process.returncode, out) == (5, "Connection refused\nb''\nb''\n"), (out, lines)
    for name in ("door", "model relay", "host proxy"):
        line = f"threegate: the {name} exited before the agent (signal 9) and answered nothing after that"
        assert lines.count(line) == 1, lines
    assert user.outside() == before
    wait_until_nothing_lives(user)
    assert [event["exit"] for event in user.events("agent_ended")] == [5]
    assert not list(user.workspace.glob("tool-exec/agents/*/*.sock"))


@pytest.mark.slow
def test_an_agent_that_is_killed(user: Person) -> None:
    process = user.start("/bin/sh", "-c", "echo new >new.txt; : >ready; exec sleep 300")
    user.wait_for_file("ready")
    jail, found = user.facts()["jail"], list[int]()

    def sleeps() -> bool:
        """The shell writes `ready` before it becomes `sleep`."""
        found[:] = [pid for pid in jail_processes(jail) if command_line(pid) == b"sleep\x00300\x00"]
        return bool(found)

    wait_until(sleeps, "the agent", 20)
    [agent] = found
    os.kill(agent, signal.SIGKILL)
    _, lines = said_by(process)
    assert process.returncode == 137 and any("drafted TR-" in line for line in lines), lines
    assert [(event["exit"], event["changed"]) for event in user.events("agent_ended")] == [(137, 2)]
    wait_until_nothing_lives(user)


@pytest.mark.parametrize("pause", [0.0, slow(0.2)])
@pytest.mark.slow
def test_ctrl_c_again_and_again(user: Person, pause: float) -> None:
    """While the agent lives, while its changes are read, while its end is recorded."""
    script = "trap '' INT TERM; for i in $(seq 1500); do echo $i >n$i; done; : >ready; sleep 300"
    process = user.start("/bin/sh", "-c", script, options=["--propose", "always"])
    user.wait_for_file("ready")
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(pause)
    said_by(process)
    wait_until_nothing_lives(user)
    recorded = user.events("agent_ended")
    assert user.threegate("agent", "list").returncode == 0
    # The last interrupt may have come before the launcher recorded the end: then whoever looks next does.
    [ended] = user.events("agent_ended")
    assert ended["reason"] == ("stopped" if recorded else "killed")
    assert user.threegate("audit", "verify").returncode == 0


def in_mounts(user: Person, mounts: str, *commands: str) -> subprocess.CompletedProcess[str]:
    """Run command lines by the account in a mount namespace with these mounts; skips where they cannot be made."""
    if os.geteuid() != 0:
        missing("root")
    facts = user.home.stat()
    uid, gid = facts.st_uid, facts.st_gid
    lines = "; ".join(commands)
    script = (
        f"set -e; {mounts.replace('UID', str(uid))}; exec setpriv --reuid {uid} --regid {gid} --clear-groups "
        f"-- sh -c {shlex.quote(lines)}"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], env=user.environ(), cwd=user.home,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done


def line_of(user: Person, *words: str) -> str:
    """A command of the person as a shell takes it."""
    return shlex.join(user.command(*words))


@pytest.mark.slow
def test_a_disk_that_fills_up_while_an_agent_works(user: Person) -> None:
    """It is ended; that is recorded all the same, once, and what cannot be kept is said."""
    agents = user.workspace / "tool-exec" / "agents"
    agents.mkdir(mode=0o700)
    user.own()
    fill = "while :; do cat /dev/zero >>big; for i in $(seq 300); do echo $i >n$i; done; done 2>/dev/null"
    done = in_mounts(
        user, f"mount -t tmpfs -o size=2m,mode=0700,uid=UID none {agents}",
        line_of(user, *user.words("/bin/sh", "-c", fill, options=["--propose", "always"])), "echo exit $?",
        line_of(user, "agent", "list"),
    )  # fmt: skip
    assert "exit 137" in done.stdout, done
    assert any("too little space is left on this disk" in line for line in done.stderr.splitlines()), done.stderr
    assert [(event["exit"], event["reason"]) for event in user.events("agent_ended")] == [(137, "disk_reserve")]
    wait_until_nothing_lives(user)


@pytest.mark.slow
def test_a_project_on_another_file_system(user: Person) -> None:
    """Work copy, change set and apply: each stays on the file system where it has to be."""
    approve = (
        f"{line_of(user, 'approve')} $(ls {user.workspace}/tool-exec/agents/*/inbox/TR-*.md) --as operator --key "
        f"{user.key} --yes"
    )
    done = in_mounts(
        user,
        f"mount -t tmpfs -o size=20m,uid=UID none {user.project}",
        f"echo old >{user.project}/README",
        line_of(user, *user.words("/bin/sh", "-c", "echo new >README; echo x >x", options=["--propose", "always"])),
        line_of(user, "run", "--once"), approve, line_of(user, "run", "--once"),
        f"cat {user.project}/README {user.project}/x; ls -A {user.project}",
    )  # fmt: skip
    assert done.stdout.endswith("new\nx\nREADME\nx\n"), done
    assert [event["status"] for event in user.events("finished")] == ["succeeded"]


@pytest.mark.slow
def test_a_project_that_goes_away_meanwhile(user: Person) -> None:
    process = user.start("/bin/sh", "-c", ": >ready; read line; echo x >x", stdin=subprocess.PIPE)
    user.wait_for_file("ready")
    user.project.rename(user.home / "elsewhere")
    _, lines = said_by(process, b"go\n")
    assert process.returncode == 0 and any("cannot be read (No such file" in line for line in lines), lines
    assert [event["exit"] for event in user.events("agent_ended")] == [0]
    assert sorted(path.name for path in (user.home / "elsewhere").iterdir()) == [".env", "README", "app.py"]
    wait_until_nothing_lives(user)


@pytest.mark.slow
def test_a_project_that_may_not_be_written_waits(user: Person) -> None:
    """A signed change stays where it is until the project can be written; then it is applied, once."""
    done = user.run("/bin/sh", "-c", "echo new >README", options=["--propose", "always"])
    assert "drafted TR-" in done.stderr, done
    assert user.threegate("run", "--once").returncode == 0
    [draft] = list(user.workspace.glob("tool-exec/agents/*/inbox/TR-*.md"))
    assert user.threegate("approve", str(draft), "--as", "operator", "--key", str(user.key), "--yes").returncode == 0
    user.project.chmod(0o555)
    assert user.threegate("run", "--once").returncode == 0
    assert (user.project / "README").read_text() == "read me\n" and user.events("finished") == []
    assert "project_not_writable" in user.threegate("status", "--json").stdout
    user.project.chmod(0o755)
    assert user.threegate("run", "--once").returncode == 0
    assert (user.project / "README").read_text() == "new\n"
    assert [event["status"] for event in user.events("finished")] == ["succeeded"]


@pytest.mark.slow
def test_a_change_of_a_gigabyte(user: Person) -> None:
    """It is named in one line, and by its size alone: it is not read. The rest is drafted."""
    done = user.run("/bin/sh", "-c", "truncate -s 1G big.bin; echo x >x", options=["--propose", "always"])
    line = "threegate: left out: big.bin: is larger than the 496 MiB of a change set"
    assert done.returncode == 0 and done.stderr.splitlines().count(line) == 1, done.stderr
    assert [event["changed"] for event in user.events("agent_ended")] == [1] and "drafted TR-" in done.stderr


def test_what_is_being_applied_is_hidden(user: Person) -> None:
    """A change that was cut off leaves its stage in the project: no agent reads or changes what is on its way."""
    stage = user.project / ".threegate-apply"
    stage.mkdir()
    (stage / "1").write_text("CANARY-STAGE\n")
    user.own()
    script = "ls -A; cat .threegate-apply/1; mkdir -p .threegate-apply; echo mine >.threegate-apply/1"
    done = user.run("/bin/sh", "-c", script, options=["--propose", "always"])
    assert "CANARY" not in done.stdout and ".threegate-apply" not in done.stdout, done
    assert "drafted" not in done.stderr and (stage / "1").read_text() == "CANARY-STAGE\n", done


FULL_AFTER_THE_START = """
import errno, os, sys
from threegate.plugins.agents.runs import RunFacts
write = RunFacts.write
def full(facts, run):
    if facts.announced:
        raise {what}
    write(facts, run)
RunFacts.write = full
sys.argv[0] = "threegate"
from threegate.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("what", ["OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))", "KeyboardInterrupt"])
def test_what_comes_between_the_start_in_the_trail_and_the_launchers_own_record(user: Person, what: str) -> None:
    """The run has its end in the trail, as every run that the trail has."""
    program, words = FULL_AFTER_THE_START.format(what=what), user.words("/bin/true")
    done = subprocess.run(
        [python()[0], "-c", program, "--workspace", str(user.workspace), *words], env=user.environ(), cwd=user.home,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False, **as_account(user.account),
    )  # fmt: skip
    assert done.returncode not in (0, 1) and b"Traceback" not in done.stderr, done
    [began] = user.events("agent_started")
    assert user.threegate("agent", "list").returncode == 0
    [ended] = user.events("agent_ended")
    assert (ended["run"], ended["reason"]) == (began["run"], "killed")
    assert user.threegate("agent", "remove", began["run"]).returncode == 0
