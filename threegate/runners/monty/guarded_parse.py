"""Have Monty itself read code that is not approved, without running any of it.

Monty compiles all of the code before its first line runs. So the code is placed behind a line that can only fail: if
Monty reports that failure, it could compile the rest; if it reports anything else, it could not. Nothing behind the
first line ever runs. It is a process of its own for each text, with limits of time and memory, because the text is
hostile until a person has read it.

Invariant: code passes only if Monty printed exactly what the first line gives. Whatever else happens is a problem.
"""

from __future__ import annotations

import functools
import os
import re
import resource
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.request.characters import visible
from threegate.request.problem import Problem
from threegate.runners.monty.program import worker_binary

_GUARD: Final = "1/0\n"
_OPTIONS: Final = ("--max-memory", "16MB", "--max-feed-duration", "1", "--max-suspensions", "0")
# The time that it took is printed only once the code has been compiled and its first line has run.
_RAN: Final = re.compile(
    r"[0-9.]+ ?(?:ns|μs|µs|ms|s) ❯ error: Traceback \(most recent call last\):\n"
    r'  File "[^"\n]*", line 1, in <module>\n    1/0\n    ~~~\nZeroDivisionError: division by zero\n'
)
_NOT_READ: Final = re.compile(
    r'error:\nTraceback \(most recent call last\):\n  File "[^"\n]*", line ([0-9]+)(?:, in [^\n]*)?\n'
    r"(?s:.*)\n(SyntaxError|NotImplementedError): ([^\n]*)\n"
)
_ERA: Final = "write it another way, or use ERA: change backend"


def parse_problem(code: str) -> Problem | None:
    """What keeps Monty from reading the code, or None. Never raises, and never runs a line of the code.

    The line counts from 1 in `code`. Monty stops at the first problem, so there is at most one.
    """
    try:
        return parsed(code)
    except (OSError, Unavailable, subprocess.SubprocessError, UnicodeError, ValueError) as error:
        why = "it took too long" if isinstance(error, subprocess.TimeoutExpired) else visible(str(error)[:120])
        return Problem("TG419", 1, 1, f"Monty could not be asked whether it can read the code: {why}; try again")


@functools.lru_cache(maxsize=64)  # a draft is read by several in one process; what was raised is not kept
def parsed(code: str) -> Problem | None:
    """The same. Raises what keeps Monty from being asked."""
    status, told = ask(_GUARD + code, worker_binary())
    if status == 1 and _RAN.fullmatch(told):
        return None
    match = _NOT_READ.fullmatch(told) if status == 1 else None
    if match is None:
        raise ValueError(f"it ended with {status}")
    line, kind, message = max(int(match[1]) - 1, 1), match[2], match[3]
    if kind == "NotImplementedError":
        what = message.removeprefix("The monty syntax parser does not yet support ")
        return Problem("TG407", line, 1, f"Monty does not support {visible(what[:160])}; {_ERA}")
    if "too deeply nested" in message:
        return Problem("TG402", line, 1, "nested too deeply for Monty to read; make it flatter")
    # What it quotes of the code stays out.
    plain = re.split(r"['`\"(]|token ", message, maxsplit=1)[0].strip()[:80] or "it does not parse"
    return Problem("TG401", line, 1, f"Monty does not read it as Python: {visible(plain)}; fix the code")


def ask(text: str, binary: Path) -> tuple[int, str]:
    """The exit status and what was printed. Raises OSError, subprocess.SubprocessError."""
    # In memory: nothing on disk can be replaced meanwhile, and nothing remains.
    descriptor = os.memfd_create("threegate-code", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as stream:
            stream.write(text.encode())
        with subprocess.Popen(
            [binary, *_OPTIONS, f"/proc/self/fd/{descriptor}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(descriptor,),
            env={},
            cwd="/",
        ) as process:
            try:
                restrict(process.pid)
                _, told = process.communicate(timeout=limits.MONTY_PARSE_SEC)
            except BaseException:  # Ctrl-C, too: nobody else knows of this process
                process.kill()
                raise
            return process.returncode, told.decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def restrict(pid: int) -> None:
    """Limits that hold without us. Raises OSError where they cannot be set."""
    bounds = {
        resource.RLIMIT_AS: limits.MONTY_PARSE_BYTES,
        resource.RLIMIT_CPU: limits.MONTY_PARSE_SEC,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, bound in bounds.items():
        with suppress(ProcessLookupError):  # it is already done
            resource.prlimit(pid, kind, (bound, bound))
