"""Later Pythons' syntax, read for the rules of gate 1: nothing in it is lost, and what is not understood is refused."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threegate.core import limits
from threegate.request.code import check_code
from threegate.request.newer_syntax import in_older_syntax, newer_f_string

READ = {
    'f"{d["a"]}"': '(d["a"],)',
    "print(f'{d['a']}')": "print((d['a'],))",
    'f"{x!r:>{w}}{y=}{z = !s}"': "(x, w, y, z)",
    'f"{{a}} {x:%H:%M} {d["k"]["z"]:,.2f}"': '(x, d["k"]["z"],)',
    "def f[T](x: T) -> T:\n    return f'''a\n{x['b']}\n'''": "def f(x: T) -> T:\n    return (x['b'],)",
    "class A[T, *B, **P]: pass": "class A: pass",
    'f"\\N{BULLET}{x["a"]}\\"{y}"': '(x["a"], y)',
    'rf"\\N{x["a"]}\\d"': '(x["a"],)',
    'f"\\{x["a"]}"': '(x["a"],)',
    'f"{f"{f"{1}"}"}"': "(((1,),),)",
    'f"{a != b}{a == b}{a["x"] <= b}"': '(a != b, a == b, a["x"] <= b)',
    'f"{", ".join(x)}"': '(", ".join(x),)',
    "f'{x # '}\n}'": "(x,)",
    "f'{x}'": "(x,)",
    'f"{(lambda x: x["a"])(1)}"': '((lambda x: x["a"])(1),)',
    'f"{ {"a": 1}["a"] }"': '({"a": 1}["a"],)',
    'x = "def f[T]" + f"{d["a"]}"  # f"{"': 'x = "def f[T]" + (d["a"],)',
    'f"{a[1:2]["x"]}"': '(a[1:2]["x"],)',
    'f"{x:{y:{z["a"]}}}"': '(x, y, z["a"])',
    'f"""{\'\'\'a\'\'\'}{"b"}"""': "('a', 'b')",
    'f""': "()",
    'f"{a}" "b"': "(a,)()",
    '"a" f"{x["b"]}" \'c\' f"{d}"': "()(x['b'],)()(d,)",
    'print("a" # no\n \\\n "b" f"{x["b"]}")': "print(()()(x['b'],))",
    'f"{"a" f"{b}"}" "c"': "(()(b,),)()",
}


@pytest.mark.parametrize(("code", "meant"), READ.items(), ids=ascii)
def test_the_expressions_of_fields_stay_where_they_are(code: str, meant: str) -> None:
    older = in_older_syntax(code)
    assert older is not None and len(older) == len(code) and older.count("\n") == code.count("\n")
    assert ast.unparse(ast.parse(older)) == ast.unparse(ast.parse(meant))
    for line, column, name in (
        (node.lineno, node.col_offset, node.id) for node in ast.walk(ast.parse(older)) if isinstance(node, ast.Name)
    ):
        assert code.split("\n")[line - 1][column:].startswith(name)


@pytest.mark.parametrize(
    "code",
    ["x = 1\n",
     "'a' + \"b\"\n", "a[1]\n", "f'", 'f"{x["a"]', 'f"{x', 'f"{x:', 'f"{x)}"', 'f"{(x]}"', "'a\n'", "f'{'a}'",
     "f\"{x:{y", "f'\\", "f'{#", "def f[T: print(1)](): pass", "f'" + "{f'" * 30, "f'" + "{x:" * 30],
    ids=ascii,
)  # fmt: skip
def test_nothing_newer_or_nothing_that_is_understood(code: str) -> None:
    assert in_older_syntax(code) is None


def test_f_strings_that_only_python_3_12_reads() -> None:
    """Held against the parser of 3.11 (`ast` of a later Python reads them whatever the version it is asked for)."""
    more = ["f'{x}' # '", "f'{x:{y}}'", "f'{x:\\n}'", "f'{\"#\"}'", 'f"""{\n"a"\n}"""', "f'{\"\\\\\"}'", "f'{(\n1)}'"]
    codes = [code for code in (*READ, *more) if "[T" not in code]
    found = {code for code in codes if newer_f_string(code) is not None}
    assert {'f"{d["a"]}"', 'f"{f"{f"{1}"}"}"', "f'{x # '}\n}'", "f'{(\n1)}'"} < found and "f'{x:{y}}'" not in found
    if sys.version_info < (3, 12):
        assert found == {code for code in codes if not _reads(code)}
    assert newer_f_string("x = 1\n\nf'{d['a']}'\n") == 3 and newer_f_string("f'{") is None


def _reads(code: str) -> bool:
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def test_what_both_read_has_the_same_parts() -> None:
    """On every idiom of the tests that this Python reads as it is: the names, calls and attributes are the same."""
    kinds = (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.Lambda, ast.comprehension, ast.NamedExpr)
    data = Path(__file__).resolve().parents[1] / "data"
    compared = 0
    for file in ("python_idioms.jsonl", "hurried_idioms.jsonl"):
        for line in (data / file).read_text("utf-8").splitlines():
            code = json.loads(line)["code"]
            older = in_older_syntax(code)
            try:
                parts = {ast.dump(node) for node in ast.walk(ast.parse(code)) if isinstance(node, kinds)}
            except SyntaxError:
                continue
            if older is not None and "[T]" not in code:
                rewritten = ast.walk(ast.parse(older))
                found = {ast.dump(node) for node in rewritten if isinstance(node, kinds)}
                assert {kind for kind in parts if "JoinedStr" not in kind} <= found, code
                compared += 1
    assert compared > 15


def test_the_rules_see_what_is_in_a_field() -> None:
    found = check_code("import sys\nd = {'a': 1}\nx = f'{d['a']} {sys.exit(d['a'])}'\n")
    assert [(problem.rule, problem.line, problem.column) for problem in found] == [("TG417", 3, 17)]
    assert [problem.rule for problem in check_code("def f[T](x: T):\n    yield x\n")] == ["TG407"]
    assert check_code("print(f(f'{{'a': 1}['a']}'))\n")[0].rule == "TG401"
    assert check_code("def f[T](x: T) -> T:\n    return x\nprint(f(f'{ {'a': 1}['a']}'), f'''{'b'}''')\n") == ()


def test_what_neither_reads_is_refused_in_the_words_for_the_text_as_it_is() -> None:
    (problem,) = check_code("x = f'{d['a']}'\ny = = 1\n")
    assert problem.rule == "TG401"
    (problem,) = check_code("def f[T: print(1)](x: T): pass\n")
    assert problem.rule == "TG401"


@pytest.mark.parametrize(
    "piece", ["f'{a['b']}'\n", "f'{", "def f[T]", "f'''{'''", "f\"{f'{", "f'{a!r:{", "class A[", "\\N{"]
)
def test_any_amount_of_it_is_read_in_linear_time(piece: str) -> None:
    """Quadratic work would run into the suite's timeout."""
    in_older_syntax(piece * (limits.REQUEST_BYTES // len(piece)))


_TOKENS = st.sampled_from(
    ["f'", 'f"', "rf'''", "'", '"', "'''", "{", "}", "{{", "}}", ":", "!r", "=", "x", "#", "\n", "\\", "\\N{", "(", "]", "def f[", "]", " "]  # noqa: E501
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(_TOKENS, max_size=25).map("".join))
def test_any_mixture_keeps_its_length_and_lines(text: str) -> None:
    older = in_older_syntax(text)
    assert older is None or (len(older) == len(text) and older.count("\n") == text.count("\n"))
