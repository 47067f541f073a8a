"""The command reader: words as a shell splits them, places, warnings, and what an accepted command is."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from threegate.core import limits
from threegate.core.settings import RequestSettings
from threegate.request.command.programs import refusal, spellings
from threegate.request.command.read_command import WARNINGS, ReadCommand, read_argv, read_command, starts_refused
from threegate.request.gate_rules import RULES

PROGRAMS = frozenset(RequestSettings().programs)


def read(text: str) -> ReadCommand:
    return read_command(text, programs=PROGRAMS)


def rules(text: str) -> list[str]:
    return [problem.rule for problem in read(text).problems]


def test_the_seeds_own_example_is_read() -> None:
    command = read("python -u script.py --in /in/input.csv --out /out/output.json")
    assert command == ReadCommand(
        ("python", "-u", "script.py", "--in", "/in/input.csv", "--out", "/out/output.json"), ()
    )


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("python a", ["python", "a"]),
        ("  python\t a  ", ["python", "a"]),
        ("python ''", ["python", ""]),
        ("python '' \"\"", ["python", "", ""]),
        ("python a'b'\"c\"d", ["python", "abcd"]),
        ("python 'a\\b'", ["python", "a\\b"]),
        ('python "a\\b\\"\\\\"', ["python", 'a\\b"\\']),
        ('python "\\$1"', ["python", "$1"]),
        ("python a\\ b\\'", ["python", "a b'"]),
        ('python "it\'s"', ["python", "it's"]),
        ("python é 日本", ["python", "é", "日本"]),
        ("python a\u00a0b", ["python", "a\u00a0b"]),
        ("python a#b a~b {} a{b}", ["python", "a#b", "a~b", "{}", "a{b}"]),
        ("python a] a} ] }", ["python", "a]", "a}", "]", "}"]),
        ("python $ a$ $.", ["python", "$", "a$", "$."]),
        ("p\\ython a", ["python", "a"]),
        ("'python' a", ["python", "a"]),
        ("python [a {a,b", ["python", "[a", "{a,b"]),
        ("python {a}, {a}..", ["python", "{a},", "{a}.."]),
    ],
)
def test_words_are_split_as_posix_says(text: str, argv: list[str]) -> None:
    assert read(text).argv == tuple(argv)


_PIECES = st.sampled_from(["a", "b", " ", "'", '"', "\\", "-", "=", "/in/a", ".", ",", "\t", "\\$", "é"])


@settings(max_examples=120, deadline=None)
@given(st.lists(_PIECES, max_size=10).map("".join))
def test_a_real_shell_splits_every_accepted_line_the_same_way(text: str) -> None:
    command = read("printf " + text)
    assume(command.argv is not None and not command.problems)
    shown = subprocess.run(
        ["/bin/sh", "-c", "for word in " + text + "; do command printf '%s\\0' \"$word\"; done"],
        capture_output=True,
        check=True,
    )
    assert command.argv is not None
    assert shown.stdout.decode().split("\0")[:-1] == list(command.argv[1:])


@pytest.mark.parametrize(
    ("text", "rule", "column"),
    [
        ("python a;b", "TG304", 9),
        ("python 'é' ; ls", "TG304", 12),
        ("python a > b", "TG305", 10),
        ("python /etc/passwd", "TG317", 8),
        ("python --a=/etc/passwd", "TG317", 12),
        ("python x 'a /etc/b'", "TG317", 10),
        ("env A=b bash", "TG312", 9),
        ("python *.csv", "TG307", 8),
        ("python 'a", "TG302", 8),
        ("echo 'a|b' c", "TG310", 6),
        ("xargs -I{} 'bash -c {}'", "TG312", 12),
        ("git log venv", "TG315", 9),
        ("python $(id)", "TG306", 8),
    ],
)
def test_a_problem_stands_where_it_begins(text: str, rule: str, column: int) -> None:
    assert (rule, column) in [(problem.rule, problem.column) for problem in read(text).problems]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("perl '-es/etc/var/' /in/a", []),
        ("perl '-es/a/b/' /etc/a", ["TG317"]),
        ("perl '-eopen(F, \"/etc/a\")' /in/a", ["TG317"]),
        ("node '-er(\"/etc/a\")'", ["TG317"]),
    ],
)
def test_code_in_the_word_of_its_option_is_code(text: str, found: list[str]) -> None:
    assert [rule for rule in rules(text) if rule.startswith("TG31")] == found


def test_each_rule_is_told_once_and_problems_are_in_order() -> None:
    problems = read("cat /etc/a /etc/b ; cat ; cat > a > b ../c ../d").problems
    assert [problem.rule for problem in problems] == ["TG317", "TG304", "TG305", "TG319"]
    assert [problem.column for problem in problems] == sorted(problem.column for problem in problems)


@pytest.mark.parametrize("text", ["", " ", "\t", "''", '""', "'' a", "'' $x"])
def test_no_program_is_an_error(text: str) -> None:
    assert read(text).argv is None
    assert "TG301" in rules(text)


@pytest.mark.parametrize(
    "text", ["echo $HOME", 'echo "$HOME"', 'echo "a $1"', "echo a$b", 'perl -e "print $a"', "echo $$"]
)
def test_an_unexpanded_variable_is_a_warning(text: str) -> None:
    assert rules(text) == ["TG331"]
    assert read(text).argv is not None


@pytest.mark.parametrize(
    "text", ["awk '{print $1}' a", 'echo "\\$HOME"', "echo \\$HOME", "echo 5$ '$x'", "grep 'x$' a"]
)
def test_a_quoted_dollar_is_none(text: str) -> None:
    assert rules(text) == []


@pytest.mark.parametrize(
    ("text", "unusual"),
    [
        ("python a.py", False),
        ("python3.11 a.py", False),
        ("/usr/bin/python3 a.py", False),
        ("/opt/a/bin/python a.py", False),
        ("/in/python a.py", True),
        ("frobnicate", True),
        ("Python a.py", False),
        ("timeout 5 python a.py", True),
        ("find /in -exec frobnicate {} +", False),
        ("xargs cat", True),
    ],
)
def test_a_program_outside_the_settings_is_unusual(text: str, unusual: bool) -> None:
    command = read(text)
    assert command.unusual_program is unusual
    assert command.argv is not None
    assert ("TG330" in rules(text)) is unusual


def test_the_settings_say_what_is_usual() -> None:
    assert not read_command("frobnicate 1", programs=("frobnicate",)).unusual_program
    assert read_command("python a.py", programs=()).unusual_program
    assert read_command("bash", programs=("bash",)).argv is None, "a setting allows no shell"


def test_warnings_and_only_they_refuse_nothing() -> None:
    warnings = {rule.id for rule in RULES.values() if rule.where == "command" and rule.severity == "warning"}
    assert warnings == WARNINGS | {"TG332"}


@pytest.mark.parametrize(
    ("program", "names"),
    [
        ("python", ("python",)),
        ("/usr/bin/Python3.11", ("python3.11", "python")),
        ("pip-3.11", ("pip-3.11", "pip")),
        ("bash-static", ("bash-static", "bash")),
        ("a-1-2-3-4-5-6", ("a-1-2-3-4-5-6", "a-1-2-3-4-5", "a-1-2-3-4", "a-1-2-3", "a-1-2", "a-1", "a")),
        ("7", ("7",)),
        ("x" * 300 + "1", ("x" * 300 + "1",)),
    ],
)
def test_a_program_is_known_by_its_name_without_version(program: str, names: tuple[str, ...]) -> None:
    assert spellings(program) == names


def test_programs_that_only_begin_like_refused_ones_are_not_refused() -> None:
    for program in (
        "shuf shasum sha1sum bashful pipeline dockerize suspend mountain aptly npmlog gemini kindle condor initdb"
    ).split():
        assert refusal(program) is None, program


def test_as_many_words_as_are_allowed_and_one_more() -> None:
    most = limits.COMMAND_WORDS
    for word in ("a", "'a'"):
        assert read("echo" + f" {word}" * (most - 1)).argv is not None
        assert rules("echo" + f" {word}" * most) == ["TG322"]
    assert "TG322" in rules("echo " + "a'b'" * 10_000)


def test_no_message_repeats_a_secret() -> None:
    key = "AKIA" + "A1" * 8
    for text in (
        f"/{key}/x",
        f"{key};",
        f"cat /{key}",
        f"env {key} /x",
        f"git -c {key}=x log",
        f"python -m pip.{key}",
    ):
        assert key not in str(read(text).problems)


def test_a_programs_spellings_whatever_its_length() -> None:
    from threegate.request.command.programs import spellings

    assert spellings("/usr/bin/PIP3.11") == ("pip3.11", "pip")
    assert spellings(f"/{'x' * 300}/pip3.11") == ("pip3.11", "pip")
    assert spellings("x" * 300) == ("x" * 300,)


PIECES = st.sampled_from(
    ["a", "-c", "sh", "rm -rf x", "a;b", "a|b", "$HOME", "$(x)", "${x}", "`x`", "it's", '"', "\\", "a\nb", "\0", "", "é", "~", "#",  # noqa: E501
     "[a]", "{a,b}", "/etc/x", "../x", "docker.sock", "make", "install", "pip3.11", "ghp_" + "a1" * 18]
)  # fmt: skip


@pytest.mark.parametrize(
    "argv",
    [
        [],
        [""],
        ["", "x"],
        ["ls", "-l", "a b", "c;d", "/in/é"],
        ["echo", "it's", "a\nb"],
        ["echo", "$(x)"],
        ["echo"] * limits.COMMAND_WORDS,
        ["echo"] * (limits.COMMAND_WORDS + 1),
    ],
)
def test_an_argv_is_judged_like_the_line_that_quotes_it(argv: list[str]) -> None:
    assert read_argv(argv, programs=PROGRAMS) == read(shlex.join(argv))


@settings(max_examples=300)
@given(st.lists(st.lists(PIECES, max_size=3).map("".join), max_size=5))
def test_any_argv_is_judged_like_the_line_that_quotes_it(argv: list[str]) -> None:
    assert read_argv(argv, programs=PROGRAMS) == read(shlex.join(argv))


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("", False),
        ("''", False),
        ("'' sudo", False),
        ("sudo ls", True),
        ("env sudo ls", True),
        ("cat sudo", False),
        ("python3 /in/pip.py", True),
        ("python3 /in/a.py sudo", False),
        ("/etc/x ; >", False),
        ("sudo" + " a" * limits.COMMAND_WORDS, False),
    ],
)
def test_what_a_line_starts_is_what_its_rules_say(text: str, refused: bool) -> None:
    assert starts_refused(text) is refused
    assert ({"TG312", "TG313", "TG314", "TG315", "TG316"} & set(rules(text)) != set()) is refused


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=6).map(" ".join))
def test_what_any_line_starts_is_what_its_rules_say(text: str) -> None:
    found = {"TG312", "TG313", "TG314", "TG315", "TG316"} & set(rules(text))
    assert starts_refused(text) is bool(found)
