"""What a command line has Python run, read as CPython reads its options."""

from __future__ import annotations

import pytest

from threegate.request.command.python_line import PythonLine, python_line


@pytest.mark.parametrize(
    ("argv", "kind", "text", "at"),
    [
        (["python3", "/in/a.py", "--x"], "file", "/in/a.py", 1),
        (["/usr/bin/python", "-u", "-W", "error", "-Xutf8", "a.py"], "file", "a.py", 5),
        (["python3", "-uc", "print(1)"], "code", "print(1)", 2),
        (["python3", "-cprint(1)", "x"], "code", "print(1)", 1),
        (["python3.11", "-Im", "json.tool", "/in/a"], "module", "json.tool", 2),
        (["python3", "-mcsv"], "module", "csv", 1),
        (["timeout", "-k", "5", "10s", "python3", "a.py"], "file", "a.py", 5),
        (["env", "A=b", "python3"], "input", "", 2),
        (["python3", "-", "a"], "input", "", 0),
        (["python3", "-q"], "input", "", 0),
    ],
)
def test_what_runs(argv: list[str], kind: str, text: str, at: int) -> None:
    line = python_line(argv)
    assert line is not None and (line.kind, line.text, line.at) == (kind, text, at)


@pytest.mark.parametrize(
    "argv",
    [
        ["sort", "a.py"],
        ["timeout", "5"],
        ["python3", "--version"],
        ["python3", "-V"],
        ["python3", "-h", "a.py"],
        ["python3", "-c"],
        ["python3", "-m"],
        ["pythonic", "a.py"],
        ["python2", "a.py"],
    ],
)
def test_nothing_is_known_of_other_lines(argv: list[str]) -> None:
    assert python_line(argv) is None


def test_what_the_name_and_the_options_say() -> None:
    assert python_line(["python3.12", "-I", "a.py"]) == PythonLine("file", "a.py", 2, True, 12)
    assert python_line(["python3", "-bP", "a.py"]) == PythonLine("file", "a.py", 2, True, None)
    assert python_line(["python3", "-bS", "a.py"]) == PythonLine("file", "a.py", 2, False, None)
