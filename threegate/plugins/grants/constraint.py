"""What a widened value of a grant may be: its type, and one or two of the contract operators.

Invariant: a text matched by an operator is one plain word in NFC, without ``%``, ``\\``, ``..``, ``//`` or a
leading dash; a number is between two bounds; ``*`` never matches ``/``. A value that an operator cannot judge
is refused. A constraint without operators accepts every clear value of its type; only a tool's argument may
have one (widened.py).
"""

from __future__ import annotations

import functools
import json
import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeGuard

from threegate.approval.ssh_wire import MalformedError
from threegate.core import limits
from threegate.core.canonical import INTEGER_MAX
from threegate.core.json_operators import BadPattern, Test, compile_pattern
from threegate.request.characters import has_hidden
from threegate.request.strict_texts import OPERATORS, BadOperand, all_clear

Kind = Literal["string", "integer", "number", "boolean"]

_KINDS: Final[Mapping[Kind, type]] = {"string": str, "integer": int, "number": float, "boolean": bool}
_NAMED: Final = ("starts_with", "ends_with", "glob", "under", "host_in", "email_domain_in")
"""Operators on texts that are written with their names."""
_LISTED: Final = ("host_in", "email_domain_in")
"""Those of them whose operand is a list."""
_SHAPES: Final[tuple[set[str], ...]] = (
    set(),
    {"like"},
    {"regex"},
    {"one_of"},
    {"gte", "lte"},
    {"equals"},
    *({name} for name in _NAMED),
)
"""The allowed combinations of operators: exactly one of these sets."""
_BARRED: Final = ("%", "\\", "..", "//")
_PROBE: Final = "q#7é_Z"
"""A constraint that accepts this word accepts any: it constrains nothing."""
_MADE_OF: Final = "".join(sorted(set(map(chr, range(33, 127))) - set("%\\-./")))
"""The characters of the texts that are tried to see how freely a pattern lets a text be chosen."""
_MADE_LENGTHS: Final = (*range(4, 41), 48, 50, 60, 64, 80, 100, 128, 150, 200)
_MARKS: Final = tuple("!\"#$&'(*)+,:;<=>?@[]^_`{|}~"[start::3] for start in range(3))
"""The marks of ASCII in three parts: who takes all of one, whatever it leaves out, takes any text."""
_WRITTEN: Final = re.compile(rf"\s*([=~]|(?:{'|'.join(_NAMED)})\b|any\b)\s*(.*?)\s*", re.DOTALL)
RANGE: Final = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?) ?(KiB|MiB)?\s*\.\.\s*(-?[0-9]+(?:\.[0-9]+)?) ?(KiB|MiB)?")
_UNITS: Final = {"": 1, "KiB": limits.KIB, "MiB": limits.MIB}


def kind_of(value: object) -> Kind | None:
    """The type of a plain value; None for anything that no constraint accepts (a bool is not a number)."""
    return next((kind for kind, of in _KINDS.items() if type(value) is of), None)


def is_plain_word(text: str) -> bool:
    """Whether a constraint may accept a text at all: one visible word in one spelling, neither an option nor
    a path upwards, nor for a reader that folds full-width characters and their like (NFKC).
    """
    folded = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return (
        0 < len(text) <= limits.GRANT_WORD_CHARS
        and not any(part in folded for part in _BARRED)
        and not folded.startswith("-")
        and not any(character.isspace() for character in folded)
        and not has_hidden(text)
        and unicodedata.is_normalized("NFC", text)
    )


@dataclass(frozen=True, slots=True)
class Constraint:
    """A type and its operators, as in the grant's statement."""

    kind: Kind
    operators: Mapping[str, Any] = field(hash=False)
    _tests: tuple[Test, ...] = field(repr=False, compare=False)

    @classmethod
    def of(cls, kind: object, operators: Mapping[str, Any]) -> Constraint:
        """Raises MalformedError for an invalid constraint, or one that would accept anything."""
        if not _is_kind(kind) or operators.keys() not in _SHAPES:
            raise MalformedError("has a constraint of a type or with operators that there are not")
        made = cls(kind, operators, tuple(_test(kind, name, operand) for name, operand in operators.items()))
        if operators and (made.takes(_PROBE) or made._takes_marks()):
            raise MalformedError("has a constraint that takes any text; name what stays the same")
        return made

    @classmethod
    def read(cls, kind: Kind, text: str) -> Constraint:
        """Read ``= glob``, ``= ["a", "b"]``, ``= 1..100``, ``~ pattern``, ``under /srv``, as an operator writes it.
        Raises MalformedError.
        """
        match = _WRITTEN.fullmatch(text)
        if match is None:
            raise MalformedError("has a constraint without = or ~")
        sign, rest = match.groups()
        if sign == "any":
            return cls.of(kind, {})
        if sign == "~":
            return cls.of(kind, {"regex": rest})
        values = read_list(rest) if rest.startswith("[") else None
        if sign != "=":
            plain = [rest] if sign in _LISTED else rest
            return cls.of(kind, {sign: plain if values is None else values})
        if values is not None:
            return cls.of(kind, {"one_of": values})
        if kind == "string":
            return cls.of(kind, {"like": rest})
        if kind == "boolean":
            return cls.of(kind, {"equals": {"true": True, "false": False}.get(rest)})
        found = RANGE.fullmatch(rest)
        if found is None:
            raise MalformedError("has no range of numbers; write 1..100")
        try:
            low, high = (_bound(kind, found[at], found[at + 1]) for at in (1, 3))
        except ValueError:
            raise MalformedError("has a fraction where a whole number stands") from None
        return cls.of(kind, {"gte": low, "lte": high})

    def takes(self, value: object) -> bool:
        """Whether the grant's constraint allows a value."""
        if type(value) is not _KINDS[self.kind]:
            return False
        if not self.operators:
            return all_clear(value) and not (isinstance(value, int | float) and abs(value) > INTEGER_MAX)
        if isinstance(value, str) and not is_plain_word(value):
            return False
        return all(test(value) is True for test in self._tests)

    @property
    def is_free_text(self) -> bool:
        """Whether it accepts every text, or one of 64 bits and more (FREE_TEXT_BITS) of which nothing is given."""
        if self.kind != "string" or not self.operators:
            return self.kind == "string"
        return any(_takes_chosen(name, self.operators[name]) for name in self.operators.keys() & _CHOOSING)

    def _takes_marks(self) -> bool:
        """Whether letters, digits and a third of all marks may follow each other, in a text of some length."""
        words = [f"q7Z{marks}" for marks in _MARKS] if self.operators.keys() & _CHOOSING else ()
        return any(self.takes((word * length)[:length]) for word in words for length in _MADE_LENGTHS)

    def __str__(self) -> str:
        """In the form that `read` parses."""
        operators = self.operators
        if not operators:
            return f"any {self.kind}"
        if "gte" in operators:
            return f"= {operators['gte']}..{operators['lte']}"
        ((name, operand),) = operators.items()
        said = operand if isinstance(operand, str) else json.dumps(operand, ensure_ascii=False)
        return f"{_SIGNS.get(name, name)} {said}"


_CHOOSING: Final = frozenset({"like", "regex", "glob", "starts_with", "ends_with"})
"""The operators that may leave a whole text open."""


@functools.lru_cache(maxsize=256)
def _takes_chosen(name: str, operand: str) -> bool:
    """Whether a text that may be chosen character by character has FREE_TEXT_BITS. What the pattern takes repeated is
    mixed, and tried: of ``[a-z]+`` 26 characters can be chosen at each place, of ``a+|b+`` none.
    """
    test = _test("string", name, operand)
    for length in _MADE_LENGTHS:
        chosen = [character for character in _MADE_OF if test(character * length) is True]
        if len(chosen) > 1 and length * math.log2(len(chosen)) >= limits.FREE_TEXT_BITS:
            mixed = "".join(chosen[7 * place % len(chosen)] for place in range(length))
            if test(mixed) is True:
                return True
    return False


_SIGNS: Final = {"regex": "~", "like": "=", "one_of": "=", "equals": "="}


def read_list(text: str) -> list[Any]:
    """A JSON list written by an operator. Raises MalformedError."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list):
        raise MalformedError('has a list that is no JSON; write ["a", "b"]')
    return values


def _bound(kind: Kind, digits: str, unit: str | None) -> int | float:
    """A bound in its canonical form. Raises ValueError for a fractional integer."""
    value = float(digits) if kind == "number" else int(digits)
    return (int(value) if value == int(value) else value) * _UNITS[unit or ""]


def _is_kind(value: object) -> TypeGuard[Kind]:
    return isinstance(value, str) and value in _KINDS


def _fits(kind: Kind, value: object) -> bool:
    """Whether an operand is of the type. The canonical rendering of the number 1.0 is 1, so that is a number as
    well.
    """
    return type(value) is _KINDS[kind] or (kind == "number" and type(value) is int)


def _test(kind: Kind, name: str, operand: Any) -> Test:
    if name == "one_of":
        most = limits.GRANT_CHOICES
        if kind == "boolean" or not isinstance(operand, list) or not 1 <= len(operand) <= most:
            raise MalformedError(f"has a list of other than 1 to {most} values")
        for item in operand:
            if not _fits(kind, item) or (kind == "string" and not is_plain_word(item)):
                raise MalformedError("has a list with a value that no constraint takes")
        return OPERATORS["one_of"](operand)
    if name == "equals":
        if kind != "boolean" or type(operand) is not bool:
            raise MalformedError("has a value of yes or no that is neither true nor false")
        return OPERATORS["equals"](operand)
    if name in ("gte", "lte"):
        if kind not in ("integer", "number") or not _fits(kind, operand) or abs(operand) > INTEGER_MAX:
            raise MalformedError("has a bound that is no number of the value's type")
        return OPERATORS[name](operand)
    many = isinstance(operand, list) and (name in _LISTED or name == "under")
    texts = operand if many else [operand]
    if kind != "string" or not 1 <= len(texts) <= limits.GRANT_CHOICES or (name in _LISTED and not many):
        raise MalformedError("has a pattern that is no short text, or for what is none")
    if not all(isinstance(item, str) and len(item) <= limits.GRANT_WORD_CHARS for item in texts):
        raise MalformedError("has a pattern that is no short text, or for what is none")
    try:
        if name in _NAMED:
            return OPERATORS[name](operand)
        return _whole(operand if name == "regex" else _from_glob(operand))
    except (BadPattern, BadOperand) as error:
        raise MalformedError(f"has {error}") from None


def _from_glob(text: str) -> str:
    """Every character matches itself, except that ``*`` matches one or more characters other than ``/``."""
    return "[^/]+".join(re.escape(part) for part in text.split("*"))


def _whole(pattern: str) -> Test:
    match = compile_pattern(pattern, whole=True)
    return lambda value: match(value) is not None
