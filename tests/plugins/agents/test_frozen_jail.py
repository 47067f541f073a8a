"""A jail stands still while its changes are read: no process of it writes on, whatever it is, and none is left
stopped.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import tarfile
import textwrap
import time
from pathlib import Path

import pytest

from tests.conftest import slow
from tests.plugins.agents.people import Person, as_account, python
from tests.plugins.agents.test_agent_run_command import wait_until_nothing_lives
from threegate.plugins.agents.runs import jail_processes

CLIENT = r"""
import itertools, json, os, socket, subprocess, sys, time
door = socket.socket(socket.AF_UNIX)
door.connect("/run/door.sock")
lines, numbers = door.makefile("rb"), itertools.count(1)

def tell(**message):
    door.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

def ask(method, **params):
    number = next(numbers)
    tell(id=number, method=method, params=params)
    for line in lines:
        answer = json.loads(line)
        if answer.get("id") == number:
            return answer
    return None

def call(tool, **arguments):
    answer = ask("tools/call", name=tool, arguments=arguments)
    return answer and answer["result"]["content"][0]["text"]

def wait_for_all():  # until a writer made each of its files
    while not os.path.exists("f179"):
        time.sleep(0.05)
    time.sleep(0.2)

ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"})
tell(method="notifications/initialized")
"""
"""An MCP client in the jail, for programs of tests."""
FILES = 80
WRITER = (
    f"n=100000; while :; do n=$((n+1)); i=100; while [ $i -lt {100 + FILES} ]; do echo $n >f$i; i=$((i+1)); done; done"
)
"""Writes one number into all files in their order, then the next: in each moment at most two numbers are there, in
order.
"""
CHAIN = (
    f"while (1) {{ $n++; for $name (100..{99 + FILES}) "
    "{ open(F, '>', qq(f$name)); print F 100000 + $n; close(F); exit if fork } }"
)
"""The same, by a process for each file that makes the next one and ends: in Perl, whose processes live for the shortest
time of what every Debian has.
"""


def stands_still(data: bytes) -> bool:
    """Whether a change set has what a writer had made in one moment."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = [tar.extractfile(name) for name in sorted(tar.getnames()) if re.search(r"f\d{3}$", name)]
        texts = [file.read().strip() for file in found if file]
    numbers = [int(text) for text in texts if text]
    assert len(numbers) >= FILES // 2, texts
    return len(texts) - len(numbers) <= 1 and numbers == sorted(numbers, reverse=True) and numbers[0] - numbers[-1] <= 1


@pytest.mark.parametrize("secret", [slow(False), True], ids=["a shell", "a shell that nobody may read"])
def test_a_process_that_keeps_writing_gives_no_torn_change_set(user: Person, secret: bool) -> None:
    """The door reads while it writes. A program without read permission hides its namespaces from an ordinary
    account.
    """
    if secret and not user.account:
        pytest.skip("needs root for a program that the account may not read")
    folder = user.root / "tools"
    folder.mkdir()
    user.own()
    shutil.copy("/bin/dash", folder / "sh")
    os.chmod(folder / "sh", 0o711 if secret else 0o755)
    program = CLIENT + textwrap.dedent(f"""
        writer = subprocess.Popen([{str(folder / "sh")!r}, "-c", {WRITER!r}])
        wait_for_all()
        for _ in range(3):
            print(call("propose_changes", purpose="Look at it.", wait_sec=0))
            time.sleep(0.1)
        print("writes on" if writer.poll() is None else "ended")
        """)
    done = user.run("/usr/bin/python3", "-c", program, options=["--read", str(folder), "--propose", "never"])
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "writes on", done
    sets = list(user.workspace.glob("tool-exec/agents/*/inbox/files/*"))
    assert done.stdout.count('"pending"') == 3 and len(sets) == 3, done
    assert all(stands_still(path.read_bytes()) for path in sets)
    wait_until_nothing_lives(user)


@pytest.mark.slow
def test_a_chain_of_processes_is_stopped_too(user: Person) -> None:
    """Each lives for a moment and makes the next one, so whoever looks at one of them finds it gone."""
    program = CLIENT + textwrap.dedent(f"""
        subprocess.Popen(["/usr/bin/perl", "-e", {CHAIN!r}])
        wait_for_all()
        print(call("propose_changes", purpose="Look at it.", wait_sec=0))
        """)
    done = user.run("/usr/bin/python3", "-c", program, options=["--propose", "never"])
    assert '"pending"' in done.stdout, done
    [made] = user.workspace.glob("tool-exec/agents/*/inbox/files/*")
    assert stands_still(made.read_bytes())
    wait_until_nothing_lives(user)


@pytest.mark.slow
def test_a_door_that_is_killed_while_it_reads_leaves_nothing_stopped(user: Person) -> None:
    program = CLIENT + textwrap.dedent("""
        import os
        for number in range(6000):
            with open(f"new{number}", "wb") as file:
                file.write(os.urandom(4096))
        open("ready", "w").close()
        print(call("propose_changes", purpose="Look at it.", wait_sec=0))
        """)
    process = user.start("/usr/bin/python3", "-c", program, options=["--propose", "never"])
    user.wait_for_file("ready")
    jail = user.facts()["jail"]
    until = time.monotonic() + 30
    while True:
        first = jail_processes(jail)[0]
        if Path(f"/proc/{first}/stat").read_text().rpartition(") ")[2][0] == "T":
            break
        assert time.monotonic() < until
    os.kill(door_of(process), signal.SIGKILL)
    out, said = process.communicate(timeout=60)
    assert (out, process.returncode) == (b"None\n", 0), said
    assert b"threegate: the door exited before the agent (signal 9)" in said
    wait_until_nothing_lives(user)
    [ended] = user.events("agent_ended")
    assert ended["changed"] == 6001


def door_of(launcher: subprocess.Popen[bytes], words: str = "serve mcp --run") -> int:
    """The process id of a launcher's door, or of another process beside it."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for pid in Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split():
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            if words in line and not line.startswith("/usr/bin/setpriv"):
                return int(pid)
    raise AssertionError(f"no {words}")


@pytest.mark.slow
def test_nothing_of_a_jail_lives_when_its_changes_are_read(user: Person) -> None:
    """bubblewrap ends with the program that it started; what that left in the background ends later."""
    script = textwrap.dedent("""
        import subprocess, sys
        from pathlib import Path
        from threegate.runners.jail.jail import Account, Jail
        from threegate.plugins.agents.runs import jail_processes
        process = Jail(Account.own()).start(
            ["/bin/sh", "-c", "for i in $(seq 60); do setsid sleep 300 & done; echo made; read line"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None,
        )
        assert process.stdout.readline() == b"made\\n"
        inside = jail_processes(process.pid)
        assert len(inside) > 60
        process.kill()
        process.wait()
        process.wait_empty()
        states = [Path(f"/proc/{pid}/stat") for pid in inside]
        print([path.name for path in states if path.exists() and ") Z " not in path.read_text()])
        """)
    done = subprocess.run(
        [python()[0], "-c", script], env=user.environ(), cwd="/", capture_output=True, text=True, timeout=60,
        **as_account(user.account),
    )  # fmt: skip
    assert done.stdout == "[]\n", done
