"""What code does that Monty cannot do and that only shows when it runs, or that it answers differently from Python.

Monty reads such code without a word, so its own parser cannot tell; the tables were measured in Monty itself
(`monty_lacks`, `code_modules`). Types are known only where a line shows them: a literal, a call of a known function, a
name that is bound once. What is not known is not refused, because a refusal must be right.

A finding of TG417 says what fails, TG418 what gives another answer; both name the line and what to write instead.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from threegate.request.code_modules import MONTY_NAMES
from threegate.request.command.programs import names
from threegate.request.monty_lacks import IGNORED_DUNDERS, METHODS, MISSING_BUILTINS, NOWHERE, TYPE_ATTRIBUTES
from threegate.request.problem import Problem

_ERA: Final = "write it another way, or use ERA: change backend"
_BUILTINS: Final = frozenset(dir(builtins))
_NEVER_CALLED: Final = IGNORED_DUNDERS | names("__del__ __get__ __set__ __init_subclass__ __set_name__")
_REFUSED_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "json.dumps": names("check_circular cls default"),
    "json.dump": names("check_circular cls default"),
    "json.loads": names("cls object_hook object_pairs_hook parse_constant strict"),
    "json.load": names("cls object_hook object_pairs_hook parse_constant parse_float parse_int strict"),
    "builtins.open": names("buffering closefd errors opener"),
    "builtins.pow": names("base exp mod"),
    "dataclasses.dataclass": names("kw_only order slots unsafe_hash weakref_slot"),
    "dataclasses.field": names("compare hash init kw_only metadata repr"),
    "asyncio.gather": names("return_exceptions"),
    ".read_text": names("encoding errors newline"),
    ".write_text": names("encoding errors newline"),
    ".open": names("buffering errors"),
    ".groups": names("default"),
    ".groupdict": names("default"),
}
"""Options that a function or a method, here with a dot, refuses when it runs."""
_HINTS: Final[Mapping[str, str]] = {
    "sys.exit": "let the code end",
    "builtins.exit": "let the code end",
    "builtins.quit": "let the code end",
    "builtins.IOError": "write OSError",
    "builtins.EnvironmentError": "write OSError",
    "builtins.UnicodeError": "write UnicodeDecodeError",
    "builtins.input": "put the value into Inputs (JSON)",
    "datetime.UTC": "write timezone.utc",
    "datetime.datetime.utcnow": "write datetime.now(timezone.utc)",
    "datetime.datetime.today": "write datetime.now()",
    "sys.stdin": "put the value into Inputs (JSON)",
    "os.environ": "put the value into Inputs (JSON)",
    "os.getenv": "put the value into Inputs (JSON)",
    ".writelines": "write write(''.join(lines))",
    ".subn": "write sub",
    ".touch": "write write_text('')",
    ".difference_update": "write s -= other",
    ".intersection_update": "write s &= other",
    ".symmetric_difference_update": "write s ^= other",
}
"""What to write instead of what is not there."""
_NOT_SERVED: Final = names("os.environ os.getenv")
"""Names that Monty has and that its host does not serve."""
_OTHER_VALUES: Final = {"sys.argv": "['main.py']: there are no arguments", "sys.platform": "monty"}
_CLASSES_NOT_MADE: Final = names("builtins.object builtins.property")
_EAGER: Final = names("builtins.enumerate builtins.filter builtins.map builtins.reversed builtins.zip")
_ENDLESS: Final = names("itertools.count itertools.cycle itertools.repeat")
_NEVER_ENDS: Final = "Monty makes a list of this at once, which never ends; count in a while loop"
_WHOLE_FILE: Final = "Monty goes through an open file in for and next() only; call .read().splitlines()"
_SHOWS_ORDER: Final = names("builtins.list builtins.print builtins.str builtins.tuple")
_READS_FILES: Final = names(
    "builtins.next csv.reader csv.DictReader csv.writer csv.DictWriter json.load json.dump tomllib.load builtins.iter"
)
_PATTERN_FUNCTIONS: Final = names("re.compile re.findall re.finditer re.fullmatch re.match re.search re.split re.sub")
_PATTERN_METHODS: Final = names("findall finditer fullmatch match search")
_GROUP: Final = re.compile(r"(?<!\\)(?:\\\\)*\\[0-9]{1,2}[A-Za-z_]")
_ESCAPE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\[abfnrtv]")
_DOLLAR: Final = re.compile(r"(?<!\\)(?:\\\\)*\$(?:\)*)\Z|(?<!\\)(?:\\\\)*\$\|")
_DIRECTIVE: Final = re.compile(r"%[-_0^#]?(.)")
_FRACTION: Final = re.compile(r"(?<![.%])%f")
_DAYS: Final = (("cxDF",), ("GYy", "Bbhm", "de"), ("GYy", "j"), ("GYy", "UVW", "Aauw"))
"""Letters of strptime, one of each of a row, that say which day it is."""
_PATHS: Final = names("glob iterdir rglob")
_ORDERS: Final = names("builtins.max builtins.min builtins.sorted")
_DOTS: Final = 3
"""In the longest name of the tables."""
_FILE_TYPE: Final = "file"
_STREAM: Final = "stream"
_EAGER_TYPE: Final = "list made at once"
_LITERALS: Final[Mapping[type[ast.AST], str]] = {
    ast.List: "list",
    ast.ListComp: "list",
    ast.Set: "set",
    ast.SetComp: "set",
    ast.GeneratorExp: _EAGER_TYPE,
}


def idiom_problems(tree: ast.Module) -> Iterator[Problem]:
    """Problems of code that is already read. Linear in its size."""
    yield from _Code(tree).problems()


class _Code:
    """What the lines of the code show about its names."""

    def __init__(self, tree: ast.Module) -> None:
        self.nodes = list(ast.walk(tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self.bound: Counter[str] = Counter()
        self.imported: dict[str, str] = {}
        self.values: dict[str, ast.expr] = {}
        self.read: Counter[str] = Counter()
        self.own: set[str] = set()
        """Names of attributes that the code itself gives to something."""
        self.functions: set[str] = set()
        self.classes: set[str] = set()
        self.caught: dict[str, ast.ExceptHandler] = {}
        self.rewound: set[str] = set()
        """Files that are read from the start again, after which all of Python's ways work."""
        self.asserting: set[ast.AST] = set()
        """What has an assert with a message in it."""
        self.expected: set[ast.AST] = set()
        """Statements whose AttributeError or NameError the code catches by name."""
        for node in self.nodes:
            self._note(node)
        self._origins: dict[ast.AST, str | None] = {}
        for node in reversed(self.nodes):  # parts before what they are part of, so that nothing is looked for twice
            if isinstance(node, ast.Name | ast.Attribute):
                self._origins[node] = self._find_origin(node)

    # ---- what is bound to what

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self.read[node.id] += 1
            else:
                self.bound[node.id] += 1
        elif isinstance(node, ast.arg):
            self.bound[node.arg] += 1
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.bound[node.name] += 1
            self.own.add(node.name)
            (self.classes if isinstance(node, ast.ClassDef) else self.functions).add(node.name)
            if isinstance(node, ast.ClassDef):
                self.own.update(_class_names(node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                self._import(node, alias)
        elif isinstance(node, ast.ExceptHandler):
            if node.name:
                self.bound[node.name] += 1
                self.caught[node.name] = node
        elif isinstance(node, ast.MatchAs | ast.MatchStar):
            self.bound[node.name or ""] += 1
        elif isinstance(node, ast.Attribute):
            if not isinstance(node.ctx, ast.Load):
                self.own.add(node.attr)
            elif node.attr == "seek":
                self.rewound.add(_last_name(node.value))
        elif isinstance(node, ast.Assign):
            if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self._value(node.targets[0].id, node.value)
        elif isinstance(node, ast.Assert):
            around: ast.AST | None = node
            while node.msg is not None and around is not None and around not in self.asserting:
                self.asserting.add(around)
                around = self.parents.get(around)
        elif isinstance(node, ast.withitem):
            if isinstance(node.optional_vars, ast.Name):
                self._value(node.optional_vars.id, node.context_expr)
        elif isinstance(node, ast.Call):
            if _last_name(node.func) in ("namedtuple", "setattr"):
                self.own.update(word for text in _texts(node) for word in re.findall(r"\w+", text))
        elif isinstance(node, ast.Try) and any(_catches_absence(handler) for handler in node.handlers):
            self.expected.update(part for statement in node.body for part in ast.walk(statement))

    def _import(self, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> None:
        if isinstance(node, ast.ImportFrom):
            name, origin = alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif alias.asname:
            name = origin = alias.asname
            origin = alias.name
        else:
            name = origin = alias.name.partition(".")[0]
        if self.imported.get(name, origin) != origin:
            self.bound[name] += 1  # it is one or the other
        self.imported[name] = origin

    def _value(self, name: str, value: ast.expr) -> None:
        """A value that a name gets; of several that are of one type the last will do."""
        before = self.values.get(name)
        self.values[name] = value
        if before is not None and type(before) is type(value) and _alike(_callee(before), _callee(value)):
            self.bound[name] -= 1

    def origin(self, node: ast.AST) -> str | None:
        """What an expression names: `os.path.join`, `builtins.str`; None where the lines do not show it."""
        return self._origins.get(node)

    def _find_origin(self, node: ast.Name | ast.Attribute) -> str | None:
        if isinstance(node, ast.Name):
            if self.bound[node.id]:
                return None
            return self.imported.get(node.id, f"builtins.{node.id}" if node.id in _BUILTINS else None)
        start = self._origins.get(node.value)
        return None if start is None or start.count(".") > _DOTS else f"{start}.{node.attr}"

    def kind(self, node: ast.AST, depth: int = 0) -> str:
        """The type of an expression as far as it shows; empty where it does not."""
        if type(node) in _LITERALS:
            return _LITERALS[type(node)]
        if isinstance(node, ast.Constant | ast.JoinedStr):
            return "str" if isinstance(getattr(node, "value", ""), str) else ""
        if isinstance(node, ast.Call):
            called = self.origin(node.func)
            if called == "builtins.open" or (called is None and _last_name(node.func) == "open"):
                return _FILE_TYPE
            if called in _EAGER:
                return _EAGER_TYPE
            if called is None and _last_name(node.func) in ("items", "keys", "values"):
                return "view"
            return {"builtins.range": "range", "builtins.set": "set", "builtins.list": "list"}.get(called or "", "")
        if isinstance(node, ast.Name) and self._once(node.id) and node.id in self.values and depth < 3:
            kind = self.kind(self.values[node.id], depth + 1)
            return "" if kind == _FILE_TYPE and node.id in self.rewound else kind
        return _STREAM if self.origin(node) in ("sys.stdout", "sys.stderr") else ""

    # ---- what is wrong

    def problems(self) -> Iterator[Problem]:
        """Everything, in no order."""
        looks: Mapping[type[ast.AST], Callable[[Any], Iterator[Problem]]] = {
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Call: self._call,
            ast.ClassDef: self._class,
            ast.Raise: self._raise,
            ast.AugAssign: self._augmented,
            ast.Compare: self._compare,
            ast.Starred: self._starred,
            ast.ExceptHandler: self._handler,
            ast.Assign: self._assign,
            ast.GeneratorExp: self._generator,
            ast.ImportFrom: self._import_from,
        }
        for node in self.nodes:
            look = looks.get(type(node))
            if look is not None and node not in self.expected:
                yield from look(node)

    def _name(self, node: ast.Name) -> Iterator[Problem]:
        if isinstance(node.ctx, ast.Load) and node.id in MISSING_BUILTINS and self.origin(node) is not None:
            yield _lacks(node, node.id, f"builtins.{node.id}")
        elif self._once(node.id) and node.id in self.values and isinstance(node.ctx, ast.Store):
            value = self.values[node.id]
            if self.kind(value) == _EAGER_TYPE and self.read[node.id] > 1:
                what = "Monty makes a list of this at once, which does not run out when it is read a second time"
                yield _differs(node, f"{what}; write list(...) around it")
        elif isinstance(node.ctx, ast.Load) and self.kind(node) == _STREAM and not self._prints_to(node):
            yield from self._stream(node)

    def _import_from(self, node: ast.ImportFrom) -> Iterator[Problem]:
        for alias in node.names:
            origin = f"{node.module}.{alias.name}"
            if origin in _NOT_SERVED:
                yield _lacks(alias, origin, origin)

    def _attribute(self, node: ast.Attribute) -> Iterator[Problem]:
        if not isinstance(node.ctx, ast.Load):
            if isinstance(node.value, ast.Name) and node.value.id in self.functions and self._once(node.value.id):
                yield _fails(node, "Monty gives functions no attributes; use a dict")
            return
        start = self.origin(node.value)
        parent = self.parents.get(node)
        called = isinstance(parent, ast.Call) and parent.func is node
        if start is not None and start in MONTY_NAMES:
            origin = f"{start}.{node.attr}"
            if (node.attr not in MONTY_NAMES[start] and not node.attr.startswith("__")) or origin in _NOT_SERVED:
                yield _lacks(node, origin, origin)
            elif origin in _OTHER_VALUES:
                yield _differs(node, f"in Monty {origin} is {_OTHER_VALUES[origin]}")
            elif self.kind(node) == _STREAM and not self._prints_to(node):
                yield from self._stream(node)
        elif start is not None and start in TYPE_ATTRIBUTES:
            yield from self._of_type(node, start, called)
        elif start is not None and not start.startswith("builtins."):
            return
        elif node.attr.startswith("__"):
            yield from self._special(node)
        elif node.attr in self.own:
            return
        elif node.attr in NOWHERE or (self.kind(node.value) == "range" and node.attr in ("start", "step", "stop")):
            yield _lacks(node, f"attribute {node.attr}", f".{node.attr}")
        elif node.attr in METHODS and not called:
            yield _fails(node, f"Monty has no method {node.attr} as a value; write a lambda that calls it")

    def _of_type(self, node: ast.Attribute, kind: str, called: bool) -> Iterator[Problem]:
        """An attribute of a type that is named: `str.strip`."""
        calls, reads = TYPE_ATTRIBUTES[kind]
        if node.attr in reads or (called and node.attr in calls) or node.attr.startswith("__"):
            return
        origin = f"{kind}.{node.attr}"
        said = origin.removeprefix("builtins.")
        if node.attr in METHODS | calls and origin not in _HINTS:
            yield _fails(node, f"Monty has no {said} as a value; write a lambda that calls it")
        else:
            yield _lacks(node, said, origin)

    def _special(self, node: ast.Attribute) -> Iterator[Problem]:
        """`x.__name__` and the like."""
        name, of = node.attr, node.value
        if name in self.own or (name == "__class__" and self._may_be_own(of)):
            return
        if name == "__name__":
            of_type = isinstance(of, ast.Call) and self.origin(of.func) == "builtins.type"
            if of_type or getattr(of, "attr", "") == "__class__" or self._is_class(of):
                return
        if name == "__init__" or isinstance(of, ast.Name | ast.Attribute | ast.Call | ast.Constant):
            instead = "; write type(x).__name__" if name in ("__name__", "__class__") else f"; {_ERA}"
            yield _fails(node, f"Monty has no {name} here{instead}")

    def _may_be_own(self, node: ast.AST) -> bool:
        """Whether this may be an instance of a class of the code."""
        return bool(self.classes) and not (isinstance(node, ast.Name) and node.id in self.caught)

    def _is_class(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name) and (node.id in self.classes or node.id == "cls"):
            return True
        origin = self.origin(node)
        return origin is not None and (origin in TYPE_ATTRIBUTES or origin.partition(".")[0] in ("builtins", "typing"))

    def _once(self, name: str) -> bool:
        return self.bound[name] == 1

    def _prints_to(self, node: ast.AST) -> bool:
        """Whether a stream is the `file` of a print, or only renamed for it."""
        parent = self.parents.get(node)
        if isinstance(parent, ast.keyword):
            call = self.parents[parent]
            return parent.arg == "file" and isinstance(call, ast.Call) and self.origin(call.func) == "builtins.print"
        return isinstance(parent, ast.Assign)

    def _stream(self, node: ast.expr) -> Iterator[Problem]:
        yield _fails(node, "Monty only prints to this stream; write print(..., file=sys.stderr) or print(..., end='')")

    # ---- calls

    def _call(self, node: ast.Call) -> Iterator[Problem]:
        origin = self.origin(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) and origin is None else ""
        for option in node.keywords:
            key = origin if origin is not None else f".{method}"
            if method not in self.own and option.arg in _REFUSED_OPTIONS.get(key, ()):
                yield _fails(option.value, f"Monty's {key.removeprefix('builtins.')} has no {option.arg}=; {_ERA}")
        if origin in _CLASSES_NOT_MADE:
            yield _fails(node, f"Monty makes no {origin.removeprefix('builtins.')}(); {_ERA}")
        elif origin == "builtins.round":
            yield from self._round(node)
        elif origin in _SHOWS_ORDER and any(self.kind(item) == "set" for item in node.args):
            yield _differs(node, "the order of a set in Monty is not Python's; write sorted(...)")
        elif origin == "builtins.next" and node.args and self.kind(node.args[0]) == _EAGER_TYPE:
            yield _fails(node, "Monty makes a list of this at once, which next() refuses; write next(iter(...))")
        elif origin == "builtins.bytes" and node.args and self.kind(node.args[0]) in ("list", "range", _EAGER_TYPE):
            yield _fails(node, f"Monty makes no bytes of numbers; {_ERA}")
        elif origin in ("builtins.hasattr", "builtins.getattr"):
            yield from self._asked_by_name(node)
        elif origin in _ORDERS or method == "sort":
            yield from self._ordered(node, node.func.value if isinstance(node.func, ast.Attribute) else None)
        elif origin == "datetime.datetime.strptime":
            yield from self._strptime(node)
        elif origin == "builtins.open" or method == "open":
            yield from self._open(node, 1 if origin else 0)
        elif origin in _EAGER:
            given = node.args[1:] if origin in ("builtins.map", "builtins.filter") else node.args
            if given and all(self._endless(item) for item in given):
                yield _fails(node, _NEVER_ENDS)
        elif origin == "builtins.print":
            yield from self._print(node)
        elif origin is not None and origin in _PATTERN_FUNCTIONS:
            yield from self._pattern(node, origin.removeprefix("re."))
        elif method and method not in self.own:
            yield from self._method(node, method)
        yield from self._whole_files(node, origin, method)

    def _round(self, node: ast.Call) -> Iterator[Problem]:
        digits = [*node.args[1:2], *(item.value for item in node.keywords if item.arg == "ndigits")]
        if digits and not (isinstance(digits[0], ast.UnaryOp) or getattr(digits[0], "value", 1) in (0, None)):
            what = "Monty's round() may differ from Python's in the last digit"
            yield _differs(node, f"{what}; to print, write f'{{x:.2f}}', which does not; for sums of money use decimal")

    def _ordered(self, node: ast.Call, of: ast.expr | None) -> Iterator[Problem]:
        """What sorted, min and max are given, or the list `of` a sort."""
        given = [of] if of is not None else node.args
        if len(given) == 1 and self._gives_paths(given[0]) and all(item.arg != "key" for item in node.keywords):
            yield _fails(node, "Monty puts no paths in order; write key=str")

    def _gives_paths(self, node: ast.AST, depth: int = 0) -> bool:
        if isinstance(node, ast.Name) and self._once(node.id) and node.id in self.values and depth < 3:
            return self._gives_paths(self.values[node.id], depth + 1)
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            [first, *others] = node.generators
            same = isinstance(node.elt, ast.Name) and node.elt.id == getattr(first.target, "id", None)
            return same and not others and self._gives_paths(first.iter, depth + 1)
        if not isinstance(node, ast.Call):
            return False
        origin = self.origin(node.func)
        if origin == "builtins.list" and len(node.args) == 1 and depth < 3:
            return self._gives_paths(node.args[0], depth + 1)
        return origin is None and _last_name(node.func) in _PATHS - self.own

    def _strptime(self, node: ast.Call) -> Iterator[Problem]:
        form = node.args[1] if len(node.args) > 1 else None
        if isinstance(form, ast.Name) and self._once(form.id):
            form = self.values.get(form.id)
        if not isinstance(form, ast.Constant) or not isinstance(form.value, str):
            return
        letters = set(_DIRECTIVE.findall(form.value))
        if not any(all(letters & set(some) for some in row) for row in _DAYS):
            what = "Monty's strptime needs year, month and day: add what is missing to the text and the format"
            yield _fails(form, what)
        elif _FRACTION.search(form.value):
            what = "Monty reads %f with fewer than six digits only after a dot"
            yield _fails(form, f"{what}; write text.replace(',', '.') and .%f")

    def _asked_by_name(self, node: ast.Call) -> Iterator[Problem]:
        name = node.args[1].value if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) else None
        if not isinstance(name, str) or name in self.own or name not in METHODS | NOWHERE:
            return
        if self.origin(node.args[0]) not in MONTY_NAMES:
            yield _fails(node, f"Monty finds no {name} by its name; {_ERA}")

    def _open(self, node: ast.Call, place: int) -> Iterator[Problem]:
        given = [*node.args[place : place + 1], *(item.value for item in node.keywords if item.arg == "mode")]
        mode = given[0].value if given and isinstance(given[0], ast.Constant) else ""
        if isinstance(mode, str) and re.fullmatch(r"[rwaxbt+]*[x+][rwaxbt+]*", mode):
            yield _fails(node, f"Monty does not open files for {mode[:8]}; read or write the whole file")
        for item in node.keywords:
            named = item.value.value if item.arg == "encoding" and isinstance(item.value, ast.Constant) else None
            if isinstance(named, str) and named.lower().replace("_", "-") not in ("utf-8", "utf8"):
                yield _fails(item.value, "Monty opens text as UTF-8 only; open it as 'rb' and decode the bytes")

    def _print(self, node: ast.Call) -> Iterator[Problem]:
        for item in node.keywords:
            if item.arg == "file" and self.kind(item.value) == _FILE_TYPE:
                yield _fails(item.value, "Monty prints to sys.stdout and sys.stderr only; write file.write(...)")

    def _method(self, node: ast.Call, method: str) -> Iterator[Problem]:
        """A method of a value that is not known to be the code's own."""
        pattern = method in _PATTERN_METHODS and self._is_pattern(node.func.value)  # type: ignore[attr-defined]
        if method == "sub":
            yield from self._replaced(node, 0)
        elif pattern and len(node.args) + len(node.keywords) > 1:
            yield _fails(node, f"Monty's Pattern.{method} takes the text only; cut it before")
        elif method == "update" and len(node.args) > 1 and self.kind(node.func.value) == "set":  # type: ignore[attr-defined]
            yield _fails(node, "Monty's set.update takes one argument; call it for each")
        elif method == "read_text" and node.args:
            yield _fails(node, "Monty's read_text takes no arguments; text is UTF-8")
        elif method == "write_text" and len(node.args) > 1:
            yield _fails(node, "Monty's write_text takes the text only, which is written as UTF-8")

    def _is_pattern(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name) and self._once(node.id) and node.id in self.values:
            node = self.values[node.id]
        return isinstance(node, ast.Call) and self.origin(node.func) == "re.compile"

    def _pattern(self, node: ast.Call, function: str) -> Iterator[Problem]:
        if function == "sub":
            yield from self._replaced(node, 1)
        pattern = node.args[0] if node.args else None
        if isinstance(pattern, ast.Constant) and isinstance(pattern.value, str | bytes):
            text = pattern.value if isinstance(pattern.value, str) else pattern.value.decode("latin-1")
            if "[[" in text.replace("\\[", ""):
                yield _fails(pattern, "Monty does not read [ in a set of characters of a pattern; write \\[")
            elif "&&" in text or "~~" in text:
                yield _differs(pattern, "Monty reads && and ~~ in a set of characters as operators; write one of each")
            elif function not in ("fullmatch", "split") and _DOLLAR.search(text) and not self._by_lines(node, text):
                what = "Monty's $ does not match before a final newline, as Python's does"
                yield _differs(pattern, f"{what}; strip the text, or write \\n?$")

    def _by_lines(self, node: ast.Call, pattern: str) -> bool:
        """Whether $ matches before each newline."""
        flags = [*node.args[1:], *(item.value for item in node.keywords)]
        for flag in flags:
            if isinstance(flag, ast.BinOp):
                flags += flag.left, flag.right
        return pattern.startswith("(?m)") or any(self.origin(flag) in ("re.M", "re.MULTILINE") for flag in flags)

    def _replaced(self, node: ast.Call, place: int) -> Iterator[Problem]:
        """What a sub puts in: a function, or a text with escapes."""
        given = [*node.args[place : place + 1], *(item.value for item in node.keywords if item.arg == "repl")]
        if not given:
            return
        by = given[0]
        own = isinstance(by, ast.Name) and by.id in self.functions
        if own or isinstance(by, ast.Lambda) or (isinstance(by, ast.Attribute) and self.origin(by) is not None):
            yield _fails(by, "Monty's re.sub takes no function; loop over finditer, or use ERA: change backend")
        elif isinstance(by, ast.Constant) and isinstance(by.value, str):
            if _GROUP.search(by.value):
                yield _fails(by, "Monty takes the letters behind \\1 for a part of the name; write \\g<1>")
            elif _ESCAPE.search(by.value):
                yield _fails(by, "Monty does not read escapes such as \\n in what re.sub puts in; leave out the r")

    def _whole_files(self, node: ast.Call, origin: str | None, method: str) -> Iterator[Problem]:
        """Functions that go through an open file themselves."""
        consumes = (origin is not None and origin not in _READS_FILES and origin.partition(".")[0] in _STANDARD) or (
            method in ("extend", "join", "update")
        )
        given = [item.value if isinstance(item, ast.Starred) else item for item in node.args]
        if consumes and any(self.kind(item) == _FILE_TYPE for item in given):
            yield _fails(node, _WHOLE_FILE)

    def _endless(self, node: ast.AST) -> bool:
        called = self.origin(node.func) if isinstance(node, ast.Call) else None
        return called in _ENDLESS and not (called == "itertools.repeat" and len(node.args) > 1)  # type: ignore[attr-defined]

    def _generator(self, node: ast.GeneratorExp) -> Iterator[Problem]:
        if self._endless(node.generators[0].iter):
            yield _fails(node, _NEVER_ENDS)

    # ---- statements

    def _assign(self, node: ast.Assign) -> Iterator[Problem]:
        apart = any(isinstance(target, ast.Tuple | ast.List) for target in node.targets)
        if apart and self.kind(node.value) == _FILE_TYPE:
            yield _fails(node.value, _WHOLE_FILE)

    def _class(self, node: ast.ClassDef) -> Iterator[Problem]:
        for part in node.body:
            name = getattr(part, "name", "")
            if name in _NEVER_CALLED:
                yield _fails(part, f"Monty never calls {name}; {_ERA}")

    def _raise(self, node: ast.Raise) -> Iterator[Problem]:
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        origin = self.origin(error) if error is not None else None
        if origin == "builtins.SystemExit":
            yield _fails(node, "a run in Monty that raises SystemExit fails; let the code end")
        elif origin is not None and isinstance(node.exc, ast.Call) and origin.startswith("builtins."):
            given = node.exc.args
            plain = [item for item in given if isinstance(item, ast.Constant) and not isinstance(item.value, str)]
            if len(given) > 1 or plain or node.exc.keywords:
                yield _fails(node, "Monty raises a builtin exception with one text only; put all into one f-string")

    def _augmented(self, node: ast.AugAssign) -> Iterator[Problem]:
        if isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name):
            value = self.values.get(node.target.id)
            is_list = value is not None and _LITERALS.get(type(value)) == "list"
            other = isinstance(node.value, ast.Tuple) or self.kind(node.value) in ("str", "set", "range", "view")
            if is_list and other:
                yield _fails(node, "Monty adds only a list to a list; call .extend(...)")

    def _compare(self, node: ast.Compare) -> Iterator[Problem]:
        for mark, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(mark, ast.In | ast.NotIn) and self.kind(right) == _FILE_TYPE:
                yield _fails(right, _WHOLE_FILE)

    def _starred(self, node: ast.Starred) -> Iterator[Problem]:
        listed = isinstance(node.ctx, ast.Load) and not isinstance(self.parents.get(node), ast.Call)
        if listed and self.kind(node.value) == _FILE_TYPE:
            yield _fails(node, _WHOLE_FILE)

    def _handler(self, node: ast.ExceptHandler) -> Iterator[Problem]:
        if not node.name or node.type is None or not self.read[node.name]:
            return
        kinds = {_last_name(kind) for kind in getattr(node.type, "elts", [node.type])}
        if kinds & {"AssertionError", "Exception", "BaseException"} and self.parents[node] in self.asserting:
            yield _differs(node, "in Monty the message of a failed assert has a second line with the condition")
        elif "JSONDecodeError" in kinds:
            yield _differs(node, "Monty's message about text that is not JSON may be another one than Python's")


_STANDARD: Final = frozenset(MONTY_NAMES) | {"builtins"}


def _class_names(node: ast.ClassDef) -> Iterator[str]:
    """What a class body gives to its instances by assignment."""
    for statement in node.body:
        targets: Sequence[ast.AST] = getattr(statement, "targets", [getattr(statement, "target", None)])
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _last_name(node: ast.AST | None) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _callee(node: ast.expr) -> ast.expr:
    """What makes the type of a value: of a call its function, otherwise nothing that counts."""
    return node.func if isinstance(node, ast.Call) else ast.Constant(None)


def _alike(one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions are written with the same parts. Without recursion: code may be nested more deeply than
    Python's stack is.
    """
    pairs: list[tuple[Any, Any]] = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if type(left) is not type(right):
            return False
        if isinstance(left, ast.AST):
            pairs += [(getattr(left, name), getattr(right, name)) for name in left._fields]
        elif isinstance(left, list):
            pairs += zip_longest(left, right)
        elif left != right:
            return False
    return True


def _texts(node: ast.Call) -> Iterator[str]:
    """The texts that a call is given, also those in a list."""
    for item in node.args:
        for part in getattr(item, "elts", [item]):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(_last_name(kind) in ("AttributeError", "NameError") for kind in kinds)


def _fails(node: ast.expr | ast.stmt | ast.alias, message: str) -> Problem:
    return Problem("TG417", node.lineno, node.col_offset + 1, message)


def _lacks(node: ast.expr | ast.alias, what: str, origin: str) -> Problem:
    hint = _HINTS.get(origin)
    instead = _ERA if hint is None else f"{hint}, or use ERA: change backend"
    return _fails(node, f"Monty has no {what[:80]}; {instead}")


def _differs(node: ast.expr | ast.ExceptHandler, message: str) -> Problem:
    return Problem("TG418", node.lineno, node.col_offset + 1, message)
