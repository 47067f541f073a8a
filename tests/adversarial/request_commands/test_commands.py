"""Hostile commands are refused by the rule that should; honest ones pass; no text stops the reader."""

from __future__ import annotations

import shlex
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.adversarial.request_commands import honest_commands, hostile_commands, opaque_commands
from tests.conftest import examples
from threegate.core import limits
from threegate.core.settings import RequestSettings
from threegate.request.command.read_command import WARNINGS, read_command
from threegate.request.gate_rules import RULES

PROGRAMS = frozenset(RequestSettings().programs)


@pytest.mark.parametrize("rule", hostile_commands.HOSTILE)
def test_hostile_commands_are_refused_by_their_rule(rule: str) -> None:
    wrong = []
    for expected, line in hostile_commands.cases():
        if expected == rule:
            command = read_command(line, programs=PROGRAMS)
            if command.argv is not None or rule not in {problem.rule for problem in command.problems}:
                wrong.append((line, [problem.rule for problem in command.problems]))
    assert wrong == []


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\0"])
@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "python a.py{}",
        "python{}a.py",
        "python 'a{}b'",
        'python "a{}b"',
        "python a\\{}b",
        "'{}'",
        "echo 'a{}",
    ],
)
def test_a_line_break_or_nul_is_refused_in_any_place(line: str, end: str) -> None:
    command = read_command(line.format(end), programs=PROGRAMS)
    assert command.argv is None
    assert "TG303" in {problem.rule for problem in command.problems}


def test_the_tables_are_large_and_without_repetition() -> None:
    hostile = [line for _, line in hostile_commands.cases()]
    honest = honest_commands.cases()
    opaque = [line for _, line in opaque_commands.cases()]
    assert len(hostile) + len(opaque) >= 950
    assert len(honest) >= 260
    assert [line for line, count in Counter(hostile + honest + opaque).items() if count > 1] == []
    errors = {rule.id for rule in RULES.values() if rule.id[:3] == "TG3" and rule.severity == "error"}
    assert errors - {"TG301", "TG322"} == set(hostile_commands.HOSTILE)


def test_honest_commands_pass_and_are_split_as_a_shell_would() -> None:
    wrong = []
    for line in honest_commands.cases():
        command = read_command(line, programs=PROGRAMS)
        if command.argv is None or list(command.argv) != shlex.split(line):
            wrong.append((line, command.argv, command.problems))
    assert wrong == []


@pytest.mark.parametrize("launcher", ["timeout 5 ", "env A=b ", "nice -n 3 ", "xargs -n 1 ", "nohup env -i setsid "])
def test_a_launcher_before_a_hostile_program_changes_nothing(launcher: str) -> None:
    wrong = []
    for rule, line in hostile_commands.cases():
        if rule in ("TG308", "TG311") or line.startswith(("#", "-")) or line.split()[0] in BUILTINS:
            continue  # what begins a line only: an assignment is env's own, -x an option of the launcher
        command = read_command(launcher + line, programs=PROGRAMS)
        if command.argv is not None:
            wrong.append(launcher + line)
    assert wrong == []


@pytest.mark.parametrize("program", ["python", "cat", "awk '{print}'", "timeout 5 python"])
@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/proc/1/environ",
        "/root/.ssh",
        "/home/a",
        "/dev/sda",
        "/var/run/docker.sock",
        "file:///in/a",
        "../a",
    ],
)
@pytest.mark.parametrize(
    "shape",
    [
        "{}",
        "'{}'",
        '"{}"',
        "--a={}",
        "--a={},x",
        "a={}",
        "@{}",
        "x:{}",
        "--a '{}'",
        "'x {} y'",
        "'[\"{}\"]'",
        "-- {}",
    ],
)
def test_a_host_path_is_found_in_any_argument(program: str, path: str, shape: str) -> None:
    command = read_command(f"{program} {shape.format(path)}", programs=PROGRAMS)
    assert {problem.rule for problem in command.problems} & {"TG317", "TG318", "TG319"}


@examples(300, deadline=None)
@given(st.text(max_size=120))
def test_any_text_gives_an_answer(text: str) -> None:
    command = read_command(text, programs=PROGRAMS)
    refused = any(problem.rule not in WARNINGS for problem in command.problems)
    assert (command.argv is None) == refused
    for problem in command.problems:
        assert problem.line == 1
        assert 1 <= problem.column <= max(len(text), 1)
        assert problem.rule in RULES
        assert "\n" not in problem.message


_PIECES = st.sampled_from(
    """python awk sed git tar find xargs env timeout busybox -c -m -e -I{} -exec {} + ; | & < > ( ) $ ` '
    " \\ / .. ~ * ? [ ] # = : , @ /etc /in/a /dev/null docker.sock file:// s/a/b/e {print} import
    os.system pip install a 5 -- - --to-command= é \ud800 \x00 \n \t""".split(" ")
)


@pytest.mark.no_cover
def test_any_mixture_of_pieces_gives_an_answer() -> None:
    met = 0

    @settings(max_examples=400, deadline=None)
    @given(st.lists(st.tuples(_PIECES, st.sampled_from(["", " "])), max_size=14))
    def check(pieces: list[tuple[str, str]]) -> None:
        nonlocal met
        text = "".join(piece + gap for piece, gap in pieces)
        command = read_command(text, programs=PROGRAMS)
        if command.argv is not None:
            met += 1
            assert shlex.split(shlex.join(command.argv)) == list(command.argv)
            assert all(isinstance(word, str) for word in command.argv)

    check()
    assert met >= 10


@examples(300, deadline=None)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_an_accepted_argv_survives_being_written_and_read_again(argv: list[str]) -> None:
    line = shlex.join(["python", *argv])
    command = read_command(line, programs=PROGRAMS)
    assume(command.argv is not None)
    assert command.argv is not None and list(command.argv) == ["python", *argv]
    again = read_command(shlex.join(command.argv), programs=PROGRAMS)
    assert again.argv == command.argv


BUILTINS = ("exec", "eval", "command", "builtin", "source", ".", "cmd")
"""No program has these names: a launcher finds nothing to start."""
WORST = [
    "a ", "'a' ", "\\a", "env ", "xargs ", "/etc ", "../ ", "a;", "$a ", "${ ", "`", "{a,", "[a] ", "~ ", "a:", "/", "=/", "@/", "'",  # noqa: E501
    "-I{} ", "-exec cat {} + ", "a/../", "/./", "é ", "docker.", "(", "..", "a,", "not ", "{a}", "\"a\"", "pip ", "-m ", "f'",  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize("before", ["", "python -c ", "awk ", "git "])
def test_the_worst_64_kib_are_answered(before: str) -> None:
    """Quadratic work would run into the suite's timeout; bench/request_worst.py has the figures."""
    for piece in WORST:
        for quote in ("", "'"):
            body = piece.replace("'", '"') if quote else piece
            text = before + quote + body * (limits.REQUEST_BYTES // len(body)) + quote
            command = read_command(text, programs=PROGRAMS)
            assert len(command.problems) <= len(RULES)
