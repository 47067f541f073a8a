"""An ordinary user of the machine who may speak to the engine, because the socket's group is one of theirs.

What is called runs in a process of its own that gave everything else up. It must be a function of a module, and its
imports must be made at the module's head: afterwards the files of this Python may be out of reach.
"""

from __future__ import annotations

import _strptime  # noqa: F401 imported when it is first used, which would be too late
import codecs
import functools
import multiprocessing
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.commands import _command, _server
from tests.engine_fixtures import ENGINE
from tests.support import Done

UID = 61_001
ACCOUNT = "nobody"
"""An ordinary account of the machine, for programs that are started as it."""

for _name in ("ascii", "idna", "latin-1", "utf-8", "utf-16", "unicode_escape"):
    codecs.lookup(_name)  # loaded when they are first used, which would be too late


@functools.cache
def python() -> tuple[str, str]:
    """An interpreter that every account may run, and the PYTHONPATH that it needs to be ours."""
    for candidate in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        try:
            done = subprocess.run(
                [candidate, "-c", f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]!r})"],
                capture_output=True, **as_account(ACCOUNT if os.geteuid() == 0 else ""), env={}, cwd="/", check=False,
            )  # fmt: skip
        except PermissionError:
            continue
        if done.returncode == 0:
            return candidate, os.pathsep.join([str(Path(__file__).parents[1]), str(Path(pytest.__file__).parents[1])])
    raise AssertionError("no Python of this version that every account may run")


def as_account(account: str) -> dict[str, Any]:
    """What makes a child process another account's."""
    if not account:
        return {}
    found = pwd.getpwnam(account)
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


def as_user(function: Callable[..., Any], *arguments: Any, engine: str = ENGINE, seconds: float = 300) -> Any:
    """What `function` returns when the user calls it. Raises what it raised."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = _server().Process(target=_call, args=(theirs, engine, function, arguments))
    process.start()
    theirs.close()
    try:
        assert ours.poll(seconds), "no answer"
        good, value = ours.recv()
    except EOFError:
        raise AssertionError("the process of the user died") from None
    finally:
        process.kill()
        process.join()
        ours.close()
    if not good:
        raise value
    return value


def become_user(engine: str = ENGINE) -> None:
    """Give up everything but the group of the engine's socket."""
    group = os.stat(engine.removeprefix("unix://")).st_gid
    assert group != 0, "the engine's socket has no group of its own"
    os.setgroups([group])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)
    os.chdir("/tmp")
    os.environ["HOME"] = os.environ["XDG_STATE_HOME"] = "/nonexistent"


def _call(theirs: Connection, engine: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        become_user(engine)
        answer = True, function(*arguments)
    except BaseException as error:
        answer = False, error
    theirs.send(answer)


@contextmanager
def home() -> Iterator[Path]:
    """A folder of the user's that nobody else may enter."""
    folder = Path(tempfile.mkdtemp(prefix="tg-user-", dir="/var/tmp"))
    os.chown(folder, UID, UID)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def command(folder: Path, *arguments: str, timeout: float = 240) -> Done:
    """The user runs one command in a folder of theirs."""
    out, err = folder / ".out", folder / ".err"
    process = _server().Process(target=_user_command, args=(list(arguments), str(folder), str(out), str(err)))
    process.start()
    process.join(timeout)
    assert process.exitcode is not None, f"{arguments} does not end"
    done = Done(process.exitcode, out.read_text(errors="replace"), err.read_text(errors="replace"))
    process.close()
    for path in (out, err):
        path.unlink()
    assert "Traceback (most recent call last)" not in done.err, done.err
    return done


def _user_command(arguments: list[str], cwd: str, out: str, err: str) -> None:
    become_user()
    home = str(Path(cwd).parents[len(Path(cwd).parts) - 4])
    env = {**os.environ, "HOME": home, "XDG_STATE_HOME": f"{home}/.state", "COLUMNS": "120", "NO_COLOR": "1"}
    _command(arguments, cwd, env, out, err)
