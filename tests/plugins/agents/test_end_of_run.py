"""The end of a run at a terminal: one question, a word that opens the review, and a change that is applied and can be
undone, with a daemon that starts and ends by itself.
"""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.plugins.agents.people import Person, as_account
from tests.plugins.agents.person_at_terminal import on_terminal
from tests.plugins.agents.person_at_the_end import CHANGES, daemons, may_open, open_review, word_of
from tests.support import monty_draft, request_id, wait_until
from threegate.core.settings import parse_settings
from threegate.daemon.own_daemon import environment_without_keys


def test_one_terminal_to_an_applied_change(user: Person) -> None:
    """What is approved is applied before the command ends, and undone by the line that it prints."""
    with on_terminal(user, "/bin/sh", "-c", CHANGES, options=[]) as screen:
        open_review(screen)
        screen.press(b"a\n")
        assert screen.end() == 0, screen.seen
    assert (user.project / "new.txt").read_text() == "new\n"
    assert [event["status"] for event in user.events("finished")] == ["succeeded"]
    [line] = re.findall(r"^undo +(threegate [^\r\n]+)", screen.seen.decode(), re.MULTILINE)
    program = f'threegate() {{ {user.command()[0]} -m threegate "$@"; }}; {line} --yes'
    done = subprocess.run(
        ["/bin/sh", "-c", program], env=user.environ(), cwd=user.home, capture_output=True, text=True,
        **as_account(user.account),
    )  # fmt: skip
    assert done.returncode == 0, done
    assert not (user.project / "new.txt").exists() and (user.project / "README").read_text() == "read me\n"
    wait_until(lambda: not daemons(user), lambda: daemons(user))


def test_enter_makes_a_draft_for_later(user: Person) -> None:
    with on_terminal(user, "/bin/sh", "-c", CHANGES, options=[]) as screen:
        word_of(screen)
        screen.press(b"\n")
        screen.end()
    assert b"read and sign it in another terminal" in screen.seen and b"DRAFT 1" not in screen.seen
    assert user.events("approved") == []


def test_what_is_rejected_there_is_not_applied(user: Person) -> None:
    with on_terminal(user, "/bin/sh", "-c", CHANGES, options=["--propose", "always"]) as screen:
        open_review(screen)
        screen.press(b"r\n")
        screen.wait_for(b"reason")
        screen.press(b"not now\n")
        assert screen.end() == 0
    assert b"0 approved, 1 rejected" in screen.seen and len(may_open(screen)) == 1
    assert not (user.project / "new.txt").exists() and len(user.events("rejected")) == 1


@pytest.mark.slow
def test_a_change_that_no_longer_fits_is_named(user: Person) -> None:
    """Somebody changed the file while it was read; nothing is called applied, and nothing is to be undone."""
    with on_terminal(user, "/bin/sh", "-c", CHANGES, options=[]) as screen:
        open_review(screen)
        (user.project / "README").write_text("something else\n")
        screen.press(b"a\n")
        screen.wait_for(b"1 approved")
        screen.end()
    assert (user.project / "README").read_text() == "something else\n" and not (user.project / "new.txt").exists()
    assert re.search(rb"^project_changed TR-", screen.seen, re.MULTILINE) and b"project undo" not in screen.seen


@pytest.mark.slow
def test_a_key_in_ssh_agent_signs_although_its_file_has_a_passphrase(user: Person) -> None:
    account, socket = as_account(user.account), user.home / "agent.sock"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL, **account)
    try:
        wait_until(socket.exists)
        user.environment["SSH_AUTH_SOCK"] = str(socket)
        for words in (
            ["ssh-add", "-q", user.key],
            ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", user.key],
        ):
            subprocess.run(words, env=user.environ(), check=True, **account)
        with on_terminal(user, "/bin/sh", "-c", CHANGES, options=[]) as screen:
            open_review(screen)
            screen.press(b"a\n")
            assert screen.end() == 0, screen.seen
        assert (user.project / "new.txt").exists() and b"assphrase" not in screen.seen
    finally:
        agent.kill()
        agent.wait()


def test_off_a_terminal_nothing_is_asked(user: Person) -> None:
    done = user.run("/bin/sh", "-c", CHANGES)
    assert done.returncode == 0 and "to read and sign" not in done.stderr
    assert "no daemon is running" in done.stderr and user.events("approved") == [] and daemons(user) == []


def test_no_model_key_reaches_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not under its own name, and not under another one; what a tool needs stays, and so does what contracts name."""
    settings = parse_settings(
        b'[secrets.model]\nenv = "MODEL_KEY"\n[secrets.tool]\nenv = "TOOL_KEY"\n[agents.codex]\nkey = "model"\n'
    )
    kept = {"TOOL_KEY": "tool-key-0123456789", "REGION": "north"}
    for name, value in {"MODEL_KEY": "model-key-0123456789", "OPENAI_API_KEY": "model-key-0123456789", **kept}.items():
        monkeypatch.setenv(name, value)
    given = environment_without_keys(settings)
    assert "MODEL_KEY" not in given and "OPENAI_API_KEY" not in given
    assert kept.items() <= given.items() and given["PATH"] == os.environ["PATH"]


def at_own_place(who: Person) -> None:
    """Make their workspace the one of their own place."""
    (who.root / "data").mkdir()
    (who.root / "data" / "threegate").symlink_to(who.root)
    who.environment["XDG_DATA_HOME"] = str(who.root / "data")
    who.own()


def add_draft(who: Person) -> str:
    name = request_id("sum")
    draft = who.workspace / "inbox" / f"{name}.md"
    draft.write_text(monty_draft(name, "print(1 + 1)"))
    who.own()
    return name


def test_approve_at_the_own_place_runs_what_it_approved(user: Person) -> None:
    """Nobody has started a daemon; it ends by itself."""
    at_own_place(user)
    done = user.threegate("approve", add_draft(user), "--yes")
    assert done.returncode == 0 and "waits" not in done.stdout, done
    wait_until(lambda: not daemons(user), lambda: daemons(user))
    assert [event["status"] for event in user.events("finished")] == ["succeeded"]


@pytest.mark.slow
def test_review_at_the_own_place_does_too(user: Person) -> None:
    at_own_place(user)
    add_draft(user)
    with on_terminal(user, words=["review", "--plain"]) as screen:
        screen.wait_for(b"[q]uit > ")
        screen.press(b"a\n")
        assert screen.end() == 0
    assert b"none is running" not in screen.seen
    wait_until(lambda: not daemons(user), lambda: daemons(user))
    assert [event["status"] for event in user.events("finished")] == ["succeeded"]


def test_approve_elsewhere_says_what_to_type(user: Person) -> None:
    done = user.threegate("approve", add_draft(user), "--yes")
    assert "none is running here; start one with: threegate run" in done.stdout and daemons(user) == []
    assert user.events("finished") == []
