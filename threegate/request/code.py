"""Checks Monty code and its inputs before a human reads them, without running anything.

Invariant: any text gives an answer. Nesting bombs end in a problem, not in an exception, because `ast.parse`
raises RecursionError or MemoryError on them.
"""

from __future__ import annotations

import ast
import builtins
import json
import keyword
import sys
from typing import Any, Final

from threegate.limits import JSON_DEPTH
from threegate.request.problem import Problem

MONTY_MODULES: Final = frozenset(
    [
        "asyncio",
        "collections",
        "csv",
        "datetime",
        "hashlib",
        "itertools",
        "json",
        "math",
        "pathlib",
        "random",
        "re",
    ]
)
"""Modules that Monty has (see tests/request/test_code.py, which asks it)."""


def check_code(text: str) -> tuple[Problem, ...]:
    """Problems of a Code block, by place. Never raises."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return (
            Problem("TG401", error.lineno or 1, error.offset or 1, f"not Python: {error.msg}; mend the code"),
        )
    except ValueError:
        return (Problem("TG401", 1, 1, "not Python: it holds a NUL; remove it"),)
    except (RecursionError, MemoryError):
        return (Problem("TG402", 1, 1, "the code is nested too deeply to be read; make it flatter"),)
    problems: list[Problem] = []
    for node in ast.walk(tree):
        names: list[str] = []
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = ["." * node.level + (node.module or "")]
        for name in names:
            if name.split(".")[0] not in MONTY_MODULES:
                problems.append(
                    Problem(
                        "TG403",
                        node.lineno,
                        node.col_offset + 1,
                        f"Monty has no module {name[:40]}; do without",
                    )
                )
    return tuple(sorted(set(problems)))


class _Duplicate(ValueError):
    """An object names a key twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _Duplicate
    return result


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def check_vars(text: str) -> tuple[Problem, ...]:
    """Problems of an Inputs (JSON) block. Never raises."""
    depth = deepest = 0
    for char in text:
        depth += (char in "[{") - (char in "]}")
        deepest = max(deepest, depth)
    if deepest > JSON_DEPTH:
        return (Problem("TG411", 1, 1, f"nested more than {JSON_DEPTH} deep; make it flatter"),)
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        return (Problem("TG411", error.lineno, error.colno, f"not JSON: {error.msg}; mend it"),)
    except _Duplicate:
        return (Problem("TG412", 1, 1, "a key stands twice in one object; keep one"),)
    except ValueError:
        return (Problem("TG413", 1, 1, "NaN, Infinity and overlong numbers are no JSON; write a string"),)
    if not isinstance(value, dict):
        return (Problem("TG414", 1, 1, "the inputs are no object; write {…}"),)
    return tuple(
        Problem("TG415", 1, 1, "a key is no free Python name; rename it")
        for key in value
        if not key.isidentifier()
        or keyword.iskeyword(key)
        or keyword.issoftkeyword(key)
        or hasattr(builtins, key)
        or key in sys.stdlib_module_names
    )
