"""The files by which a process asks for an approved call: who asks, who is alive, and what is believed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from threegate.core import limits
from threegate.core.errors import Refused, Unavailable
from threegate.core.workspace import Workspace
from threegate.launch.caller_use import (
    USE_SCHEMA,
    CallerEnd,
    CallerHold,
    ask_name,
    caller_ask,
    clear_use,
    go_path,
    is_asked,
    let_begin,
    remove_left_uses,
)

ID = "TR-20260101-000000Z-x"
ME = os.geteuid()
TOKEN = "0" * 32
ASKED = json.dumps({"schema": USE_SCHEMA, "request_id": ID, "token": TOKEN}).encode() + b"\n"
HOLDER = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("holds", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Folders alone; no daemon looks at them."""
    made = Workspace(tmp_path)
    made.make_folders()
    return made


@contextmanager
def holder(workspace: Workspace, data: bytes = ASKED) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has the lock of a file with this content."""
    path = workspace.inbox / ask_name(ID)
    path.write_bytes(data)
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    with process:
        try:
            assert select.select([process.stdout], [], [], 60)[0] and process.stdout.readline() == b"holds\n"
            yield process
        finally:
            process.kill()


def test_only_the_lock_of_a_living_process_asks(workspace: Workspace) -> None:
    assert not is_asked(workspace, ME, ID)
    with holder(workspace) as process:
        assert is_asked(workspace, ME, ID)
        assert not is_asked(workspace, ME + 1, ID), "another account than the requester's"
        ask = caller_ask(workspace, ME, ID)
        assert ask is not None and ask.token == TOKEN and ask.lives() and ask.end() is None
        with pytest.raises(Refused) as caught:
            CallerHold(workspace, ID)
        assert caught.value.code == "in_use"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not ask.lives() and not is_asked(workspace, ME, ID)
        with CallerHold(workspace, ID):
            assert not ask.lives(), "the next process is not the one that asked"
        ask.close()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        ASKED[:-1],
        ASKED + ASKED,
        b"[]\n",
        b"{}\n",
        b"\xff\n",
        ASKED.replace(b"00", b"0g"),
        ASKED.replace(b"use/1", b"use/2"),
        ASKED.replace(b"-x", b"-y"),
        b'{"token":1,' + ASKED[1:],
        ASKED.replace(TOKEN.encode(), b"0" * limits.CALLER_FILE_BYTES),
        ASKED.replace(b'"' + TOKEN.encode() + b'"', b"7"),
    ],
)
def test_a_file_that_says_something_else_asks_for_nothing(workspace: Workspace, data: bytes) -> None:
    with holder(workspace, data):
        assert not is_asked(workspace, ME, ID)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("/etc/passwd"),
        lambda path: os.mkfifo(path),
        lambda path: path.mkdir(),
        lambda path: (path.with_name(".other").write_bytes(ASKED), path.hardlink_to(path.with_name(".other"))),
    ],
)
def test_what_is_not_a_plain_file_asks_for_nothing_and_stops_nobody(
    workspace: Workspace, make: Callable[[Path], object]
) -> None:
    make(workspace.inbox / ask_name(ID))
    assert not is_asked(workspace, ME, ID)


def test_an_inbox_that_is_gone_asks_for_nothing(workspace: Workspace) -> None:
    workspace.files.rmdir()
    workspace.inbox.rmdir()
    assert not is_asked(workspace, ME, ID)
    with pytest.raises(Unavailable, match="cannot be written"):
        CallerHold(workspace, ID)


def test_the_arguments_are_for_the_process_that_asked(workspace: Workspace) -> None:
    """The way from the question to the end, with the daemon's side in a process of its own."""
    with CallerHold(workspace, ID) as hold:
        assert hold.begin() is None
        go_path(workspace, ID).write_text(
            json.dumps({"schema": USE_SCHEMA, "token": TOKEN, "tool": "a", "arguments": {}})
        )
        assert hold.begin() is None, "for a process before this one"
        assert _as_daemon(lambda: _gives(workspace)) == 0
        assert hold.begin() == ("pay.send", {"cents": 1})
        hold.end(KeyError)
        assert _as_daemon(lambda: is_asked(workspace, ME, ID)) == 1, "a file with an end asks for nothing more"
        with pytest.raises(Refused):
            CallerHold(workspace, ID)
    assert not (workspace.inbox / ask_name(ID)).exists()
    clear_use(workspace, ID)
    assert not go_path(workspace, ID).exists()
    clear_use(workspace, ID)


def _as_daemon(work: Callable[[], bool]) -> int:
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _gives(workspace: Workspace) -> bool:
    ask = caller_ask(workspace, ME, ID)
    if ask is None or ask.end() is not None:
        return False
    let_begin(workspace, ID, ask, "pay.send", {"cents": 1})
    return True


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ({"ended": True, "raised": ""}, CallerEnd()),
        ({"ended": True, "raised": "KeyError"}, CallerEnd("KeyError")),
        ({"ended": True, "raised": "a b\n"}, None),
        ({"ended": True, "raised": None}, None),
        ({"ended": 1, "raised": ""}, None),
        ({"ended": True, "raised": "", "more": 1}, None),
        ({}, None),
    ],
)
def test_only_a_whole_end_is_believed(workspace: Workspace, said: object, end: CallerEnd | None) -> None:
    with holder(workspace):
        ask = caller_ask(workspace, ME, ID)
        assert ask is not None
        with (workspace.inbox / ask_name(ID)).open("ab") as stream:
            stream.write(json.dumps(said).encode())
            stream.flush()
            assert ask.end() is None, "its line is not complete"
            stream.write(b"\n")
            stream.flush()
            assert ask.end() == end
            stream.write(b"{}\n")
            stream.flush()
            assert ask.end() is None, "more than one end"
        ask.close()


def test_what_a_killed_daemon_left_is_removed(workspace: Workspace) -> None:
    left, other = go_path(workspace, ID), workspace.verdicts / f"{ID}.md.json"
    left.touch()
    other.touch()
    (workspace.verdicts / "use-folder.json").mkdir()
    remove_left_uses(workspace)
    assert not left.exists() and other.exists()


def test_a_broken_answer_begins_nothing(workspace: Workspace) -> None:
    with CallerHold(workspace, ID) as hold:
        for text in ("{", "[]", "{}"):
            go_path(workspace, ID).write_text(text)
            if text == "{":
                with pytest.raises(Unavailable, match="cannot be read"):
                    hold.begin()
            else:
                assert hold.begin() is None


def test_a_class_with_an_odd_name_is_an_exception(workspace: Workspace) -> None:
    with CallerHold(workspace, ID) as hold:
        hold.end(type("odd name\n", (Exception,), {}))
        assert (workspace.inbox / ask_name(ID)).read_text().splitlines()[1] == '{"ended":true,"raised":"Exception"}'
