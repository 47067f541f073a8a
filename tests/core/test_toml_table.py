"""Tables of a TOML file: what is no exact match is refused at its place, and no message repeats a value."""

from __future__ import annotations

import tomllib
from dataclasses import FrozenInstanceError
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.core.toml_table import Rule, Table, WrongValueError, read_table, setting


def even(value: int) -> None:
    if value % 2:
        raise ValueError("must be even")


class Inner(Table):
    """A table in a table."""

    name: str = setting(pattern=r"[a-z]{1,8}", description="which one")
    share: float = setting(default=0.5, ge=0, le=1)


class Outer(Table):
    """Every kind of value."""

    flag: bool = False
    count: int = setting(default=2, ge=1, le=8, check=even)
    word: Literal["a", "b"] = setting(default="a")
    words: tuple[str, ...] = setting(default=(), pattern=r"[a-z]+")
    size: int = setting(default=1, parse=lambda value: len(str(value)), le=3)
    inner: Inner = Inner(name="x")
    by_name: dict[str, Inner] = setting(default={})
    attributes: dict[str, str | int | float | bool] = setting(default={})


def read(text: str) -> Outer:
    return read_table(Outer, tomllib.loads(text))


def test_what_is_not_given_has_its_default() -> None:
    assert read("") == Outer() == read("[inner]\nname = 'x'")
    assert Outer.rules["flag"] == Rule(default=False)
    assert Outer().but(count=4).to_json() == {**Outer().to_json(), "count": 4}


def test_every_kind_is_read() -> None:
    made = read(
        "flag = true\ncount = 8\nword = 'b'\nwords = ['x', 'y']\nsize = 'abc'\nattributes = {a = 1, b = 'c', d = "
        "true}\n"
        "inner = {name = 'in', share = 1}\n[by_name.one]\nname = 'b'"
    )
    assert made.to_json() == {
        "flag": True,
        "count": 8,
        "word": "b",
        "words": ["x", "y"],
        "size": 3,
        "inner": {"name": "in", "share": 1.0},
        "by_name": {"one": {"name": "b", "share": 0.5}},
        "attributes": {"a": 1, "b": "c", "d": True},
    }
    assert type(made.inner.share) is float


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("flag = 1", ("flag",), "true or false"),
        ("count = true", ("count",), "a whole number"),
        ("count = 2.0", ("count",), "a whole number"),
        ("count = 0", ("count",), "at least 1"),
        ("count = 10", ("count",), "at most 8"),
        ("count = 3", ("count",), "even"),
        ("word = 'c'", ("word",), "one of: 'a', 'b'"),
        ("word = ['a']", ("word",), "one of"),
        ("words = 'a'", ("words",), "a list"),
        ("words = ['a', 'B']", ("words", 1), "match [a-z]+"),
        ("words = ['a', 1]", ("words", 1), "text"),
        ("size = 'abcd'", ("size",), "at most 3"),
        ("inner = 'x'", ("inner",), "a table"),
        ("inner = {}", ("inner", "name"), "missing"),
        ('inner = {name = "a\\n"}', ("inner", "name"), "match"),
        ("inner = {name = 'a', share = nan}", ("inner", "share"), "finite"),
        ("inner = {name = 'a', share = inf}", ("inner", "share"), "finite"),
        ("inner = {name = 'a', share = false}", ("inner", "share"), "a number"),
        ("by_name = 1", ("by_name",), "a table"),
        ("by_name.one = {name = 'a', shar = 1}", ("by_name", "one", "shar"), "unknown key"),
        ("attributes.a = []", ("attributes", "a"), "text or a whole number or a number or true or false"),
        ("flags = true", ("flags",), "unknown key"),
        ("flags = true\nword = 1", ("word",), "one of"),
    ],
)
def test_a_mistake_has_its_place(text: str, place: tuple[str | int, ...], message: str) -> None:
    with pytest.raises(WrongValueError) as found:
        read(text)
    assert (found.value.place, message in str(found.value)) == (place, True)


def test_a_table_is_not_changed_and_not_made_of_other_keys() -> None:
    table: Any = Outer()
    with pytest.raises(FrozenInstanceError):
        table.count = 4
    with pytest.raises(FrozenInstanceError):
        del table.count
    for wrong in ({"name": "x", "other": 1}, {"share": 1.0}):
        with pytest.raises(TypeError, match="Inner: "):
            Inner(**wrong)  # type: ignore[arg-type]
    assert table != Inner(name="x")


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(Outer.rules)), inner),
    max_leaves=8,
)


@given(_VALUES)
def test_any_value_is_read_or_refused(value: object) -> None:
    try:
        made = read_table(Outer, value)
    except WrongValueError:
        return
    assert read_table(Outer, made.to_json()).but(size=0) == made.but(size=0)
