"""The strict JSON reader and the canonical bytes."""

import json
import math
from datetime import datetime

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from threegate.core import canonical
from threegate.core.canonical import StrictJSONError, loads_strict

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-canonical.INTEGER_MAX, canonical.INTEGER_MAX)
    | st.floats(-1e15, 1e15)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_canonical_bytes_are_a_fixed_point(value: object) -> None:
    data = canonical.canonical_bytes(value)
    assert canonical.canonical_bytes(loads_strict(data, max_bytes=1 << 20)) == data


@given(VALUES)
def test_canonical_bytes_are_those_of_rfc8785(value: object) -> None:
    """Whichever way they are made."""
    assert canonical.canonical_bytes(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        {"\ue000": 1, "\U0001f600": 2, "a": 3},
        {"é": 1, "z": 2},
        ['\x00\x1f\x7f\b\t\n\f\r"\\/\u2028é\U0001f600'],
        (1, (2,)),
        {"": {}, "a": []},
        [True, 1, 0, -0, None, 1.0],
        [[[[1]]] * 3] * 2,
    ],
)
def test_canonical_bytes_where_two_ways_could_part(value: object) -> None:
    assert canonical.canonical_bytes(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    ["\ud800", {"\ud800": 1}, 2**53, -(2**53), float("nan"), b"x", {1: 2}, datetime(2026, 1, 1), {"a": {1}}],
)
def test_what_has_no_canonical_form_is_an_error(value: object) -> None:
    with pytest.raises(ValueError, match="no canonical JSON form"):
        canonical.canonical_bytes(value)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":2}', b"NaN", b"[Infinity]", b"-Infinity", b"1e999", b"9007199254740993", b"123456789012345678901234567890",  # noqa: E501
        b'"\\ud800"', b'{"\\udfff":1}', b'["\\ud800x"]', b"\xef\xbb\xbf1", b"\xff", b"[" * 100 + b"]" * 100, b"{} x", b"", b"[1,]", b"'a'",  # noqa: E501
    ],
)  # fmt: skip
def test_what_has_two_meanings_is_refused(data: bytes) -> None:
    with pytest.raises(StrictJSONError):
        loads_strict(data, max_bytes=1000)


def test_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(StrictJSONError, match="more than 3 bytes"):
        loads_strict(b"[1]x", max_bytes=3)


def test_brackets_in_strings_are_not_depth() -> None:
    text = json.dumps({"a": "[" * 200 + '\\"{' * 10, "b": [1, {"c": []}]}).encode()
    assert loads_strict(text, max_bytes=10_000, max_depth=4)["b"] == [1, {"c": []}]


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert loads_strict(b'"\\ud83d\\ude00"', max_bytes=100) == "\U0001f600"


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_the_one_error(data: bytes) -> None:
    try:
        value = loads_strict(data, max_bytes=150)
    except StrictJSONError as error:
        assert len(str(error)) < 200
    else:
        assert not isinstance(value, float) or math.isfinite(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**60, "\ud800", {"a": object}])
def test_what_cannot_be_canonical_is_an_error(value: object) -> None:
    with pytest.raises(ValueError, match="no canonical JSON form"):
        canonical.canonical_bytes(value)
