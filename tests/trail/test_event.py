"""A line is exactly the RFC 8785 rendering of its own parse, whatever goes in."""

from __future__ import annotations

import orjson
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.secretscan.test_forms import EXAMPLES
from tests.trail.workspaces import WORKSPACE_ID
from threegate.core import limits
from threegate.trail.event import LineError, make_event, parse_line, parse_time, trail_text, trail_value

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.binary(max_size=10),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=8), children, max_size=4),
    max_leaves=12,
)


def event_of(data: object, **changes: object):
    values = {
        "seq": 1,
        "time": "2026-01-01T00:00:00.000Z",
        "type": "workspace_created",
        "request_id": None,
        "actor": "me",
        "data": data,
        "prev": WORKSPACE_ID,
    }
    return make_event(**{**values, **changes})


@settings(max_examples=300)
@given(st.dictionaries(st.text(max_size=20), ANY, max_size=6), st.text(max_size=300), st.text(max_size=300))
@pytest.mark.slow
def test_every_line_is_canonical_and_reads_back(data, actor, request_id) -> None:
    event = event_of(data, actor=actor, request_id=request_id)
    assert rfc8785.dumps(orjson.loads(event.line)) == event.line
    assert parse_line(event.line) == event
    assert event.line.isascii() and b"\n" not in event.line


@settings(max_examples=300)
@given(ANY)
@pytest.mark.slow
def test_what_the_trail_holds_is_the_same_for_orjson_and_rfc8785(value) -> None:
    held = trail_value(value)
    assert orjson.dumps(held, option=orjson.OPT_SORT_KEYS) == rfc8785.dumps(held)


@given(st.text(max_size=400))
def test_foreign_text_is_short_printable_ascii(text) -> None:
    shown = trail_text(text)
    assert len(shown) <= limits.TRAIL_STRING_CHARS
    assert shown.isascii() and (shown.isprintable() or not shown)


def test_foreign_text_is_escaped_without_ambiguity() -> None:
    assert trail_text("a\\n\n\u202e\U0001f600é") == "a\\\\n\\x0a\\u202e\\U0001f600\\xe9"
    assert trail_text("x" * 200) == "x" * 200
    assert trail_text("x" * 201) == "x" * 197 + "..."
    assert trail_text("\x00" * 60) == "\\x00" * 49 + "..."
    assert trail_text("\ud800") == "\\ud800"


_PIECES = st.sampled_from(
    ["password", "token", "api_key", "--", "-u ", "-u a:", "=", ": ", " ", '"', "'", "\n", "(", ")", ",", "hunter2x1", "abcd1234efgh5678", "AKIA" + "A1" * 8, "Authorization: Bearer ", "AUTHORIZATION: BEARER", "curl ", "basic_auth('a', '", "set(", "é", "\ud800", "://a:b@", "eyJhIjox.e30", "x" * 200]  # noqa: E501
)  # fmt: skip
TEXTS = st.lists(_PIECES, max_size=8).map("".join)


@settings(max_examples=400, deadline=None)
@given(st.lists(TEXTS | st.sampled_from([example for _, example in EXAMPLES]), min_size=1, max_size=6))
def test_texts_searched_together_are_masked_as_each_alone_is(texts: list[str]) -> None:
    """Whatever is beside a secret, as a name or a value, at the top or deeper, who acts, and which request it is."""
    data = {texts[0]: texts[-1], "files": {text: [text] for text in texts}, "other": texts}
    event = event_of(data, actor=texts[0], request_id=texts[-1])
    assert event.data == trail_value(data)
    assert (event.actor, event.request_id) == (trail_text(texts[0]), trail_text(texts[-1]))


@pytest.mark.parametrize("before", ["", "password=", "curl -u ", "-----BEGIN RSA PRIVATE KEY-----", "token: ", "'"])
@pytest.mark.parametrize(("kind", "example"), EXAMPLES, ids=[f"{kind}-{n}" for n, (kind, _) in enumerate(EXAMPLES)])
def test_no_form_is_missed_between_other_texts(kind: str, example: str, before: str) -> None:
    data = {"a": before, "b": example, example: before, "c": "and more"}
    assert event_of(data).data == trail_value(data)
    assert trail_text(example) in event_of(data).data.values(), kind


def test_too_much_data_is_cut_to_its_digest() -> None:
    event = event_of({f"key{n}": ["x" * 200] * 256 for n in range(50)} | {"status": "failed"})
    assert len(event.line) <= limits.TRAIL_LINE_BYTES
    assert set(event.data) == {"cut_sha256", "status"}
    assert parse_line(event.line) == event


def test_long_lists_say_how_much_was_left_out() -> None:
    assert trail_value(list(range(300)))[-1] == "... 44 more"


def test_an_unknown_type_is_our_own_mistake() -> None:
    with pytest.raises(ValueError, match="no event type"):
        event_of({}, type="nonsense")


GOOD = event_of({"a": 1}).line


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"", "not JSON"),
        (b"[]", "keys"),
        (b"{}", "keys"),
        (GOOD + b" ", "canonical"),
        (GOOD.replace(b'"a":1', b'"a": 1'), "canonical"),
        (GOOD.replace(b'"a":1', b'"a":1,"a":1'), "canonical"),
        (GOOD.replace(b'"a":1', b'"a":2'), "hash"),
        (b"x" * (limits.TRAIL_LINE_BYTES + 1), "longer"),
        (GOOD.replace(b'"me"', '"mé"'.encode()), "ASCII"),
    ],
)
def test_lines_that_are_no_events(line: bytes, what: str) -> None:
    with pytest.raises(LineError, match=what):
        parse_line(line)


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"v": True},
        {"seq": "1"},
        {"seq": True},
        {"time": "2026-01-01T00:00:00Z"},
        {"time": "2026-13-01T00:00:00.000Z"},
        {"time": "2026-02-30T00:00:00.000Z"},
        {"time": "0000-01-01T00:00:00.000Z"},
        {"type": "Nonsense"},
        {"type": "a.b.c"},
        {"type": "a" * 41},
        {"type": []},
        {"request_id": 1},
        {"actor": None},
        {"data": []},
        {"data": {"x": 1.5}},
        {"data": {"x": [{"y": 1.0}]}},
        {"data": {"x": 2**53}},
        {"prev": None},
        {"hash": None},
        {"hash": 5},
    ],
)
def test_values_of_wrong_types_are_refused_even_with_the_right_hash(change) -> None:
    import hashlib

    body = {**orjson.loads(GOOD), **change}
    bare = orjson.dumps({k: v for k, v in body.items() if k != "hash"}, option=orjson.OPT_SORT_KEYS)
    if "hash" not in change:
        body["hash"] = hashlib.sha256(bare).hexdigest()
    with pytest.raises(LineError):
        parse_line(orjson.dumps(body, option=orjson.OPT_SORT_KEYS))


@pytest.mark.parametrize("depth", [250, 300, 1000, 1100, 10_000])
def test_a_line_of_any_depth_is_read_or_refused(depth: int) -> None:
    nested = b'{"a":' * depth + b"1" + b"}" * depth
    with pytest.raises(LineError):
        parse_line(GOOD.replace(b'{"a":1}', nested))


@pytest.mark.parametrize(
    "text", ["", "2026-01-01T00:00:00.0000", "2026-02-30T00:00:00.000Z", "2026-01-01 00:00:00.000Z"]
)
def test_only_one_spelling_of_a_time(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text)
