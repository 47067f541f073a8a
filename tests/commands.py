"""The command line in processes of its own that need not import it first.

A command costs a second of imports and a tenth of work. Here the imports are made once, in the standard library's fork
server; each command is then a process of its own like any other, with its own arguments, folder, environment, output
and exit code. What a cold start must do is tested by those that start one (tests/cli, tests/whole/docs, every daemon).
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path


def forked(arguments: Sequence[str], cwd: Path, timeout: float, env: dict[str, str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command. Raises subprocess.TimeoutExpired; the command is then killed."""
    with tempfile.TemporaryDirectory(prefix="threegate-command-") as name:
        out, err = Path(name, "out"), Path(name, "err")
        process = _server().Process(target=_command, args=(list(arguments), str(cwd), env, str(out), str(err)))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["threegate", *arguments], timeout)
        code, told = process.exitcode, [path.read_text(errors="replace") for path in (out, err)]
        process.close()
    return code, told[0], told[1]


def on_terminal(arguments: Sequence[str], env: dict[str, str], terminal: str) -> BaseProcess:
    """One command whose terminal is the one of this path; the caller ends it."""
    process = _server().Process(target=_on_terminal, args=(list(arguments), env, terminal))
    process.start()
    return process


@functools.cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.commands_preloaded"])
    return context


def _command(arguments: list[str], cwd: str, env: dict[str, str], out: str, err: str) -> None:
    for number, path in ((1, out), (2, err)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(cwd)
    _run(arguments, env)


def _on_terminal(arguments: list[str], env: dict[str, str], terminal: str) -> None:
    os.setsid()
    descriptor = os.open(terminal, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(descriptor, number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        setattr(sys, name, open(terminal, mode))  # noqa: SIM115 - for the life of the process
        setattr(sys, f"__{name}__", getattr(sys, name))
    _run(arguments, env)


def _run(arguments: list[str], env: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["threegate", *arguments]
    from threegate.cli import main

    main()
