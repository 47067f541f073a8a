"""A launcher that is killed at any moment leaves no daemon for ever, takes none from another launcher, and nothing runs
twice.
"""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.plugins.agents.people import Person, as_account
from tests.plugins.agents.person_at_terminal import Screen, on_terminal
from tests.plugins.agents.person_at_the_end import CHANGES, daemons, open_review, word_of
from tests.support import wait_until

REQUESTS = "echo 'not a request' >/run/inbox/TR-1.md; : >asked; sleep 60"
WAITS = ": >begun; while [ ! -e end ]; do sleep 0.1; done"


def daemon_of(who: Person) -> int:
    return wait_until(lambda: daemons(who), "a daemon")[0]


def ends(who: Person) -> None:
    wait_until(lambda: not daemons(who), lambda: daemons(who))


def kill(screen: Screen) -> None:
    screen.process.kill()
    screen.process.wait()


def runs_once(who: Person) -> None:
    """Whatever a daemon finds later: each approved request ran at most once, and the project has the change once."""
    ends(who)
    assert who.threegate("run", "--once").returncode == 0
    assert len(who.events("finished")) == len(who.events("approved"))
    assert (who.project / "README").read_text().count("more") == len(who.events("approved"))
    assert who.threegate("audit", "verify").returncode == 0


def test_while_the_agent_runs(user: Person) -> None:
    with on_terminal(user, "/bin/sh", "-c", REQUESTS) as screen:
        daemon_of(user)
        kill(screen)
        ends(user)
    runs_once(user)


@pytest.mark.slow
def test_at_the_question_and_in_the_review(user: Person) -> None:
    for wait in (word_of, open_review):
        with on_terminal(user, "/bin/sh", "-c", CHANGES, options=[]) as screen:
            wait(screen)
            kill(screen)
        runs_once(user)
    assert user.events("approved") == []


def test_as_soon_as_it_is_approved(user: Person) -> None:
    """What was approved is applied by the daemon before it ends."""
    with on_terminal(user, "/bin/sh", "-c", CHANGES, options=[]) as screen:
        open_review(screen)
        daemon_of(user)
        screen.press(b"a\n")
        screen.wait_for(b"key       SHA256:")
        kill(screen)
    ends(user)
    assert [event["status"] for event in user.events("finished")] == ["succeeded"]
    runs_once(user)


def test_a_daemon_belongs_to_every_launcher_that_is_left(user: Person) -> None:
    """The first one, whose child it is, is killed; it stays for the second, and ends with it."""
    with on_terminal(user, "/bin/sh", "-c", REQUESTS) as first:
        daemon = daemon_of(user)
        second = user.start("/bin/sh", "-c", WAITS)
        try:
            copy = user.wait_for_file("begun").parent
            kill(first)
            # It has looked since: it answers a draft that came after the end of the first.
            name = "TR-20261122-101500Z-late"
            inbox = user.workspace / "inbox"
            (inbox / f"{name}.md").write_text("not a request")
            os.chown(inbox / f"{name}.md", inbox.stat().st_uid, inbox.stat().st_gid)
            wait_until((user.workspace / "tool-exec" / "verdicts" / f"{name}.md.json").exists)
            assert daemons(user) == [daemon]
            (copy / "end").touch()
            assert second.wait(60) == 0
        finally:
            second.kill()
            second.communicate()
    ends(user)


def test_a_daemon_that_somebody_started_is_left_alone(user: Person) -> None:
    theirs = subprocess.Popen(
        user.command("run"), env=user.environ(), cwd=user.home, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, **as_account(user.account),
    )  # fmt: skip
    try:
        assert theirs.stderr and b"ready" in theirs.stderr.readline()
        with on_terminal(user, "/bin/sh", "-c", CHANGES, options=[]) as screen:
            open_review(screen)
            screen.press(b"a\n")
            assert screen.end() == 0, screen.seen
        assert daemons(user) == [] and theirs.poll() is None
        assert (user.project / "new.txt").exists() and len(user.events("finished")) == 1
    finally:
        theirs.terminate()
        theirs.communicate()


def test_a_daemon_that_dies_is_named_with_what_to_type(user: Person) -> None:
    script = f"{REQUESTS.removesuffix('; sleep 60')}; {WAITS}"
    process = user.start("/bin/sh", "-c", script, options=["--propose", "never"])
    copy = user.wait_for_file("begun").parent
    pid = daemon_of(user)
    wait_until(lambda: daemon_is_ready(user))
    os.kill(pid, signal.SIGKILL)
    (copy / "end").touch()
    said = process.communicate(timeout=60)[1].decode()
    assert "the daemon ended with signal 9 (its log: " in said and said.endswith("start one with: threegate run\n"), (
        said
    )


def daemon_is_ready(who: Person) -> bool:
    return b"ready" in (who.workspace / "tool-exec" / "control" / "daemon.log").read_bytes()
