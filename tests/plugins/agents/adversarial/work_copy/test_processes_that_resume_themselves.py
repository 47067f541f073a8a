"""A jail stopped by signals goes on by itself while its changes are read; what was read then does not count."""

from __future__ import annotations

import os
import signal
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.plugins.agents.conftest import jail_programs
from tests.plugins.agents.people import Person, person
from tests.plugins.agents.test_agent_run_command import wait_until_nothing_lives
from tests.plugins.agents.test_frozen_jail import CLIENT, FILES, stands_still
from tests.support import wait_until
from threegate.core.workspace import Workspace
from threegate.plugins.agents import runs
from threegate.runners.jail import freezer
from threegate.runners.jail.jail import Account, Bound, Jail

WRITER = f"""
import ctypes, os, signal, threading
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("how", ctypes.c_int), ("pad", ctypes.c_char * 48)]
class Spec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long * 4)]
def resume_often(milliseconds, times):
    # A stop discards a signal that is pending, and a timer that repeats with it; so these do not repeat.
    libc, step = ctypes.CDLL(None), milliseconds * 1_000_000
    signal.signal(signal.SIGCONT, lambda *_: None)
    for number in range(1, times + 1):
        timer = ctypes.c_void_p()
        assert libc.timer_create(1, ctypes.byref(Event(None, signal.SIGCONT, 0)), ctypes.byref(timer)) == 0
        seconds, rest = divmod(number * step, 1_000_000_000)
        assert libc.timer_settime(timer, 0, ctypes.byref(Spec((0, 0, seconds, rest))), None) == 0
def write_all():
    number = 100000
    while True:
        number += 1
        for name in range(100, 100 + {FILES}):
            with open(f"f{{name}}", "w") as file:
                file.write(str(number))
"""
"""Timers whose signals, sent by the kernel, resume the process; and a writer whose files say when they were written."""


@pytest.mark.slow
def test_a_timer_that_resumes_a_writer_gives_no_torn_change_set(user: Person) -> None:
    """By signals it cannot be stopped, so nothing is proposed and the reason is said. When the run has ended, its
    changes are read.
    """
    writer = WRITER + "resume_often(15, 3000)\nwrite_all()\n"
    program = CLIENT + textwrap.dedent(f"""
        subprocess.Popen([sys.executable, "-c", {writer!r}])
        wait_for_all()
        print(call("propose_changes", purpose="Look at it.", wait_sec=0))
        """)
    done = user.run("/usr/bin/python3", "-c", program, options=["--propose", "never"])
    assert "do not stay stopped while its changes are read" in done.stdout, done
    assert not list(user.workspace.glob("tool-exec/agents/*/inbox/files/*"))
    wait_until_nothing_lives(user)
    [ended] = user.events("agent_ended")
    assert ended["changed"] >= FILES


@pytest.mark.root
def test_where_there_is_a_freezer_the_timer_changes_nothing() -> None:
    jail_programs()
    with person("root") as somebody:
        process = somebody.start(
            "/usr/bin/python3", "-c", WRITER + "open('ready', 'w')\nresume_often(15, 3000)\nwrite_all()\n"
        )
        try:
            somebody.wait_for_file("f179")
            run = somebody.facts()["run"]
            shown = somebody.threegate("agent", "show", run)
            assert "add f179" in shown.stdout and "resume" not in shown.stdout, shown
            assert freezer.is_frozen(run) is False and freezer.freeze(run, 10)
            frozen = somebody.threegate("agent", "stop", run)
            assert frozen.returncode == 0, frozen
        finally:
            process.kill()
            process.communicate(timeout=30)
        assert not freezer._folder(run).exists()


def test_what_was_read_while_a_process_went_on_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is resumed, writes, and stops itself again, so that it is stopped whenever somebody looks."""
    jail_programs()
    script = (
        "import os, signal, time\n"
        "def go(*_):\n"
        "    open('/mnt/resumed', 'a').write('x')\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "signal.signal(signal.SIGCONT, go)\n"
        "open('/mnt/ready', 'w').close()\n"
        "while True: time.sleep(1)\n"
    )
    place = tmp_path / "place"
    place.mkdir()
    jail = Jail(Account.own(), (Bound(place, "/mnt", writable=True),))
    process = jail.start(["/usr/bin/python3", "-c", script], stdin=None, stdout=None, stderr=None, begin=False)
    try:
        wait_until(lambda: (place / "ready").exists(), "the process", 20)
        monkeypatch.setattr(runs, "_jail_of", lambda run: process.pid)
        run = Workspace(tmp_path).agent_run("ar-20261126-102139z-00112233")
        (tmp_path / "tool-exec").mkdir()
        run.make()
        seen: list[int] = []

        def read() -> int:
            if not seen:
                *_, pid = runs.jail_processes(process.pid)
                os.kill(pid, signal.SIGCONT)  # as its timer would
                wait_until(lambda: (place / "resumed").exists() and runs._state(pid) == "T", "its stop", 20)
            seen.append(len((place / "resumed").read_bytes()))
            return seen[-1]

        assert runs.read_frozen(run, read) == seen[1] and len(seen) == 2
    finally:
        process.kill()
        process.wait_empty()


def test_a_process_whose_first_thread_ended_is_stopped(user: Person) -> None:
    """/proc says zombie of it, and its other threads write on."""
    writer = f"{WRITER}threading.Thread(target=write_all).start()\nctypes.CDLL(None).pthread_exit(None)\n"
    program = CLIENT + textwrap.dedent(f"""
        subprocess.Popen([sys.executable, "-c", {writer!r}])
        wait_for_all()
        print(call("propose_changes", purpose="Look at it.", wait_sec=0))
        """)
    done = user.run("/usr/bin/python3", "-c", program, options=["--propose", "never"])
    assert '"pending"' in done.stdout, done
    [made] = user.workspace.glob("tool-exec/agents/*/inbox/files/*")
    assert stands_still(made.read_bytes())
    wait_until_nothing_lives(user)


@pytest.mark.parametrize("root", ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"])
def test_a_freezer_holds_what_is_in_it(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 1 and 2, as far as this machine has them: SIGCONT changes nothing, and it goes on when it is thawed."""
    monkeypatch.setattr(freezer, "_ROOT", Path(root))
    name = f"ar-test-{os.getpid()}"
    entered = freezer.make_freezer(name)
    if not entered:
        pytest.skip("no freezer here (only root can make one)")
    counter = subprocess.Popen(
        ["sh", "-c", 'echo $$ >"$0"; n=0; while :; do n=$((n+1)); echo $n; done', entered[0]], stdout=subprocess.PIPE
    )
    try:
        assert counter.stdout is not None
        counter.stdout.readline()
        assert freezer.freeze(name, 10) and freezer.is_frozen(name)
        os.set_blocking(counter.stdout.fileno(), False)
        while counter.stdout.read(1 << 20):
            pass
        counter.send_signal(signal.SIGCONT)
        assert not counter.stdout.read() and freezer.is_frozen(name)
        freezer.thaw(name)
        os.set_blocking(counter.stdout.fileno(), True)
        assert counter.stdout.read(1)
        assert freezer.freeze(name, 10)
        counter.kill()
    finally:
        freezer.remove_freezer(name)
        counter.wait(10)
        counter.stdout.close()
    assert not Path(entered[0]).parent.exists()
