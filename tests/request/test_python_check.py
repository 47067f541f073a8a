"""The Python of a command is read before anybody signs: what must fail is an error, what may is a warning at most."""

from __future__ import annotations

import io
import sys
from typing import BinaryIO

import pytest

from tests.request.test_tar_reader import pack
from threegate.core import limits
from threegate.request.command.python_line import python_line
from threegate.request.in_folder import InFolder
from threegate.request.model import InputFile
from threegate.request.python_check import ScriptProblem, check_python
from threegate.request.sandbox_contents import Contents, contents_of

OURS = sys.version_info[1]
MODULES = frozenset({"os", "site", "csv", "json", "yaml", "requests", "_private"})
KNOWN = Contents(frozenset({"python3"}), MODULES, f"3.{OURS}", "the sandbox image")


def check(
    files: dict[str, str | bytes],
    *argv: str,
    workdir: str = "/in",
    contents: Contents = KNOWN,
    tree: bytes | None = None,
) -> list[ScriptProblem]:
    """Problems of a command, `python3 /in/a.py` by default; `tree` is unpacked as /in/tree."""
    data = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    inputs = [InputFile(name, "0" * 64) for name in data]
    if tree is not None:
        data["tree.tar"] = tree
        inputs.append(InputFile("tree.tar", "0" * 64, unpack=True))

    def open_known(item: InputFile) -> BinaryIO | None:
        return io.BytesIO(data[item.name]) if item.name in data else None

    line = python_line(argv or ("python3", "/in/a.py"))
    assert line is not None
    return list(check_python(line, workdir, InFolder(inputs, open_known), contents))


def told(found: list[ScriptProblem]) -> list[tuple[str, str, str]]:
    return [(item.kind, item.severity, item.where) for item in found]


ERROR, WARNING = ("module", "error", "/in/a.py:1"), ("module", "warning", "/in/a.py:1")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import numpy", [ERROR]),
        ("import numpy.linalg as n, csv", [ERROR]),
        ("from numpy import array", [ERROR]),
        ("import csv, json, sys, yaml\nfrom os import path", []),
        ("from . import other", [ERROR]),
        ("class A: import numpy", [ERROR]),
        ("if __name__ == '__main__': import numpy", [ERROR]),
        ("if __name__ == '__main__': pass\nelse: import numpy", [("module", "warning", "/in/a.py:2")]),
        ("if TYPE_CHECKING: import numpy", []),
        ("if typing.TYPE_CHECKING: pass\nelse: import numpy", [("module", "error", "/in/a.py:2")]),
        ("if os.name == 'nt': import winreg", [WARNING]),
        ("def f(): import numpy", [WARNING]),
        ("async def f(): import numpy", [WARNING]),
        ("for x in y: import numpy", [WARNING]),
        ("while x: import numpy", [WARNING]),
        ("match x:\n    case 1: import numpy", [("module", "warning", "/in/a.py:2")]),
        ("with suppress(ImportError): import numpy", [WARNING]),
        ("try: import numpy\nexcept ImportError: numpy = None", []),
        ("try: import numpy\nexcept (ValueError, ModuleNotFoundError): numpy = None", []),
        ("try: import numpy\nexcept: numpy = None", []),
        ("try: import numpy\nexcept ValueError: pass", [ERROR]),
        ("try: import numpy\nexcept ImportError: raise", [ERROR]),
        ("try: import numpy\nexcept ImportError: sys.exit('install it')", [ERROR]),
        ("try: import numpy\nexcept ImportError: exit(1)", [ERROR]),
        ("try: import numpy\nexcept ImportError: print('none')", []),
        ("try: import numpy\nexcept ImportError: x()()", []),
        ("try: pass\nexcept ImportError: import numpy", [("module", "warning", "/in/a.py:2")]),
        ("try: pass\nfinally: import numpy", [("module", "error", "/in/a.py:2")]),
        ("try: pass\nexcept ImportError: pass\nelse: import numpy", [("module", "warning", "/in/a.py:3")]),
        ("import sys; sys.path.insert(0, '/in/lib'); import numpy", [WARNING]),
        ("import site; site.addsitedir('/in/lib'); import numpy", [WARNING]),
        ("from .b import c\nx.path = 1", [ERROR]),
        ("def f():\n    from . import other", []),
    ],
)
def test_imports_of_modules_that_are_not_there(code: str, expected: list[tuple[str, str, str]]) -> None:
    assert told(check({"a.py": code})) == expected


def test_the_message_says_what_there_is() -> None:
    (found,) = check({"a.py": "import requets"})
    assert found.message == (
        f"the sandbox image has no Python module requets (did you mean requests?); it has the standard library of "
        f"Python 3.{OURS} and requests, yaml; or send the module as an input"
    )
    many = contents_of([], [f"mod{number}" for number in range(99)], "", "the root")
    (found,) = check({"a.py": "import numpy"}, contents=many)
    assert found.message.startswith("the root has no Python module numpy; it has the standard library of Python and ")
    assert found.message.count("mod") == limits.MODULES_SHOWN + 2 and " …; or send" in found.message
    (found,) = check({"a.py": "import numpy"}, contents=contents_of([], ["os"], "", "the root"))
    assert "the standard library of Python; or send" in found.message


def test_where_nothing_is_known_nothing_is_refused() -> None:
    for contents in (Contents(), Contents(programs=frozenset({"python3"}), python="3.11")):
        assert check({"a.py": "import numpy"}, contents=contents) == []
    assert check({"a.py": "import numpy"}, f"python3.{OURS - 1}", "/in/a.py") == [], "the list is of another Python"
    assert told(check({"a.py": "import numpy"}, f"python3.{OURS}", "/in/a.py")) == [ERROR]


def test_modules_among_the_inputs_are_there_and_are_read_too() -> None:
    assert check({"a.py": "import b, c, d, e", "b.py": "", "c.abi3.so": "", "d.cpython-311.so": "", "e.pyc": ""}) == []
    found = check({"a.py": "import b\ndef f(): import c", "b.py": "\nimport numpy", "c.py": "import scipy"})
    assert told(found) == [("module", "error", "/in/b.py:2")], "c.py may never be loaded"
    assert told(check({"a.py": "import a\nimport b", "b.py": "(", "b.so": ""})) == [("syntax", "error", "/in/b.py:1")]
    assert told(check({"a.py": "import b", "b.py": ""}, "python3", "-I", "/in/a.py")) == [ERROR]


def test_what_is_in_an_unpacked_archive_counts() -> None:
    tree = pack(
        ("main.py", b"import pkg.sub\nfrom pkg import other\nfrom . import x\n"),
        ("pkg/__init__.py", b""),
        ("pkg/sub.py", b"from . import other\nimport numpy\n"),
        ("pkg/other.py", b"import scipy\n"),
        ("app/__main__.py", b"import numpy\n"),
        ("app/tool.py", b"from . import x\nimport json\n"),
        ("bare/x.py", b""),
    )
    numpy, scipy = ("module", "error", "/in/tree/pkg/sub.py:2"), ("module", "error", "/in/tree/pkg/other.py:1")
    main = ("module", "error", "/in/tree/main.py:3")
    assert told(check({}, "python3", "main.py", workdir="/in/tree", tree=tree)) == [main, numpy, scipy]
    assert told(check({}, "python3", "/in/tree/app", tree=tree)) == [("module", "error", "/in/tree/app/__main__.py:1")]
    assert check({}, "python3", "-m", "app.tool", workdir="/in/tree", tree=tree) == []
    assert check({}, "python3", "-m", "tree.app", tree=tree) == check({}, "python3", "/in/tree/app", tree=tree)
    assert told(check({"a.py": "import tree.pkg.other"}, tree=tree)) == [scipy]
    for words in (("/in/tree/bare",), ("-m", "tree.bare"), ("-m", "tree.none")):
        (found,) = check({}, "python3", *words, tree=tree)
        assert found.severity == "error" and "has no __main__.py" in found.message and found.where == "the command"
    # Nothing is known of what is in an archive that is not at hand.
    assert check({}, "python3", "/in/tree/main.py", tree=b"") == []
    assert check({"a.py": "import tree.x, json"}, tree=b"") == check({}, "python3", "-m", "tree.x", tree=b"") == []


def test_modules_and_code_on_the_command_line() -> None:
    assert check({}, "python3", "-m", "json.tool", "/in/x") == []
    (found,) = check({}, "python3", "-m", "pytest", "-q")
    assert (found.severity, found.where) == ("error", "the command") and "no Python module pytest" in found.message
    assert check({"mine.py": "import csv"}, "python3", "-m", "mine") == []
    assert told(check({"mine.py": "import numpy"}, "python3", "-m", "mine")) == [("module", "error", "/in/mine.py:1")]
    assert told(check({"mine.py": ""}, "python3", "-m", "mine", workdir="/out"))[0][1] == "error"
    assert told(check({"b.py": ""}, "python3", "-c", "import b\nimport numpy")) == [
        ("module", "error", "the code of -c, line 2")
    ]
    assert told(check({}, "python3", "-c", "print(")) == [("syntax", "error", "the code of -c, line 1")]
    assert check({}, "python3", "-c", "from . import x", workdir="/out")[0].kind == "module"
    (found,) = check({}, "python3")
    assert found.severity == "warning" and "standard input" in found.message


def test_a_script_elsewhere_or_of_unknown_bytes_is_not_read() -> None:
    assert check({}, "python3", "/usr/share/a.py") == check({}, "python3", "a.py", workdir="/out") == []
    assert check({}, "python3", "/in/a.py") == []
    assert told(check({"a.py": "import numpy"}, "python3", ".//a.py")) == [ERROR]
    assert check({"a.pyz": b"print(1)\nPK\x03\x04\0\xffPK\x05\x06\0"}, "python3", "/in/a.pyz") == []
    assert check({"a.pyc": b"\0\xff"}, "python3", "/in/a.pyc") == []


def test_syntax_errors_have_the_line() -> None:
    (found,) = check({"a.py": "x = 1\nprint 'a'\n"})
    assert (found.kind, found.severity, found.where) == ("syntax", "error", "/in/a.py:2")
    assert found.message.startswith(f"not Python 3.{OURS}: ") and found.message.endswith("; fix the code")
    assert "'a'" not in found.message


def test_the_version_of_the_sandbox_decides() -> None:
    older = Contents(python="3.7.3", where="the root")
    assert told(check({"a.py": "def f(a, /): pass\n"}, contents=older)) == [("syntax", "error", "/in/a.py:1")]
    assert check({"a.py": "def f(a, /): pass\n"}) == []
    (found,) = check({"a.py": "a = = 1\n"}, contents=Contents(python="3.99"))
    assert found.severity == "warning" and "has Python 3.99" in found.message, "it may be valid there"
    (found,) = check({"a.py": "a = = 1\n"}, contents=Contents())
    assert found.severity == "warning" and "is not known" in found.message
    (found,) = check({"a.py": "x = 1\nf'{d['a']}'\n"}, contents=Contents(python="3.11.2"))
    assert (found.severity, found.where) == ("error", "/in/a.py:2") and "needs Python 3.12" in found.message
    # No grammar is that old, and an error in ours is one there.
    assert told(check({"a.py": "def f(a, /): pass"}, contents=Contents(python="3.4"))) == []
    assert check({"a.py": "def f(a, /): pass"}, "python3.7", "/in/a.py")[0].severity == "error"


@pytest.mark.parametrize(
    ("data", "where", "severity", "words"),
    [
        (b"x = 1\nx = '\0'\n", "/in/a.py:2", "error", "a NUL byte"),
        (b"x = 1\nx = '\xe9'\n", "/in/a.py:2", "error", "not UTF-8"),
        (b"#!/usr/bin/python3\n# -*- coding: latin-1 -*-\nx = '\xe9'\n", "/in/a.py:1", "warning", "another encoding"),
        (b"# coding: " + b"punycode" * 9999 + b"\nx = 1\n", "/in/a.py:1", "warning", "another encoding"),
        (b"# coding: \xff\xfe\nx\n", "/in/a.py:1", "error", "not UTF-8"),
        (b"(" * 50_000, "/in/a.py:1", "warning", "nested too deeply"),
        (b"-" * 100_000 + b"1", "/in/a.py", "warning", "nested too deeply"),
        (b"a" + b".a" * 50_000, "/in/a.py", "warning", "nested too deeply"),
        (b"x = [" + b"1," * 200_000 + b"]\n", "/in/a.py", "warning", "not checked: of all scripts"),
        (b"#" * 1_000_000, "/in/a.py", "warning", "not checked: of all scripts"),
        (b"x" * 99 + b"\xc3\x28", "/in/a.py:1", "error", "not UTF-8"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_any_bytes_get_an_answer(data: bytes, where: str, severity: str, words: str) -> None:
    (found,) = check({"a.py": data})
    assert (found.kind, found.severity, found.where) == ("syntax", severity, where) and words in found.message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xef\xbb\xbfimport csv\n",
        b"# coding: utf-8\nimport csv\r\nimport json\r\n",
        b"# vim: set fileencoding=UTF_8 :\nx = '\xc3\xa9'\n",
        b"x = 1\n" * 3 + b"# coding: latin-1\n",
        b"if x: pass\n" + b"elif x: pass\n" * 500,
    ],
    ids=lambda value: repr(value)[:20],
)
def test_usual_bytes_are_fine(data: bytes) -> None:
    assert check({"a.py": data}) == []


def test_so_many_files_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SCRIPTS_CHECKED", 3)
    files: dict[str, str | bytes] = {f"m{number}.py": f"import m{number + 1}, numpy" for number in range(9)}
    found = check({**files, "a.py": "import m0"})
    assert [item.where for item in found] == ["/in/m0.py:1", "/in/m1.py:1"]
    monkeypatch.setattr(limits, "SCRIPT_CHECKED_BYTES", 30)
    found = check({"a.py": "import b", "b.py": "#" * 40})
    assert told(found) == [("syntax", "warning", "/in/b.py")]
