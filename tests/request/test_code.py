"""Monty code and inputs: what is refused, where, and that nothing stops the reader or runs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pydantic_monty
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.request.examples import era, monty, read
from threegate.core import limits
from threegate.request.code import check_code, check_vars
from threegate.request.code_modules import MONTY_NAMES
from threegate.request.gate_rules import RULES, TYPES
from threegate.request.model import InputFile
from threegate.request.typecheck import check_types, type_findings

HOSTILE = {
    "TG401": ["x = = 1", "def f(:", "print 'a'", "x = (1", "'open", "if x:\npass", "\tx\n  y", "x = 1\n  y = 2", ("return 1 "  # noqa: E501
        "2"), "x = \x00", "1" * 5000, "é = §"],
    "TG402": ["(" * 500, "[" * 5000, "-" * 9000 + "1", "a." * 9000 + "a", "a+" * 9000 + "a", "not " * 5000 + "1", "x\n" * 10_001, "[" + "1," * 6000 + "]",  # noqa: E501
              "f'" + "{a}" * 1000 + "'", "lambda: " * 4900 + "1", "a[" * 250 + "0" + "]" * 250, "f(" * 250 + ")" * 250, "x" + "()" * 4000],  # noqa: E501
    "TG403": ["import socket", "import subprocess", "import os, socket", "from socket import socket", ("import numpy as "  # noqa: E501
        "np"), "from . import a",
              "from .a import b", "import os.nothing", "import json.decoder", "from os import system", ("from os import "  # noqa: E501
        "environ"), "import io", "import ctypes",
              "def f():\n    import ssl", "try:\n    import ssl\nexcept ValueError:\n    pass", ("try:\n    pass\nexcept ImportError:\n    import "  # noqa: E501
        "ssl"),
              "from json import nothing", "import importlib", "import builtins", "from collections import OrderedDict"],
    "TG404": ["import pip", "from pip import main", "__import__('pip')", "print('pip install x')", "# pip install x", ("s = 'apt-get install "  # noqa: E501
        "x'"),
              "exec('import pip')", "import ensurepip", "run(['pip', 'install', 'x'])", "run(['-m', 'pip'])"],
    "TG405": ["open('/etc/passwd')", "open('//etc/passwd')", "open('/in/../etc/a')", "open('../a')", "p = '/proc/self/environ'", "p = 'file:///in/a'",  # noqa: E501
              "# reads /root/a", "'''\n/home/a\n'''", "Path('/sys/a')", "p = f'/etc/{name}'", "p = b'/etc/x'"],
    "TG406": ["open('/dev/mem')", "open('/dev/sda', 'w')", "s = 'docker.sock'", "e = 'DOCKER_HOST'", "open('/dev/stdout')"],  # noqa: E501
    "TG407": ["def f():\n    yield 1", "def f():\n    yield from x", "x = 1\ndel x", ("async def f(x):\n    async with x:\n        "  # noqa: E501
        "pass"),
              "async def f(x):\n    async for y in x:\n        pass", "from json import *", ("class A(Exception):\n    "
        "pass"), "class A(metaclass=B):\n    pass",
              "try:\n    pass\nexcept* ValueError:\n    pass", "async def f(y):\n    return [x async for x in y]", "x = (yield)", ("d = {}\ndel "  # noqa: E501
        "d['a']")],
}  # fmt: skip

HONEST = [
    "", "\n", "x = 1", "rows = open('/in/data.csv').read().splitlines()\nlen(rows)", ("import json, math\nfrom pathlib import "  # noqa: E501
        "Path\nPath('/out/a').write_text('x')"),
    "from datetime import datetime, timedelta\ndatetime.now() - timedelta(days=1)", ("import os.path\nos.path.join('/in', "  # noqa: E501
        "'a')"), "try:\n    from numpy import array\nexcept ImportError:\n    pass", ("import re\nre.sub(r'/+', '/', "
        "'a//b')"),
    "try:\n    import numpy\nexcept ImportError:\n    numpy = None", ("try:\n    import numpy as np\nexcept (ValueError, ModuleNotFoundError):\n    np = "  # noqa: E501
        "None"),
    "try:\n    import numpy\nexcept:\n    pass", "class A:\n    def f(self):\n        return 1\n", ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: "  # noqa: E501
        "int\n"),
    "async def f():\n    return 1\nimport asyncio\nasyncio.run(f())", "print('install base:', 3)", ("total = sum(x / 2 for x in [1, "  # noqa: E501
        "2])"), "d = {'a': {'b': [1]}}\nd['a']['b']",
    "s = 'see https://example.org/home/page'", "# the train/dev/test split\nx = 1", "text = 'é ü 日本'", ("match 1:\n    case 1:\n        x = "  # noqa: E501
        "2"), "f'{1:>5}'",
    "lambda a, *b, **c: a", "x: int = 1", ("import csv\nwith open('/in/a.csv') as f:\n    rows = "
        "list(csv.DictReader(f))"), "open('/dev/null')",
    "def system(x):\n    return x\nsystem('a')", "import random\nrandom.random()", "run = print\nrun(['ls'])", ("a = b = c = "  # noqa: E501
        "1\n") * 500,
    "names = {'pip': 1, 'npm': 2}", "x = [[[[[1]]]]]", "import hashlib\nhashlib.sha256(b'a').hexdigest()", "exec(text)", "f(shell=False)",  # noqa: E501
    "getattr(x, 'y')(1)", "getattr(x, y)(1)", "(lambda: 1)()", "[f][0]()", "a.b.c.d.e.f.g.h.i.j()", "(a + b).c()", "g()(1)", "g(1)(2)", "g('a')(2)", "x.g('a')(2)", "(a or b)('x')(2)",  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "code"),
    [(rule, code) for rule, codes in HOSTILE.items() for code in codes],
    ids=lambda value: ascii(value)[:40],
)
def test_hostile_code_is_refused_by_its_rule(rule: str, code: str) -> None:
    assert rule in {problem.rule for problem in check_code(code)}


@pytest.mark.parametrize("code", HONEST, ids=lambda value: ascii(value)[:40])
def test_honest_code_passes(code: str) -> None:
    assert check_code(code) == ()


def test_places_are_those_of_the_import_or_the_path() -> None:
    problems = check_code("x = 1\nif x:\n    import json, socket\np = '/etc/a'\n")
    assert [(problem.rule, problem.line, problem.column) for problem in problems] == [
        ("TG403", 3, 18),
        ("TG405", 4, 6),
    ]


def test_a_syntax_error_quotes_nothing_of_the_code() -> None:
    (problem,) = check_code("password = 'hunter2' 'x' unexpected '\n")
    assert problem.rule == "TG401"
    assert "hunter2" not in problem.message


def test_the_modules_are_those_of_the_installed_monty() -> None:
    """Asks Monty for every module and name of the table, and for modules that must not be there."""
    code = "".join(
        f"from {module} import {name} as _x\n" for module, names in MONTY_NAMES.items() for name in sorted(names)
    )
    with pydantic_monty.Monty() as pool:
        with pool.checkout() as session:
            assert session.feed_run(code + "'all'") == "all"
        for module in (
            "socket",
            "subprocess",
            "io",
            "ctypes",
            "importlib",
            "builtins",
            "threading",
            "statistics",
        ):
            with pool.checkout() as session, pytest.raises(pydantic_monty.MontyRuntimeError):
                session.feed_run(f"import {module}")
        for code in HOSTILE["TG407"]:
            with pool.checkout() as session, pytest.raises(pydantic_monty.MontyError):
                session.feed_run(code)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_an_answer(text: str) -> None:
    for problem in (*check_code(text), *check_vars(text)):
        assert problem.rule in RULES
        assert problem.line >= 1 and problem.column >= 1
        assert "\n" not in problem.message


_TOKENS = st.sampled_from(
    ["import ", "os", ".", "system", "(", ")", "'", '"', "\n", "    ", "def f():", "yield", "class A", ":", "=", "[", "]", "{", "}", "f'", "x", "1", ",", "async ", "for ", "in ",  # noqa: E501
     "try:", "except ", "lambda ", "\\", "#", "exec", "__import__", "getattr", "\ud800", "é", "\x00", "/etc", ";"]
)  # fmt: skip


def test_lines_of_the_checker_that_are_no_doubts_are_passed_over() -> None:
    from threegate.request import typecheck

    assert typecheck._problems("info: x\nmain.py:1:1: error[a-b] the guard\n  --> y\n") == []


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.system('ls')",
        "__import__('os').system('ls')",
        "import os as o\no.popen('ls')",
        "getattr(__import__('os'), 'system')('ls')",
        "exec('import os\\nos.system(1)')",
        "import subprocess\nsubprocess.run(['ls'])",
        "import pty\npty.spawn('ls')",
    ],
)
def test_monty_itself_has_no_way_to_start_a_program(code: str) -> None:
    """Gate 1 guesses nothing about such code: all of it is on the screen, and Monty raises."""
    with (
        pydantic_monty.Monty() as pool,
        pool.checkout() as session,
        pytest.raises(pydantic_monty.MontyError),
    ):
        session.feed_run(code)


@settings(max_examples=400, deadline=None)
@given(st.lists(_TOKENS, max_size=25).map("".join))
def test_any_mixture_gives_an_answer(text: str) -> None:
    assert all(problem.rule in RULES for problem in check_code(text))


@pytest.mark.parametrize(
    "piece",
    [
        "a;",
        "x\n",
        "[1,",
        "a+",
        "(",
        "-",
        "a.",
        "f()",
        "'a' ",
        "a<",
        "{1:",
        "@a\n",
        "f'{a}'",
        '"',
        '"""',
        "'''a",
        "#",
        "import x\n",
        "/etc ",
        "os.system(1)\n",
        "\\",
    ],
)
def test_64_kib_of_anything_are_answered(piece: str) -> None:
    """Quadratic work would run into the suite's timeout; bench/request_worst.py has the figures."""
    text = piece * (limits.REQUEST_BYTES // len(piece))
    check_code(text)
    check_vars(text)
    check_vars('{"a": [' + text)


VARS = {
    "TG107": ['{"a": "\\u202e"}', '{"a": ["\\u200B"]}', '{"a": {"\\u0000": 1}}', '{"a": "\\ud800"}', '{"a": "x\u202ey"}'],  # noqa: E501
    "TG411": ["", "{", "{'a': 1}", '{"a": 1,}', "nope", '{"a": 01}', '{"a": 1} x', '{"a": ' + "[" * 70 + "]" * 70 + "}", "[" * 60000, '{"a": "\n"}', "{a: 1}", '{"a" 1}', "// x\n{}", '"'],  # noqa: E501
    "TG412": ['{"a": 1, "a": 2}', '{"a": {"b": 1, "b": 1}}', '{"a": 1, "\\u0061": 2}', '[{"x": 1, "x": 2}]'],
    "TG413": ['{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}', '{"a": 1e999}', '{"a": -1e400}', '{"a": ' + "9" * 301 + "}", '{"a": ' + "9" * 5000 + "}"],  # noqa: E501
    "TG414": ["[]", "1", "null", '"a"', "true", "[{}]"],
    "TG415": ['{"": 1}', '{"a b": 1}', '{"1a": 1}', '{"a-b": 1}', '{"é": 1}', '{"class": 1}', '{"match": 1}', '{"None": 1}', '{"open": 1}', '{"print": 1}', '{"json": 1}', '{"os": 1}',  # noqa: E501
              '{"socket": 1}', '{"_": 1}', '{"__builtins__": 1}', '{"_x": 1}', '{"a\\n": 1}', '{"ａ": 1}'],
}  # fmt: skip
GOOD_VARS = ["{}", '{"a": 1}', ' {"rows": [1, 2.5, null, true, "x"], "max_rows_2": {"a b": {"": []}}}\n', '{"a": "[[[[{{{{"}', '{"a": "é 日本 \\u00e9"}', '{"a": 1e300, "b": -0.5}', '{"A": "\\"\\\\"}',  # noqa: E501
             '{"a": ' + "[" * 60 + "]" * 60 + "}", '{"path": "/in/a"}', '{"n": 9007199254740991, "m": -9007199254740991}', '{"a": "line\\nline\\ttab"}']  # fmt: skip  # noqa: E501


@pytest.mark.parametrize(
    ("rule", "text"),
    [(rule, text) for rule, texts in VARS.items() for text in texts],
    ids=lambda value: ascii(value)[:40],
)
def test_hostile_inputs_are_refused_by_their_rule(rule: str, text: str) -> None:
    assert {problem.rule for problem in check_vars(text)} == {rule}


@pytest.mark.parametrize("text", GOOD_VARS, ids=lambda value: ascii(value)[:40])
def test_honest_inputs_pass(text: str) -> None:
    assert check_vars(text) == ()


def test_a_key_is_told_where_it_stands_and_not_when_it_is_a_secret() -> None:
    key = "AKIA" + "A1" * 8
    problems = check_vars(f'{{\n  "good": 1,\n  "class": 2,\n  "{key} x": 3\n}}')
    assert [(problem.line, problem.column) for problem in problems] == [(3, 3), (4, 3)]
    assert "class" in problems[0].message
    assert key not in str(problems)


def test_only_so_many_keys_are_told() -> None:
    text = json.dumps({f"a b {number}": 1 for number in range(5000)})
    assert len(check_vars(text)) == limits.FINDINGS_PER_RULE


# ---- the type checker, asked for real


def test_doubts_are_warnings_with_the_place_in_the_code() -> None:
    problems = check_types("import json\nx: int = 'a'\nnope(x)\n")
    assert [(problem.rule, problem.line) for problem in problems] == [("TG409", 2), ("TG409", 3)]
    assert TYPES.id == "TG409" and TYPES.severity == "warning"


def test_inputs_and_open_count_as_anything() -> None:
    assert check_types("rows.nope() + open('/in/a').read() + limit\n", '{"rows": [1], "limit": 2, "no name": 1}') == ()


@pytest.mark.parametrize(
    "trick",
    ["", "int = str\n", "class int: pass\n", "# type: ignore\n", "# ty: ignore\n", ("from __future__ import "
        "annotations\n"), "str.__radd__ = 1\n", "\n\n", "\\\n"],
)  # fmt: skip
def test_nothing_of_the_code_ever_runs(trick: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that would print, if it ran, is fed with tricks that could satisfy the checker's guard."""
    from threegate.request import typecheck

    printed: list[str] = []
    monkeypatch.setattr(typecheck, "discard", lambda stream, text: printed.append(text))
    check_types(trick + "print('ran')\n")
    assert printed == []


def test_a_guard_that_does_not_hold_ends_the_run_before_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from threegate.request import typecheck

    printed: list[str] = []
    monkeypatch.setattr(typecheck, "discard", lambda stream, text: printed.append(text))
    monkeypatch.setattr(typecheck, "GUARD", "open() + 1\n")  # no type error, but an error when run
    (problem,) = check_types("print('ran')\n")
    assert "could not be asked" in problem.message
    monkeypatch.setattr(typecheck, "GUARD", "1\n")
    (problem,) = check_types("1\n")
    assert "RuntimeError" in problem.message
    assert printed == []


def test_a_late_or_missing_checker_is_told_and_stops_nothing(tmp_path: Path) -> None:
    started = time.monotonic()
    (problem,) = check_types("x = y\n" * 2000, seconds=0.001)
    assert "TimeoutError" in problem.message
    assert time.monotonic() >= started
    (problem,) = check_types("x = 1\n", binary=tmp_path / "nothing")
    assert problem.rule == "TG409" and "could not be asked" in problem.message
    (problem,) = check_types("x = 1\n", "not json")
    assert "JSONDecodeError" in problem.message


def test_a_worker_that_has_ended_already_is_no_error() -> None:
    from threegate.request import typecheck

    typecheck._end(2**22 + 1)


def test_secrets_and_hidden_characters_of_the_code_are_not_repeated() -> None:
    key = "AKIA" + "A1" * 8
    problems = check_types(f"print({key})\n")
    assert problems and key not in str(problems)


@pytest.mark.parametrize(
    "code",
    [
        "print(list(map(str, [1])), list(filter(None, [1])), getattr(1, 'a', 2))\n",
        "import os\nprint(list(os.walk('/in')))\n",
        "import re\nprint(re.match('a', 'a').groups())\n",
        "from functools import reduce\nprint(reduce(lambda a, b: a * b, [1, 2]))\n",
        "import json\nprint(json.dumps({1: 2}, skipkeys=True))\n",
        "from __future__ import annotations\nprint(1)\n",
        "seen = set()\nprint([x for x in [1, 1] if not (x in seen or seen.add(x))])\n",
    ],
)
def test_the_checker_s_wrong_doubts_are_not_shown(code: str) -> None:
    """It was wrong about each of these, which run."""
    assert check_types(code) == ()


@pytest.mark.parametrize(
    "code",
    ["print(nothing)\n", "'a' + 1\n", "def f(x): pass\nf()\n", "def f(): pass\nf(1)\n", "def f(): pass\nf(a=1)\n",
     "x = 1\nx()\n", "class A: pass\nA().nothing\n"],
)  # fmt: skip
def test_its_doubts_about_code_that_fails_are_shown(code: str) -> None:
    (problem,) = check_types(code)
    assert problem.rule == "TG409" and "could not be asked" not in problem.message


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_doubts_about_a_request_stand_at_the_lines_of_its_file(newline: str) -> None:
    text = monty().replace("print(1)\n", "x = 1\ny: int = 'a'\n")
    report = read(text.replace("\n", newline))
    assert report.request is not None, report.findings
    (finding,) = type_findings(report.request)
    assert text.split("\n")[finding.line - 1] == "y: int = 'a'"
    assert (finding.rule, finding.severity, finding.help) == ("TG409", "warning", TYPES.help)


def test_a_request_without_code_is_not_asked_about() -> None:
    report = read(era())
    assert report.request is not None
    assert type_findings(report.request) == ()


def test_a_name_that_gets_a_deeply_nested_value_twice_is_read() -> None:
    """Deeper than Python's own stack: only what walks without recursion has an answer."""
    line = f"x = a{'.b' * 2000}()\n"
    assert check_code(line * 2) == check_code(line) == ()


@pytest.mark.parametrize(
    ("second", "found"),
    [("a(1).open()", ["TG417"]), ("a(1, 2).open()", []), ("a(2).open()", []), ("open()", [])],
)
def test_what_a_name_is_shows_where_each_of_its_values_comes_from_the_same_call(second: str, found: list[str]) -> None:
    code = f"f = a(1).open()\nf = {second}\nprint('x' in f)\n"
    assert [problem.rule for problem in check_code(code)] == found


@pytest.mark.parametrize("code", ["\0", "x = '\0'", "x = " + "1" * 5000, "x = '\ud800'"])
def test_what_the_parser_cannot_take_is_no_python(code: str) -> None:
    assert [problem.rule for problem in check_code(code)] == ["TG401"]


def test_a_declared_input_is_no_finding_and_an_undeclared_one_is() -> None:
    code = "open('/in/data.csv')\nopen('/in/tree/a')\nopen('/in//data.csv')\nopen('data.csv')\nopen(name)\nopen('/in/')\nopen()\nprint('/in/x')\nopen(1)\n"  # noqa: E501
    inputs = [InputFile("data.csv", "0" * 64), InputFile("tree.tar", "0" * 64, unpack=True)]
    assert check_code(code, inputs) == ()
    found = check_code(code, inputs[:1])
    assert [(item.rule, item.line) for item in found] == [("TG416", 2)]
    assert [item.line for item in check_code(code, [])] == [1, 2, 3]
    assert check_code(code) == ()
    assert [item.rule for item in check_code(code + "import socket\n", [])] == ["TG416", "TG416", "TG416", "TG403"]
