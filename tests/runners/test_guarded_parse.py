"""Monty reads a draft's code before anybody signs it: nothing of it runs, and what is not read is refused."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from tests.request.examples import MONTY, NAME, NOW, SETTINGS, monty, read
from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.request.problem import Problem
from threegate.request.reader import read_request
from threegate.runners.monty import guarded_parse
from threegate.runners.monty.guarded_parse import parse_problem


@pytest.fixture(autouse=True)
def asked_anew() -> None:
    guarded_parse.parsed.cache_clear()


@pytest.mark.parametrize(
    "code",
    ["", "x = 1\n", "print('é')\n", "1/0\n", "while True: pass\n", "f\"{d[\"a\"]}\"\n", "def f[T](x: T): return x\n",
     "from __future__ import annotations\n", "import os\r\nos.nothing\r\n", "x\n" * 9_000],
    ids=lambda code: ascii(code)[:30],
)  # fmt: skip
def test_what_monty_reads_has_no_problem(code: str) -> None:
    assert parse_problem(code) is None


@pytest.mark.parametrize(
    ("code", "rule", "line"),
    [
        ("class A:\n    @property\n    def f(self): return 1\n", "TG407", 2),
        ("x = 1\n\nclass A:\n    class B: pass\n", "TG407", 4),
        ("def f():\n    yield 1\n", "TG407", 2),
        ("type X = int\n", "TG407", 1),
        ("x = 1\ndel x\n", "TG407", 2),
        ("x = 1\nfoo bar\n", "TG401", 2),
        ("x = (\n", "TG401", 2),
        ("break\n", "TG401", 1),
        ("from __future__ import nothing\n", "TG401", 1),
        ("-" * 9000 + "1", "TG402", 1),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_what_monty_does_not_read_has_its_line(code: str, rule: str, line: int) -> None:
    problem = parse_problem(code)
    assert problem is not None
    assert (problem.rule, problem.line) == (rule, line)


def test_the_message_says_the_way_out_and_quotes_no_code() -> None:
    problem = parse_problem("class A:\n    @staticmethod\n    def f(): return 1\n")
    assert problem is not None and problem.message.endswith("or use ERA: change backend")
    problem = parse_problem("def f(hunter2, hunter2): pass\n")
    assert problem is not None and problem.rule == "TG401" and "hunter2" not in problem.message


@pytest.mark.parametrize(
    "trick",
    ["print('ran')\n", "open('/out/x', 'w').write('ran')\n", "1/0\nprint('ran')\n", "\nprint('ran')\n",
     "def f(x=print('ran')): pass\n", "'''\n'''\nprint('ran')\n", "\\\nprint('ran')\n", ";print('ran')\n"],
    ids=ascii,
)  # fmt: skip
def test_nothing_of_the_code_runs(trick: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever begins the code: nothing is printed. Monty reports the first line, or that it cannot read the rest."""
    seen = []
    real = guarded_parse.ask

    def spy(text: str, binary: Path) -> tuple[int, str]:
        answer = subprocess.run(
            [binary, "-c", text], capture_output=True, env={}, stdin=subprocess.DEVNULL, timeout=30, check=False
        )
        seen.append(answer.stdout + answer.stderr)
        return real(text, binary)

    monkeypatch.setattr(guarded_parse, "ask", spy)
    parse_problem(trick)
    assert seen and b"ran\n" not in seen[0].replace(b"print('ran')\n", b"")


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (0, ""),
        (1, ""),
        (1, "error: nothing\n"),
        (-9, ""),
        (101, "thread panicked\n"),
        (1, "1.5ms ❯ error: Traceback (most recent call last):\n  File \"x\", line 2, in <module>\n    1/0\n    ~~~\nZeroDivisionError: division by zero\n"),  # noqa: E501
        (1, "1.5ms ❯ error: Traceback (most recent call last):\n  File \"x\", line 1, in <module>\n    1/0\n    ~~~\nZeroDivisionError: division by zero\nmore\n"),  # noqa: E501
        (0, "1.5ms ❯ error: Traceback (most recent call last):\n  File \"x\", line 1, in <module>\n    1/0\n    ~~~\nZeroDivisionError: division by zero\n"),  # noqa: E501
        (1, "error:\nTraceback (most recent call last):\n  File \"x\", line 2\n    x\nKeyError: x\n"),
    ],
    ids=lambda value: ascii(value)[:30],
)  # fmt: skip
def test_any_other_answer_is_no_yes(status: int, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_parse, "ask", lambda text, binary: (status, told))
    problem = parse_problem("x = 1\n")
    assert problem is not None and problem.rule == "TG419"


def test_a_monty_that_does_not_answer_is_no_yes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "monty"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o700)
    monkeypatch.setattr(guarded_parse, "worker_binary", lambda: slow)
    monkeypatch.setattr(limits, "MONTY_PARSE_SEC", 1)
    assert parse_problem("x = 1\n") == _not_asked("it took too long")
    monkeypatch.setattr(guarded_parse, "worker_binary", lambda: tmp_path / "nothing")
    problem = parse_problem("x = 1\n")
    assert problem is not None and problem.rule == "TG419"

    def missing() -> Path:
        raise Unavailable("monty's worker program is not installed")

    monkeypatch.setattr(guarded_parse, "worker_binary", missing)
    assert parse_problem("x = 1\n") == _not_asked("monty's worker program is not installed")
    monkeypatch.undo()
    assert parse_problem("x = 1\n") is None  # what failed is asked again
    problem = parse_problem("x = '\udc80'\n")
    assert problem is not None and problem.rule == "TG419"


def _not_asked(why: str) -> Problem:
    return Problem("TG419", 1, 1, f"Monty could not be asked whether it can read the code: {why}; try again")


def test_the_process_has_limits_of_time_memory_and_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shows = tmp_path / "monty"
    shows.write_text(
        "#!/bin/sh\nwhile ! grep -q 'Max file size *0 ' /proc/self/limits; do :; done\ncat /proc/self/limits >&2\n"
    )
    shows.chmod(0o700)
    _, told = guarded_parse.ask("x\n", shows)
    held = {line[:25].strip(): line[25:].split()[:2] for line in told.splitlines()}
    assert held["Max cpu time"] == [str(limits.MONTY_PARSE_SEC)] * 2
    assert held["Max address space"] == [str(limits.MONTY_PARSE_BYTES)] * 2
    assert held["Max file size"] == ["0", "0"]


def test_one_that_has_ended_needs_no_limits() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    guarded_parse.restrict(process.pid)
    assert resource.getrlimit(resource.RLIMIT_CORE) != (0, 0) or resource.getrlimit(resource.RLIMIT_FSIZE) != (0, 0)


def test_a_draft_is_read_by_monty_and_an_approved_file_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was approved had passed; a worker that does not start must not void it."""
    code = "\n```python\nx = 1\nclass A:\n    @property\n    def f(self):\n        return 1\n```\n"
    text = monty().replace(MONTY["Code"], code)
    (found,) = [finding for finding in read(text).findings if finding.rule == "TG407"]
    assert text.split("\n")[found.line - 1] == "    @property"

    def missing() -> Path:
        raise Unavailable("no")

    monkeypatch.setattr(guarded_parse, "worker_binary", missing)
    assert [finding.rule for finding in read(monty()).findings] == ["TG419"]
    approved = read_request(text.encode(), path=NAME, settings=SETTINGS, now=NOW, stage="approved")
    assert not {finding.rule for finding in approved.findings} & {"TG407", "TG419"}
