"""Check Monty code and its Inputs (JSON) before a person reads them, without running anything.

Invariant: any text gets an answer. Nesting bombs are reported as a problem, not as an exception (`ast.parse`
raises RecursionError or MemoryError on them), and code with more parts than `limits.CODE_PARTS` is refused unread.
Inputs that are accepted mean the same to every reader (no duplicate keys, no NaN, no number that a double cannot
hold, no hidden characters from escapes), and their keys can become variables.
"""

from __future__ import annotations

import ast
import builtins
import json
import keyword
import math
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from threegate.core import limits
from threegate.core.canonical import INTEGER_MAX
from threegate.core.secretscan.scan import has_secret
from threegate.request.action import Script
from threegate.request.backend import Reading
from threegate.request.characters import describe, hidden_places, strings
from threegate.request.code_modules import MONTY_NAMES
from threegate.request.command.paths import find_installs, find_places
from threegate.request.model import InputFile
from threegate.request.monty_idioms import idiom_problems
from threegate.request.newer_syntax import in_older_syntax
from threegate.request.problem import Problem, placed

_UNSUPPORTED: Final[dict[type[ast.AST], str]] = {
    ast.Yield: "yield",
    ast.YieldFrom: "yield from",
    ast.Delete: "del",
    ast.AsyncWith: "async with",
    ast.AsyncFor: "async for",
    ast.TryStar: "except*",
}
_PARTS: Final = re.compile(
    r"""\b(?>(?:[rbu]|br|rb)?)(?:\"{3}(?>(?:[^"\\]++|\\.|"(?!""))*)\"{3}|'{3}(?>(?:[^'\\]++|\\.|'(?!''))*)'{3}|"(?>(?:[^"\\\n]++|\\.)*)"|'(?>(?:[^'\\\n]++|\\.)*)')"""
    r"""|\#[^\n]*+|\w++|[^\w\s]""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
_CAUGHT: Final = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))

_ONE_PARSER: Final = threading.Lock()

Parse = Callable[[str], Problem | None]
"""What keeps Monty from reading code, at its line; a problem too where Monty cannot be asked."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NESTING: Final = re.compile(r'"(?>(?:[^"\\]++|\\.)*)"?|[\[\]{}]', re.DOTALL)
_TAKEN: Final = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | frozenset(keyword.softkwlist)


def read_script(reading: Reading, parse: Parse | None = None) -> Script | None:
    """Code and Inputs (JSON); None where the code is not well-formed. `parse` asks Monty whether it can read it."""
    # Which inputs there are is not known where the front matter's list is not well-formed.
    inputs = reading.values.get("inputs", ()) if reading.knows("inputs") else None
    code = reading.block("Code", "TG221", "python", lambda text: check_code(text, inputs, parse))
    variables = reading.block("Inputs (JSON)", "TG222", "json", check_vars)
    return None if code is None else Script(code, variables)


def parse_python(text: str, minor: int | None = None) -> ast.Module:
    """`ast.parse`, one thread at a time; with `minor`, by the grammar of Python 3.`minor`. Raises what it raises."""
    # Python 3.11 counts the depth of the tree for all threads together. If two of them parse at the same time, either
    # may raise SystemError (python/cpython#106905), and the same file would be valid now and invalid later.
    with _ONE_PARSER:
        return ast.parse(text, feature_version=None if minor is None else (3, minor))


def check_code(text: str, inputs: Sequence[InputFile] | None = None, parse: Parse | None = None) -> tuple[Problem, ...]:
    """Problems of a Code block, by place. Never raises; nothing of it is run.

    Files of /in that are opened and not among the declared `inputs` are one, too; None: it is not known which are
    declared. `parse` is asked about code that can be read here.
    """
    # Its words and marks, and what f-strings embed, which counts for more.
    if len(_PARTS.findall(text)) + 10 * text.count("{") > limits.CODE_PARTS:
        return (Problem("TG402", 1, 1, f"more than {limits.CODE_PARTS} parts; make the code shorter"),)
    tree = _read(text)
    if isinstance(tree, Problem):
        return (tree,)
    nodes = list(ast.walk(tree))
    found = {*_unavailable(nodes), *_named_in(text), *idiom_problems(tree)}
    if inputs is not None:
        found.update(_undeclared(nodes, inputs))
    unread = None if parse is None else parse(text)
    # What a rule here has said of that line is more exact.
    exact = {problem.line for problem in found if problem.rule in ("TG407", "TG417")}
    if unread is not None and not (unread.rule == "TG407" and unread.line in exact):
        found.add(unread)
    return tuple(sorted(found, key=lambda problem: (problem.line, problem.column, problem.rule)))


def _read(text: str) -> ast.Module | Problem:
    """The code as this Python reads it, or with newer syntax rewritten; a problem where neither can be read."""
    try:
        return parse_python(text)
    except SyntaxError as error:
        # The error's own words are about the text as it is, so they are said if the rewritten text is no better.
        newer = in_older_syntax(text)
        if newer is not None:
            with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                return parse_python(newer)
        line, column = error.lineno or 1, max(error.offset or 1, 1)
        if "too many nested" in error.msg or "too complex" in error.msg:
            return Problem("TG402", line, column, "nested too deeply to be read; make it flatter")
        return Problem("TG401", line, column, f"not Python: {plain_words(error.msg)}; fix the code")
    except ValueError:
        return Problem("TG401", 1, 1, "not Python: a NUL or a number of absurd length; take it out")
    except (RecursionError, MemoryError):
        return Problem("TG402", 1, 1, "nested too deeply to be read; make it flatter")


def _undeclared(nodes: Sequence[ast.AST], inputs: Sequence[InputFile]) -> Iterator[Problem]:
    """Files of /in that the code opens by a literal name and the request does not declare: they will not be there."""
    declared = {item.name.removesuffix(".tar") if item.unpack else item.name for item in inputs}
    for node in nodes:
        if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in ("open", "Path"):
            continue
        named = [*node.args[:1], *(item.value for item in node.keywords if item.arg == "file")]
        for path in named:
            if not isinstance(path, ast.Constant) or not isinstance(path.value, str):
                continue
            name = path.value.removeprefix("/in/").lstrip("/").split("/")[0]
            if path.value.startswith("/in/") and name and name not in declared:
                yield _at("TG416", path, "the code opens a file of /in that inputs does not declare")


def plain_words(message: str) -> str:
    """The parser's words without what it quotes from the code."""
    return message.split("'", 1)[0].split("(", 1)[0].strip()[:80] or "it does not parse"


def _unavailable(nodes: Sequence[ast.AST]) -> Iterator[Problem]:
    """Modules, names and statements that Monty does not have."""
    optional = {  # whose failure the code catches
        statement
        for node in nodes
        if isinstance(node, ast.Try) and any(catches_import(handler) for handler in node.handlers)
        for statement in node.body
    }
    for node in nodes:
        if isinstance(node, ast.Import):
            if node not in optional:
                for alias in node.names:
                    if alias.name not in MONTY_NAMES:
                        yield _at("TG403", alias, f"Monty has no module {alias.name[:40]}; do without it")
        elif isinstance(node, ast.ImportFrom):
            if node not in optional:
                yield from _from_import(node)
        elif type(node) in _UNSUPPORTED:
            assert isinstance(node, ast.expr | ast.stmt)
            yield _at("TG407", node, f"Monty does not support {_UNSUPPORTED[type(node)]}; write it another way")
        elif isinstance(node, ast.ClassDef) and (node.bases or node.keywords):
            yield _at("TG407", node, "Monty does not support classes with bases; write it another way")
        elif isinstance(node, ast.comprehension) and node.is_async:
            yield _at("TG407", node.iter, "Monty does not support async comprehensions; write it another way")


def _from_import(node: ast.ImportFrom) -> Iterator[Problem]:
    module = "." * node.level + (node.module or "")
    if module == "__future__":
        return  # a name that is not there is a syntax error of Monty's, too
    names = MONTY_NAMES.get(module)
    if names is None:
        yield _at("TG403", node, f"Monty has no module {module[:40]}; do without it")
        return
    for alias in node.names:
        if alias.name == "*":
            yield _at("TG407", node, "Monty does not support import *; name what you need")
        elif alias.name not in names:
            yield _at("TG403", alias, f"Monty's {module} has no {alias.name[:40]}; do without it")


def catches_import(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches that a module is missing."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in _CAUGHT) for kind in kinds)


def _named_in(text: str) -> Iterator[Problem]:
    """Installing commands, host paths and devices in the text, comments and strings included."""
    for start, _ in find_installs(text, most=50, code=True):
        yield placed("TG404", text, start, "this would install software; use what Monty has")
    for place in find_places(text):
        if place.rule == "device":
            yield placed("TG406", text, place.place, f"{place.shown} is a device of the host; Monty has none")
        else:
            yield placed("TG405", text, place.place, f"{place.shown} is a path of the host; Monty sees /in and /out")


def _at(rule: str, node: ast.expr | ast.stmt | ast.alias, message: str) -> Problem:
    return Problem(rule, node.lineno, node.col_offset + 1, message)


class _Refused(ValueError):
    """The JSON breaks a rule: its id and what to say."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


def check_vars(text: str) -> tuple[Problem, ...]:
    """Problems of an Inputs (JSON) block, by place. Never raises; linear time."""
    if _depth(text) > limits.JSON_DEPTH:
        return (Problem("TG411", 1, 1, f"nested more than {limits.JSON_DEPTH} deep; make it flatter"),)
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_constant, parse_float=_float, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        return (Problem("TG411", error.lineno, error.colno, f"not JSON: {error.msg.split(':', 1)[0][:80]}; fix it"),)
    except _Refused as error:
        return (Problem(error.rule, 1, 1, str(error)),)
    if not isinstance(value, dict):
        return (Problem("TG414", 1, 1, "the inputs are not an object; write {…}"),)
    most = limits.FINDINGS_PER_RULE  # each is looked for in the text again
    return tuple(sorted({*islice(_keys(value, text), most), *islice(_hidden(value, text), most)}))


def _depth(text: str) -> int:
    """How deep brackets nest outside strings, balanced or not."""
    depth = deepest = 0
    for match in _NESTING.finditer(text):
        mark = match[0]
        if mark in ("[", "{"):
            depth += 1
            deepest = max(deepest, depth)
        elif mark in ("]", "}"):
            depth -= 1
    return deepest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _Refused("TG412", "a key occurs twice in one object; keep one")
    return result


def _constant(name: str) -> Any:
    raise _Refused("TG413", f"{name} is not JSON; write a string")


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _Refused("TG413", "a number is too large; write a string")
    return value


def _integer(digits: str) -> int:
    if len(digits) > limits.VARS_INTEGER_DIGITS or abs(value := int(digits)) > INTEGER_MAX:
        raise _Refused("TG413", "a whole number is beyond 2**53 - 1; write a string")
    return value


def _keys(value: dict[str, Any], text: str) -> Iterator[Problem]:
    """Keys that cannot be variables, each at its first place in the text."""
    for key in value:
        if not _NAME.fullmatch(key):
            why = "is not a name of ASCII letters, digits and _ that begins with a letter"
        elif key in _TAKEN:
            why = "is a keyword or a builtin of Python"
        elif key in MONTY_NAMES or key in sys.stdlib_module_names:
            why = "is the name of a module"
        else:
            continue
        shown = f"the key {key[:40]}" if _NAME.fullmatch(key) and not has_secret(key) else "a key"
        yield placed("TG415", text, max(text.find(json.dumps(key)), 0), f"{shown} {why}; rename it")


def _hidden(value: Any, text: str) -> Iterator[Problem]:
    """Characters that escapes brought back, in any string of the value."""
    for item in strings(value):
        if (index := next(hidden_places(item), None)) is not None:
            message = f"a string decodes to the hidden character {describe(item[index])}; take it out"
            yield placed("TG107", text, max(text.lower().find(f"\\u{ord(item[index]):04x}"), 0), message)
