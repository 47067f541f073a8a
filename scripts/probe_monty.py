"""Ask the installed Monty what it has of Python, and write threegate/request/monty_lacks.py.

Each answer comes from a line that is run in Monty, so a new version is measured and not assumed;
tests/request/test_monty_lacks.py compares the file with the installed version. Python's own names are those of 3.11,
with which this is run.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pydantic_monty

ROOT = Path(__file__).resolve().parents[1]
WRITTEN = ROOT / "threegate" / "request" / "monty_lacks.py"
SETUP = """
import collections, csv, datetime, decimal, functools, hashlib, itertools, json, os, pathlib, random, re, sys, time
Named = collections.namedtuple('Named', 'x y')
def plain(a): return a
class Own:
    def __init__(self): self.q = 1
def caught(run):
    try:
        run()
    except Exception as error:
        return error
"""
SAMPLES = {
    **{kind: kind for kind in ("'a'", "b'a'", "1", "1.5", "True", "1j", "[1]", "(1,)", "{'a': 1}", "{1}", "range(3)")},
    **{kind: kind for kind in ("frozenset([1])", "slice(1)", "{'a': 1}.keys()", "{'a': 1}.items()", "enumerate([1])")},
    "date": "datetime.date(2026, 1, 1)",
    "datetime": "datetime.datetime(2026, 1, 1)",
    "time": "datetime.time(1)",
    "timedelta": "datetime.timedelta(1)",
    "timezone": "datetime.timezone.utc",
    "Path": "pathlib.Path('/in/a.csv')",
    "Counter": "collections.Counter('aab')",
    "defaultdict": "collections.defaultdict(int)",
    "deque": "collections.deque([1])",
    "namedtuple": "Named(1, 2)",
    "Decimal": "decimal.Decimal('1.5')",
    "context": "decimal.getcontext()",
    "Pattern": "re.compile('a')",
    "Match": "re.match('(?P<n>a)', 'a')",
    "text file": "open('/in/a.csv')",
    "written file": "open('/out/w', 'w')",
    "bytes file": "open('/in/a.csv', 'rb')",
    "reader": "csv.reader(['a'])",
    "DictReader": "csv.DictReader(['a', 'b'])",
    "writer": "csv.writer(open('/out/w', 'w'))",
    "DictWriter": "csv.DictWriter(open('/out/w', 'w'), ['a'])",
    "hash": "hashlib.sha256()",
    "ValueError": "caught(lambda: int('x'))",
    "KeyError": "caught(lambda: {}['x'])",
    "OSError": "caught(lambda: open('/in/nothing'))",
    "JSONDecodeError": "caught(lambda: json.loads('{'))",
    "UnicodeDecodeError": "caught(lambda: b'\\xff'.decode())",
    "StopIteration": "caught(lambda: next(iter([])))",
    "function": "plain",
    "cached": "functools.lru_cache(plain)",
    "partial": "functools.partial(int)",
    "Random": "random.Random(1)",
    "stat": "os.stat('/in/a.csv')",
    "struct_time": "time.gmtime(0)",
    "DirEntry": "list(os.scandir('/in'))[0]",
    "version_info": "sys.version_info",
}
"""One value of each type that a program in Monty gets into its hands."""
TYPES = (
    *(f"builtins.{name}" for name in "str bytes int float bool list tuple dict set frozenset complex".split()),
    *(f"datetime.{name}" for name in "date datetime time timedelta timezone".split()),
    *("pathlib.Path", "decimal.Decimal", "itertools.chain", "random.Random"),
    *(f"collections.{name}" for name in "Counter defaultdict deque".split()),
)
"""Types whose own attributes a program may ask for."""
_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "lshift": "<<",
    "rshift": ">>",
    "pow": "**",
}
_ORDER = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_BITS = {"and": "&", "or": "|", "xor": "^"}


def dunder_programs() -> Mapping[str, str]:
    """For each special method, a program whose value is True where it is honoured."""
    told: dict[str, tuple[str, str]] = {
        "repr": ("return 'R'", "repr(A()) == 'R'"),
        "str": ("return 'R'", "str(A()) == 'R'"),
        "format": ("return 'R'", "f'{A()}' == 'R'"),
        "bytes": ("return b'R'", "bytes(A()) == b'R'"),
        "bool": ("return False", "not A()"),
        "len": ("return 7", "len(A()) == 7"),
        "eq": ("return True", "A() == A()"),
        "ne": ("return False", "not (A() != A())"),
        "hash": ("return 7", "hash(A()) == 7"),
        "call": ("return 7", "A()() == 7"),
        "iter": ("return iter([7])", "list(A()) == [7]"),
        "next": ("return 7", "next(A()) == 7"),
        "getitem": ("return 7", "A()[0] == 7"),
        "setitem": ("a[0].q = 7", "a = A()\na[a] = 1\na.q == 7"),
        "delitem": ("pass", "a = A()\ndel a[0]\nTrue"),
        "contains": ("return True", "3 in A()"),
        "reversed": ("return iter([7])", "list(reversed(A())) == [7]"),
        "getattr": ("return 7", "A().zz == 7"),
        "getattribute": ("return 7", "A().zz == 7"),
        "setattr": ("pass", "a = A()\na.q = 5\nnot hasattr(a, 'q')"),
        "delattr": ("pass", "a = A()\ndel a.q\nTrue"),
        "complex": ("return 1j", "complex(A()) == 1j"),
        "int": ("return 7", "int(A()) == 7"),
        "float": ("return 7.0", "float(A()) == 7"),
        "index": ("return 1", "[0, 7][A()] == 7"),
        "round": ("return 7", "round(A()) == 7"),
        "abs": ("return 7", "abs(A()) == 7"),
        "neg": ("return 7", "-A() == 7"),
        "pos": ("return 7", "+A() == 7"),
        "invert": ("return 7", "~A() == 7"),
        "trunc": ("return 7", "import math\nmath.trunc(A()) == 7"),
        "floor": ("return 7", "import math\nmath.floor(A()) == 7"),
        "ceil": ("return 7", "import math\nmath.ceil(A()) == 7"),
        "new": ("return 7", "A() == 7"),
        "class_getitem": ("return 7", "A[0] == 7"),
        "fspath": ("return '/in'", "import os\nos.fspath(A()) == '/in'"),
        "copy": ("return 7", "import copy\ncopy.copy(A()) == 7"),
        "deepcopy": ("return 7", "import copy\ncopy.deepcopy(A()) == 7"),
        "divmod": ("return 7", "divmod(A(), 1) == 7"),
        "rdivmod": ("return 7", "divmod(1, A()) == 7"),
        "matmul": ("return 7", "A() @ 1 == 7"),
        "rmatmul": ("return 7", "1 @ A() == 7"),
        **{name: ("return True", f"A() {mark} A()") for name, mark in _ORDER.items()},
    }
    for name, mark in (_BINARY | _BITS).items():
        told |= {name: ("return 7", f"(A() {mark} 1) == 7"), f"r{name}": ("return 7", f"(1 {mark} A()) == 7")}
        told[f"i{name}"] = ("return 7", f"a = A()\na {mark}= 1\na == 7")
    return {
        f"__{name}__": f"class A:\n    def __{name}__(s, *a):\n        {body}\n{asked}"
        for name, (body, asked) in told.items()
    }


class Asked:
    """A Monty with the folders of a request."""

    def __init__(self, pool: pydantic_monty.Monty, folder: Path) -> None:
        self._pool = pool
        self._in, self._out = folder / "in", folder / "out"
        for place in (self._in, self._out):
            place.mkdir()
        (self._in / "a.csv").write_text("a,b\n1,2\n")

    def run(self, code: str) -> Any:
        """The value of the last line, or the exception."""
        mounts = [
            pydantic_monty.MountDir(host_path=self._in, virtual_path="/in", mode="read-only"),
            pydantic_monty.MountDir(host_path=self._out, virtual_path="/out", mode="read-write"),
        ]
        with self._pool.checkout(os_policy={"sleep": "zero"}, limits={"max_feed_duration_secs": 5.0}) as session:
            try:
                return session.feed_run(code, mount=mounts, print_callback=lambda stream, text: None)
            except pydantic_monty.MontyError as error:
                return error.exception()

    def lacks(self, expression: str) -> bool:
        """Whether an attribute is not there; what else may be wrong with the expression does not count."""
        answer = self.run(f"{SETUP}\nv = {expression}\n0")
        return isinstance(answer, AttributeError) and "has no attribute" in str(answer)


def attributes_of(sample: str, namespace: Mapping[str, Any]) -> list[str]:
    """The public attributes that a value has in Python."""
    value = eval(
        sample.replace("/in/", f"{namespace['here']}/in/").replace("/out/", f"{namespace['here']}/out/"),
        dict(namespace),
    )
    own = ("_asdict", "_fields", "_make", "_replace")
    return [name for name in dir(value) if not name.startswith("_") or name in own]


def measured() -> dict[str, Any]:
    """All tables, by name."""
    with (
        tempfile.TemporaryDirectory() as name,
        pydantic_monty.Monty(min_processes=1, max_processes=1, request_timeout=30) as pool,
    ):
        folder = Path(name)
        asked = Asked(pool, folder)
        namespace: dict[str, Any] = {"here": folder, **vars(builtins)}
        exec(SETUP, namespace)
        methods, data, every = set(), set(), set()
        for sample in SAMPLES.values():
            for attribute in attributes_of(sample.replace("'/in'", f"'{folder}/in'"), namespace):
                every.add(attribute)
                if not asked.lacks(f"({sample}).{attribute}"):
                    data.add(attribute)
                elif not asked.lacks(f"({sample}).{attribute}()"):
                    methods.add(attribute)
        types = {}
        for kind in TYPES:
            module, _, short = kind.partition(".")
            own = getattr(importlib.import_module(module), short)
            spelled = short if module == "builtins" else kind
            names = [name for name in dir(own) if not name.startswith("_")]
            read = [name for name in names if not asked.lacks(f"{spelled}.{name}")]
            called = [name for name in names if name not in read and not asked.lacks(f"{spelled}.{name}()")]
            types[kind] = (called, read)
        missing = [
            name
            for name in dir(builtins)
            if not name.startswith("_") and name not in ("copyright", "credits", "license")
            if isinstance(asked.run(f"{name}\n0"), NameError)
        ]
        ignored = [name for name, program in dunder_programs().items() if asked.run(program) is not True]
        return {
            "MISSING_BUILTINS": sorted({*missing, "__import__", "__builtins__"}),
            "METHODS": sorted(methods - data),
            "NOWHERE": sorted(every.difference(methods, data, *(names for kind in types.values() for names in kind))),
            "IGNORED_DUNDERS": sorted(ignored),
            "TYPES": types,
        }


DOCS = {
    "MISSING_BUILTINS": "Builtins of Python that Monty does not have.",
    "METHODS": "Methods of Monty's values: they can be called, and are not values themselves.",
    "NOWHERE": "Attributes of Python's values that no value in Monty has.",
    "IGNORED_DUNDERS": "Special methods of a class that Monty never calls.",
}


def _wrapped(names: Iterable[str], indent: str) -> str:
    return textwrap.fill(" ".join(names), 112, initial_indent=indent, subsequent_indent=indent)


def module_text(tables: Mapping[str, Any]) -> str:
    """The module with these tables."""
    from importlib.metadata import version

    parts = [
        f'"""What Monty {version("pydantic-monty")} lacks of Python 3.11. Written by scripts/probe_monty.py.\n\n'
        "Monty was asked for each name. Code is checked before it is approved, so it cannot be run to find out.\n"
        '"""\n\nfrom __future__ import annotations\n\nfrom collections.abc import Mapping\nfrom typing import Final\n\n'
        "from threegate.request.command.programs import names\n\n"
    ]
    for name, doc in DOCS.items():
        parts.append(f'{name}: Final = names(\n    """\n{_wrapped(tables[name], "    ")}\n    """\n)\n"""{doc}"""\n')
    parts.append("TYPE_ATTRIBUTES: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {\n")
    for kind, (called, read) in tables["TYPES"].items():
        parts.append(f'    "{kind}": (names("{" ".join(called)}"), names("{" ".join(read)}")),\n')
    parts.append('}\n"""Of each type: what can be called on it, and what can be read."""\n')
    return "".join(parts)


if __name__ == "__main__":
    if sys.version_info[:2] != (3, 11):
        sys.exit("run this with Python 3.11, whose names the file has")
    WRITTEN.write_text(module_text(measured()), "utf-8")
