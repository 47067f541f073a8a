"""Lexers run elsewhere, for a bounded time, and what they answer is the text that they were given or nothing."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support import children, wait_until
from threegate.core import lexer_process, limits, syntax_colours
from threegate.core.syntax_colours import STYLES, LexerProcess

CODE = 'def add(a, b):  # two\n    return "x" + 1\n'


def scripted(body: str) -> list[str]:
    """A process in place of ours, which has loaded the lexer."""
    loaded = "sys.stdin.readline(); print('[]', flush=True)"
    return [sys.executable, "-c", f"import json, os, sys, time\n{loaded}\n{body}"]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine of any speed."""
    monkeypatch.setattr(limits, "COLOUR_TEXT_SECONDS", 60.0)
    monkeypatch.setattr(limits, "COLOUR_START_SECONDS", 60.0)


def test_code_comes_back_whole_with_its_styles(patient: None) -> None:
    with LexerProcess() as process:
        found = process.colours("python", CODE)
        assert found is not None and "".join(text for _, text in found) == CODE
        assert {("keyword", "def"), ("comment", "# two"), ("string", '"x"'), ("number", "1"), ("name", "add")} <= set(
            found
        )
        other = process.colours("bash", "\n\n  echo $X  \n\n")
        assert other is not None and "".join(text for _, text in other) == "\n\n  echo $X  \n\n"


def test_no_style_is_dim_or_hidden() -> None:
    assert all(set(style.split(";")) <= {"", "1", "33", "34", "35", "36"} for style in STYLES.values())


def test_one_process_for_all_texts_and_none_afterwards(patient: None) -> None:
    before = set(children(os.getpid()))
    with LexerProcess() as process:
        assert set(children(os.getpid())) == before, "it starts with the first text"
        for _ in range(3):
            assert process.colours("python", CODE) is not None
        assert len(set(children(os.getpid())) - before) == 1
    assert set(children(os.getpid())) == before


@pytest.mark.parametrize(
    "body",
    [
        "",
        "sys.stdin.readline(); print('[')",
        "sys.stdin.readline(); print('[' * 50000)",
        "sys.stdin.readline(); print('{}')",
        'sys.stdin.readline(); print(\'[["", "another text"]]\')',
        "t = json.loads(sys.stdin.readline())[1]; print(json.dumps([['', t[:-1]]]))",
        "t = json.loads(sys.stdin.readline())[1]; print(json.dumps([['', t + 'x']]))",
        "t = json.loads(sys.stdin.readline())[1]; print(json.dumps([['8', t]]))",
        "t = json.loads(sys.stdin.readline())[1]; print(json.dumps([['', t, '']]))",
        "t = json.loads(sys.stdin.readline())[1]; print(json.dumps([[None, t]]))",
        "os.kill(os.getpid(), 9)",
    ],
    ids=["ends", "no JSON", "deep", "an object", "another text", "less", "more", "a style", "three", "none", "killed"],
)
def test_a_process_that_lies_or_ends_is_not_asked_again(body: str, tmp_path: Path, patient: None) -> None:
    seen = tmp_path / "asked"
    command = scripted(f"open({str(seen)!r}, 'a').write('x')\n{body}" if body else "sys.exit()")
    with LexerProcess(command) as process:
        assert process.colours("python", CODE) is None
        assert process.colours("python", CODE) is None
    assert not body or seen.read_text() == "x"


def test_a_process_that_writes_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COLOUR_ANSWER_BYTES", 10_000)
    monkeypatch.setattr(limits, "COLOUR_TEXT_SECONDS", 60.0)
    monkeypatch.setattr(limits, "COLOUR_START_SECONDS", 60.0)
    with LexerProcess(scripted("while True: sys.stdout.write('x' * 1000)")) as process:
        assert process.colours("python", CODE) is None


def test_a_program_that_is_not_there() -> None:
    with LexerProcess(["/nonexistent/python"]) as process:
        assert process.colours("python", CODE) is None


def test_a_killed_process_leaves_the_text_plain(patient: None) -> None:
    with LexerProcess() as process:
        before = set(children(os.getpid()))
        assert process.colours("python", CODE) is not None
        [child] = set(children(os.getpid())) - before
        os.kill(child, signal.SIGKILL)
        assert process.colours("python", CODE) is None and process.colours("python", CODE) is None


def test_a_process_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic()
    monkeypatch.setattr(limits, "COLOUR_START_SECONDS", 60.0)
    with LexerProcess(scripted("time.sleep(60)")) as process:
        assert process.colours("python", CODE) is None
    assert time.monotonic() - began < 59


def test_another_thread_stops_it(patient: None) -> None:
    """At once, whatever it does, also before the process is there."""
    before = set(children(os.getpid()))
    with LexerProcess(scripted("time.sleep(600)")) as process, ThreadPoolExecutor(1) as threads:
        asked = threads.submit(process.colours, "python", CODE)
        wait_until(lambda: set(children(os.getpid())) - before, "the process is there")
        process.stop()
        assert asked.result(50) is None
    with LexerProcess() as process:
        process.stop()
        assert process.colours("python", CODE) is None
    assert set(children(os.getpid())) == before


def test_it_is_stopped_while_it_starts(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(children(os.getpid()))
    with LexerProcess() as process:
        started = subprocess.Popen

        def stopped_meanwhile(*words: Any, **more: Any) -> Any:
            process.stop()
            return started(*words, **more)

        monkeypatch.setattr(syntax_colours.subprocess, "Popen", stopped_meanwhile)
        assert process.colours("python", CODE) is None
        assert set(children(os.getpid())) == before


def test_a_lexer_that_a_text_makes_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real one: that of Java takes minutes for words in a row, because each may be the type of a method."""
    text = "a " * 100_000
    began = time.monotonic()
    monkeypatch.setattr(limits, "COLOUR_START_SECONDS", 60.0)
    with LexerProcess() as process:
        assert process.colours("java", text) is None
    assert time.monotonic() - began < 59


def test_a_text_that_is_too_long_is_not_lexed() -> None:
    with LexerProcess(["/nonexistent/python"]) as process:
        assert process.colours("python", "x" * (limits.COLOUR_TEXT_BYTES + 1)) is None
        assert process.colours("python", "") is None


def test_what_the_process_answers() -> None:
    asked = "".join(json.dumps([name, CODE]) + "\n" for name in ("python", "ruby"))
    out = io.StringIO()
    lexer_process.answer(io.StringIO(asked), out)
    answers = out.getvalue().splitlines()
    assert len(answers) == 2
    for line in answers:
        assert "".join(text for _, text in json.loads(line)) == CODE
    with pytest.raises(Exception, match="no lexer"):
        lexer_process.answer(io.StringIO(json.dumps(["nonsense", CODE]) + "\n"), io.StringIO())
