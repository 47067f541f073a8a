"""What a widened value of a grant may be: its type, and an operator of contracts (``gte`` and ``lte`` together).

Invariant: a text that an operator accepts is one plain word in NFC, without ``%``, ``\\``, ``..``, ``//`` or a
leading dash; a number is between two bounds; a pattern matches the whole text. A value that an operator cannot judge
is refused. A constraint without operators accepts every clear value of its type; only a tool's argument may
have one (widened.py).
"""

from __future__ import annotations

import functools
import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
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
_RANGE: Final = frozenset({"gte", "lte"})
_WORDS: Final[Mapping[str, str]] = {
    "equals": "is {}",
    "one_of": "is one of {}",
    "regex": "matches {} from end to end",
    "starts_with": "begins with {}",
    "ends_with": "ends with {}",
    "glob": "has the form {}",
    "under": "is the path {} or below it",
    "host_in": "is one of the hosts {}",
    "email_domain_in": "is an e-mail address at one of {}",
}
"""The operators that stand alone in a constraint, with the words that show each to a person."""
_LISTED: Final = ("one_of", "host_in", "email_domain_in")
"""Those of them whose operand is a list."""
_WRITTEN: Final = re.compile(rf"(any|gte|{'|'.join(_WORDS)})(?:\s+(.*))?", re.DOTALL)
_BOUNDS: Final = re.compile(r"(\S+)\s+lte\s+(\S+)")
_BARRED: Final = ("%", "\\", "..", "//")
_PROBE: Final = "q#7é_Z"
"""A constraint that accepts this word accepts any: it constrains nothing."""
_MADE_OF: Final = "".join(sorted(set(map(chr, range(33, 127))) - set("%\\-./")))
"""The characters of the texts that are tried to see how freely a pattern lets a text be chosen."""
_MADE_LENGTHS: Final = (*range(4, 41), 48, 50, 60, 64, 80, 100, 128, 150, 200)
_MARKS: Final = tuple("!\"#$&'(*)+,:;<=>?@[]^_`{|}~"[start::3] for start in range(3))
"""The marks of ASCII in three parts: who takes all of one, whatever it leaves out, takes any text."""


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
        alone = len(operators) == 1 and operators.keys() <= _WORDS.keys()
        if not _is_kind(kind) or not (not operators or alone or operators.keys() == _RANGE):
            raise MalformedError("has a constraint with an unknown type or operator")
        made = cls(kind, operators, tuple(_test(kind, name, operand) for name, operand in operators.items()))
        # A pattern that takes everything would make the signature cover what nobody thought of.
        if operators and (made.takes(_PROBE) or made._takes_marks()):
            raise MalformedError("has a constraint that takes any text; name what stays the same")
        return made

    @classmethod
    def read(cls, text: str, kinds: Sequence[Kind] = ()) -> Constraint:
        """Read an operator and its operand: ``glob acme/*``, ``one_of ["a", "b"]``, ``gte 1 lte 100``, ``any``.

        `kinds` are the types that the value may have, if that is known. Raises MalformedError.
        """
        match = _WRITTEN.fullmatch(text.strip())
        if match is None:
            raise MalformedError(f"has no operator; write one of any, gte with lte, {', '.join(_WORDS)}")
        name, rest = match[1], match[2] or ""
        if name == "any":
            few = [kind for kind in kinds if kind != "integer" or "number" not in kinds]
            if len(few) != 1:
                raise MalformedError("has a value of unknown type; say what it may be")
            return cls.of(few[0], {})
        if name == "gte":
            bounds = _BOUNDS.fullmatch(rest)
            if bounds is None:
                raise MalformedError("has no two bounds; write: gte 1 lte 100")
            low, high = map(_plain, bounds.groups())
            return cls.of(_kind([low, high], kinds), {"gte": low, "lte": high})
        if name in _LISTED or (name == "under" and rest.startswith("[")):
            values = read_list(rest) if name == "one_of" or rest.startswith("[") else [rest]
            return cls.of(_kind(values, kinds), {name: values})
        value = _plain(rest) if name == "equals" else rest
        if name == "equals" and "string" in kinds and kind_of(value) not in kinds:
            value = rest  # of a text, `equals 5` means the text 5
        return cls.of(_kind([value], kinds), {name: value})

    def takes(self, value: object) -> bool:
        """Whether the grant's constraint allows a value."""
        if type(value) is not _KINDS[self.kind]:
            return False
        if not self.operators:
            return all_clear(value) and not (isinstance(value, int | float) and abs(value) > INTEGER_MAX)
        # The operators judge more spellings than a grant may leave open, so this is checked besides them.
        if isinstance(value, str) and not is_plain_word(value):
            return False
        # An operator answers None for a value that it cannot judge, and that is not a yes.
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
        """In words, for the person who signs."""
        operators = self.operators
        if not operators:
            return f"is any {self.kind}"
        if operators.keys() == _RANGE:
            return f"is from {operators['gte']} to {operators['lte']}"
        ((name, operand),) = operators.items()
        said = operand if isinstance(operand, str) else json.dumps(operand, ensure_ascii=False)
        return _WORDS[name].format(said)


_CHOOSING: Final = frozenset({"regex", "glob", "starts_with", "ends_with"})
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


def read_list(text: str) -> list[Any]:
    """A JSON list written by an operator. Raises MalformedError."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list):
        raise MalformedError('has a list that is not JSON; write ["a", "b"]')
    return values


def _plain(text: str) -> Any:
    """A number, true, false or a text in quotes as JSON has it; anything else is a text as it is written."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if kind_of(value) is None else value


def _kind(values: Sequence[Any], kinds: Sequence[Kind]) -> Kind:
    """The type that operands are of, and the value may have. Raises MalformedError."""
    found = {kind_of(value) for value in values}
    kind = found.pop() if len(found) == 1 else "number" if found == {"integer", "number"} else None
    if kind == "integer" and "number" in kinds:
        kind = "number"  # 2 is also how JSON writes the number 2.0
    if kind is None:
        raise MalformedError("has a list that is empty, or has values of several types")
    if kinds and kind not in kinds:
        raise MalformedError(f"has a constraint for the type {kind}, but the value's type is {' or '.join(kinds)}")
    return kind


def _is_kind(value: object) -> TypeGuard[Kind]:
    return isinstance(value, str) and value in _KINDS


def _test(kind: Kind, name: str, operand: Any) -> Test:
    """The contracts' test for an operand that a value of the type could fulfil. Raises MalformedError."""
    operands = operand if isinstance(operand, list) and (name in _LISTED or name == "under") else [operand]
    if not 1 <= len(operands) <= limits.GRANT_CHOICES:
        raise MalformedError(f"has a list that does not have 1 to {limits.GRANT_CHOICES} values")
    if name in ("equals", "one_of", "gte", "lte"):
        if (name in _RANGE and kind not in ("integer", "number")) or (name == "one_of" and kind == "boolean"):
            raise MalformedError(f"has {name} for a {kind}; write equals")
        if (name == "one_of" and operands is not operand) or not all(_fits(kind, item) for item in operands):
            raise MalformedError("has a bound or a choice that no value of its type fulfils")
    elif kind != "string" or (name in _LISTED and operands is not operand):
        raise MalformedError("has an operator for texts with another type, or without its list")
    elif not all(isinstance(item, str) and len(item) <= limits.GRANT_WORD_CHARS for item in operands):
        raise MalformedError(f"has a pattern that is not a string of at most {limits.GRANT_WORD_CHARS} characters")
    try:
        return _whole(operand) if name == "regex" else OPERATORS[name](operand)
    except (BadPattern, BadOperand) as error:
        raise MalformedError(f"has {error}") from None


def _fits(kind: Kind, value: object) -> bool:
    """Whether an operand is a value that a constraint of the type may take. The canonical rendering of the number 1.0
    is 1, so that is a number as well.
    """
    if type(value) is not _KINDS[kind] and not (kind == "number" and type(value) is int):
        return False
    if isinstance(value, str):
        return is_plain_word(value)
    return isinstance(value, int | float) and abs(value) <= INTEGER_MAX


def _whole(pattern: str) -> Test:
    """Contracts search a pattern; what a grant leaves open must match it from end to end."""
    match = compile_pattern(pattern, whole=True)
    return lambda value: match(value) is not None
