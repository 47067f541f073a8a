"""Tables of a TOML file as frozen values, read strictly.

A class names its keys with their types and `setting()`; `read_table` makes the value from what `tomllib` read. Every
command reads the settings: with pydantic `threegate status` takes 255 ms of processor time instead of 160, and its
import alone, before any model, is 40 of them. What only some commands read is a model (`core/record.py`).

Invariant: an unknown key, a missing one, a wrong type (nothing is converted but a whole number to a float) or a value
out of range raises, and no message repeats a value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Final,
    Literal,
    NoReturn,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

REQUIRED: Final = object()
"""The default of a key that has none."""
_KINDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
}
_Place = tuple[str | int, ...]
_AnyTable = TypeVar("_AnyTable", bound="Table")


@dataclass(frozen=True)
class Rule:
    """What holds for a key beside its type. Bounds and pattern hold for each item of a list."""

    default: Any = REQUIRED
    description: str = ""
    ge: float | None = None
    le: float | None = None
    pattern: str = ""
    """A regular expression that matches the whole text."""
    parse: Callable[[object], Any] | None = None
    """Makes the value of what the file has, instead of a check of its type. Raises ValueError."""
    check: Callable[[Any], None] | None = None
    """Raises ValueError for a value that is refused."""
    rest: bool = False
    """Whether the key is not in the file: its value is a table of all keys that no other rule names."""
    example: str = ""
    """A line that shows a key of the table, where there is no default to show."""


class WrongValueError(ValueError):
    """The first mistake in a table: its place, as names and indexes, and what is wrong."""

    def __init__(self, place: _Place, message: str, *, unknown_key: bool = False) -> None:
        super().__init__(message)
        self.place = place
        self.unknown_key = unknown_key


def setting(**rule: Any) -> Any:
    """A key of a table; takes the fields of `Rule`."""
    return Rule(**rule)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(setting,))
class Table:
    """Base of a table: a frozen value, made by keywords and compared by value. Only `read_table` checks the values."""

    rules: ClassVar[Mapping[str, Rule]] = {}

    def __init_subclass__(cls) -> None:
        given = {name: vars(cls).get(name, Rule()) for name in cls.__annotations__}
        cls.rules = {name: rule if isinstance(rule, Rule) else Rule(default=rule) for name, rule in given.items()}

    def __init__(self, **values: Any) -> None:
        unknown = values.keys() - self.rules.keys()
        missing = [name for name, rule in self.rules.items() if rule.default is REQUIRED and name not in values]
        if unknown or missing:
            raise TypeError(f"{type(self).__name__}: {', '.join((*sorted(unknown), *missing))}")
        vars(self).update({name: rule.default for name, rule in self.rules.items()} | values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(name)

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(name)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))  # TypeError where a value is a dictionary, as for a frozen dataclass

    def but(self, **values: Any) -> Self:
        """The same table with other values of some keys."""
        return type(self)(**vars(self) | values)

    def to_json(self) -> dict[str, Any]:
        """The table as a JSON value."""
        made: dict[str, Any] = {}
        for name, value in vars(self).items():
            made |= _json(value) if self.rules[name].rest else {name: _json(value)}
        return made


def kinds_of(table: type[Table]) -> dict[str, Any]:
    """The type of each key."""
    kinds = get_type_hints(table)
    return {name: kinds[name] for name in table.rules}


def is_table(kind: Any) -> bool:
    """Whether a type is that of a table."""
    return isinstance(kind, type) and issubclass(kind, Table)


def read_table(table: type[_AnyTable], values: object, place: _Place = ()) -> _AnyTable:
    """A table of what TOML's reader made of it. Raises WrongValueError for the first mistake in the order of the
    keys.
    """
    if not isinstance(values, dict):
        raise WrongValueError(place, "must be a table")
    kinds = kinds_of(table) if values else {}
    given = {}
    for name, rule in table.rules.items():
        if rule.rest:
            others = {key: value for key, value in values.items() if key not in table.rules}
            values = {key: value for key, value in values.items() if key not in others}
            given[name] = _value(kinds[name], others, place, rule) if others else rule.default
        elif name in values:
            given[name] = _value(kinds[name], values[name], (*place, name), rule)
        elif rule.default is REQUIRED:
            raise WrongValueError((*place, name), "is missing; add it")
    for name in values:
        if name not in given:
            raise WrongValueError((*place, name), "unknown key", unknown_key=True)
    return table(**given)


def _value(kind: Any, value: Any, place: _Place, rule: Rule) -> Any:
    try:
        made = _of_kind(kind, value, place, rule) if rule.parse is None else rule.parse(value)
        if isinstance(made, str) and rule.pattern and not re.fullmatch(rule.pattern, made):
            raise ValueError(f"must match {rule.pattern}")
        if isinstance(made, int | float) and rule.ge is not None and made < rule.ge:
            raise ValueError(f"must be at least {rule.ge}")
        if isinstance(made, int | float) and rule.le is not None and made > rule.le:
            raise ValueError(f"must be at most {rule.le}")
        if rule.check is not None:
            rule.check(made)
    except WrongValueError:
        raise
    except (ValueError, OverflowError) as error:  # OverflowError: a whole number that no float can be
        raise WrongValueError(place, str(error)) from None
    return made


def _of_kind(kind: Any, value: Any, place: _Place, rule: Rule) -> Any:
    if is_table(kind):
        return read_table(kind, value, place)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        if not isinstance(value, list):
            raise ValueError("must be a list")
        each = Rule(ge=rule.ge, le=rule.le, pattern=rule.pattern)
        return tuple(_value(inner[0], item, (*place, number), each) for number, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise ValueError("must be a table")
        return {name: _value(inner[1], item, (*place, name), Rule()) for name, item in value.items()}
    if origin is Literal:
        if value not in inner:
            raise ValueError(f"must be one of: {', '.join(map(repr, inner))}")
        return value
    kinds = inner if origin in (Union, UnionType) else (kind,)
    if type(value) is int and kind is float:
        return float(value)
    if type(value) not in kinds:
        raise ValueError(f"must be {' or '.join(_KINDS[one] for one in kinds)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _json(value: Any) -> Any:
    if isinstance(value, Table):
        return value.to_json()
    if isinstance(value, dict):
        return {name: _json(inner) for name, inner in value.items()}
    return [_json(item) for item in value] if isinstance(value, tuple) else value
