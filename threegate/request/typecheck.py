"""Run Monty's type checker on code that is not approved, without ever running that code.

Monty checks types only before running. So the code is placed after a first line that is a type error and, if
the checker ever let it pass, a runtime error as well: nothing after it can run. The results are warnings for
the daemon's verdict and for `approve`; `validate` does not use it. It is not part of `read_request`. Source:
docs/spec/1-tool-request.md, "Code".
"""

from __future__ import annotations

import builtins
import json
import re
import sysconfig
import threading
from collections.abc import Mapping
from contextlib import suppress
from os import kill
from pathlib import Path
from signal import SIGKILL
from typing import Final

from threegate.core import limits
from threegate.core.secretscan.scan import mask_secrets
from threegate.request.characters import visible
from threegate.request.gate_rules import TYPES
from threegate.request.model import Request
from threegate.request.problem import Problem
from threegate.request.report import Finding

GUARD: Final = '1 + ""\n'
"""Has a type error: code behind it is checked and never runs."""
_STUBS: Final = "from typing import Any\ndef open(*args: Any, **kwargs: Any) -> Any: ...\n"
_LIMITS: Final[Mapping[str, float]] = {
    "max_feed_duration_secs": 0.5,
    "max_memory": 64 * 1024 * 1024,
    "max_suspensions": 0,
    "max_total_sleep_secs": 0,
}
_LINE: Final = re.compile(r"[^:\n]*:([0-9]+):([0-9]+): (?:error|warning)\[([a-z-]+)\] (.*)")
_ANY: Final = re.compile("")
_RIGHT: Final[Mapping[str, re.Pattern[str]]] = {
    "call-non-callable": _ANY,
    "invalid-assignment": _ANY,
    "missing-argument": _ANY,
    "no-matching-overload": _ANY,
    "too-many-positional-arguments": _ANY,
    "unknown-argument": _ANY,
    "unresolved-attribute": re.compile(r"Object of type `[^`|]*` has no attribute "),
    "unresolved-reference": re.compile(rf"Name `(?!(?:{'|'.join(map(re.escape, dir(builtins)))})`)"),
    "unsupported-operator": re.compile(r"(?!.*(?:`object`|\|))"),
}
"""Kinds of findings, and how their words begin where they are right.

Measured on code that runs (tests/request/test_python_idioms.py). The checker's declarations lack half of Monty's own
builtins and modules, and it takes every search for one that may find nothing; gate 1 has the tables for the former.
"""


def check_types(
    code: str, vars_json: str = "", *, binary: Path | None = None, seconds: float = 5.0
) -> tuple[Problem, ...]:
    """The type checker's findings in code, as warnings; a single warning if it could not be run.

    `code` is text in which `check_code` found no error; `vars_json` the Inputs block, if any, whose keys count as
    Any. `binary`: the worker program, by default the one installed next to this interpreter. `seconds`: the
    deadline, after which the worker is killed. Never raises, never runs the code.
    """
    try:
        told = _ask(code, _stubs(vars_json), binary or _installed(), seconds)
    except Exception as error:  # noqa: BLE001 - warnings only: whatever fails is reported as a warning
        return (_could_not(type(error).__name__),)
    return tuple(sorted(_problems(told))[: limits.FINDINGS_PER_RULE])


def type_findings(request: Request) -> tuple[Finding, ...]:
    """The warnings for a request, at the lines of its file: what a verdict and `approve` add to the report.

    () for a request that is not a Monty request. Never raises, never runs the code.
    """
    action = request.action
    if not action.source:
        return ()
    text = request.data.decode("utf-8", "replace").replace("\r\n", "\n")
    first = text.count("\n", 0, max(text.find("\n" + action.source, text.find("\n## Code")), 0)) + 2
    return tuple(
        TYPES.found(problem.line + first - 1, problem.column, problem.message)
        for problem in check_types(action.source, action.variables)
    )


def _could_not(why: str) -> Problem:
    return Problem(TYPES.id, 1, 1, f"Monty's type checker could not be asked ({why}); read the code with more care")


def _installed() -> Path:
    """The worker program that pip installed; never MONTY_BIN or PATH."""
    return Path(sysconfig.get_path("scripts")) / "monty"


def _stubs(vars_json: str) -> str:
    """Declarations of what the runner adds: `open` and a variable for each key."""
    keys = json.loads(vars_json) if vars_json else {}
    return _STUBS + "".join(f"{key}: Any\n" for key in keys if key.isidentifier())


def _ask(code: str, stubs: str, binary: Path, seconds: float) -> str:
    """The checker's lines. Raises TimeoutError, RuntimeError or what Monty raises."""
    import pydantic_monty as monty

    try:
        with (
            monty.Monty(binary_path=binary, min_processes=1, max_processes=1, request_timeout=seconds) as pool,
            pool.checkout(
                type_check=True, type_check_stubs=stubs, type_check_format="concise", limits=dict(_LIMITS)
            ) as session,
        ):
            late = threading.Timer(seconds, _end, (session.worker_pid,))
            late.start()
            try:
                session.feed_run(GUARD + code, print_callback=discard)
            finally:
                late.cancel()
    except monty.MontyTypingError as error:
        return str(error.display())
    except monty.MontyCrashedError:
        raise TimeoutError from None
    raise RuntimeError("the guard did not hold")


def _end(worker: int) -> None:
    """End a worker that is late."""
    with suppress(ProcessLookupError):
        kill(worker, SIGKILL)


def discard(stream: str, text: str) -> None:
    """Nothing is ever printed, because the guard comes first."""


def _problems(told: str) -> list[Problem]:
    """The checker's lines about the code, without the guard's own."""
    problems = []
    for line in told.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        number, column, kind, message = int(match[1]), int(match[2]), match[3], match[4]
        if number > 1 and kind in _RIGHT and _RIGHT[kind].match(message):
            problems.append(Problem(TYPES.id, number - 1, column, visible(mask_secrets(f"{message[:160]} ({kind})"))))
    return problems
