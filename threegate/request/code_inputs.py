"""Check the Inputs (JSON) of Monty requests: strict JSON whose keys can become variables.

Invariant: accepted text has the same meaning everywhere: no duplicate keys, no NaN, no number that a double
cannot hold, no hidden characters from escapes.
"""

from __future__ import annotations

import builtins
import json
import keyword
import math
import re
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from threegate.core import limits
from threegate.core.canonical import INTEGER_MAX
from threegate.core.secretscan.scan import has_secret
from threegate.request.characters import describe, hidden_places, strings
from threegate.request.code_modules import MONTY_NAMES
from threegate.request.problem import Problem, placed

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NESTING: Final = re.compile(r'"(?>(?:[^"\\]++|\\.)*)"?|[\[\]{}]', re.DOTALL)
_TAKEN: Final = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | frozenset(keyword.softkwlist)


class _Refused(ValueError):
    """The JSON breaks a rule of ours: its id and what to say."""

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
        return (Problem("TG411", error.lineno, error.colno, f"not JSON: {_plain(error.msg)}; fix it"),)
    except _Refused as error:
        return (Problem(error.rule, 1, 1, str(error)),)
    if not isinstance(value, dict):
        return (Problem("TG414", 1, 1, "the inputs are no object; write {…}"),)
    most = limits.FINDINGS_PER_RULE  # each is looked for in the text again
    return tuple(sorted({*islice(_keys(value, text), most), *islice(_hidden(value, text), most)}))


def _plain(message: str) -> str:
    return message.split(":", 1)[0][:80]


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
        raise _Refused("TG412", "a key stands twice in one object; keep one")
    return result


def _constant(name: str) -> Any:
    raise _Refused("TG413", f"{name} is no JSON; write a string")


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
            why = "is no name of ASCII letters, digits and _ that begins with a letter"
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
