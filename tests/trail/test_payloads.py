"""Every kind of event has one payload, which reads and writes the lines that are in trails today, and says what
happened.

`tests/data/every_kind_of_event.jsonl` has each form of each kind as the code wrote it before there were payloads.
"""

from __future__ import annotations

import tarfile
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import few
from threegate.trail.chain import Chain
from threegate.trail.event import Event, known_kinds, make_event, parse_line
from threegate.trail.payloads import (
    PAYLOADS,
    Approved,
    Cancelled,
    Claimed,
    Cleared,
    Finished,
    OperatorAdded,
    Payload,
    Refused,
    SessionOpened,
    Validated,
    Waiting,
)
from threegate.trail.story import sentence, story_line

DATA = Path(__file__).parent.parent / "data"
EVERY_LINE = (DATA / "every_kind_of_event.jsonl").read_bytes().splitlines()
KINDS = """workspace_created observed validated quarantined proposed approved countersigned rejected refused
    waiting cleared claimed started finished interrupted cancel_requested cancelled approval_abandoned replayed
    applied pruned workspace_adopted session_opened session_killed checkpoint_answered rotated
    operator_added operator_revoked settings_changed checkpoint""".split()
"""Those of the core; those of the plugins are in tests/whole/test_payloads.py."""
LINES = [line for line in EVERY_LINE if parse_line(line).type in KINDS]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "x", "a" * 64]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["code", "session", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def keys_of(payload: type[Payload]) -> list[str]:
    return [name.rstrip("_") for name in payload.__dataclass_fields__]  # type: ignore[attr-defined]


def lines_of_0_1_0() -> list[bytes]:
    with tarfile.open(DATA / "upgrade" / "0.1.0.tar.gz") as archive:
        names = [name for name in archive.getnames() if "/audit/trail" in name and name.endswith(".jsonl")]
        files = [archive.extractfile(name) for name in names]
        return [line for file in files if file for line in file.read().splitlines()]


def render_again(event: Event) -> bytes:
    """The line that this version writes for what it read from the line."""
    return make_event(
        seq=event.seq,
        time=event.time,
        type=event.payload.kind,
        request_id=event.request_id,
        actor=event.actor,
        data=event.payload.to_data(),
        prev=event.prev,
    ).line


def plain_words(text: str) -> bool:
    return bool(text) and "?" not in text and "None" not in text and "''" not in text and "  " not in text


def test_each_kind_has_exactly_one_payload() -> None:
    assert sorted(PAYLOADS) == sorted(KINDS) and len(KINDS) == 30
    assert {kind: payload.kind for kind, payload in PAYLOADS.items()} == {kind: kind for kind in KINDS}
    assert len(set(PAYLOADS.values())) == 30


def test_the_fixture_is_a_trail_with_every_kind() -> None:
    chain = Chain()
    assert {chain.take(line).type for line in EVERY_LINE} >= set(KINDS)


def check_it_is_written_as_it_was(line: bytes) -> None:
    event = parse_line(line)
    assert type(event.payload) is known_kinds()[event.type] and event.payload is event.payload
    assert event.payload.to_data() == event.data
    assert render_again(event) == line
    assert plain_words(sentence(event)) and sentence(event) in story_line(event)


@pytest.mark.parametrize("line", LINES, ids=lambda line: parse_line(line).type)
def test_a_line_is_written_as_it_was_before_there_were_payloads(line: bytes) -> None:
    check_it_is_written_as_it_was(line)


def test_the_trail_of_0_1_0_is_written_as_it_was() -> None:
    lines = lines_of_0_1_0()
    assert len(lines) == 29
    for line in lines:
        event = parse_line(line)
        assert render_again(event) == line and plain_words(sentence(event))


def check_nothing_at_all_is_read(kind: str) -> None:
    payload = known_kinds()[kind].from_data({})
    assert plain_words(payload.sentence())
    assert all(not value or value is None for value in payload.to_data().values())


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_at_all_is_read_and_said(kind: str) -> None:
    check_nothing_at_all_is_read(kind)


def check_whatever_is_in_a_line(kind: str, data: st.DataObject) -> None:
    payload = known_kinds()[kind]
    given_data = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys([*keys_of(payload), "new"], VALUES)))
    read = payload.from_data(given_data)
    assert plain_words(read.sentence())
    written = read.to_data()
    assert "new" not in written
    assert payload.from_data(orjson.loads(orjson.dumps(written))).to_data() == written


@pytest.mark.parametrize("kind", few(KINDS, 3))
@settings(max_examples=30)  # of each of some fifty kinds
@given(data=st.data())
def test_whatever_is_in_a_line_is_read(kind: str, data: st.DataObject) -> None:
    check_whatever_is_in_a_line(kind, data)


def test_a_value_of_a_wrong_type_is_not_there() -> None:
    wrong = {
        "approval_sha256": 7,
        "file": ["x"],
        "owner_uid": True,
        "inputs": {"a": 1},
        "grant": {},
        "nonce": None,
    }
    approved = Approved.from_data(wrong)
    assert (approved.approval_sha256, approved.file, approved.owner_uid) == (None, None, None)
    assert (approved.inputs, approved.grant, approved.nonce) == (None, None, None)
    assert Finished.from_data({"status": 1, "wall_ms": "12", "exit_code": 1.5}).to_data() == {}
    assert Validated.from_data({"valid": "yes", "rules": "TG101"}).to_data() == {"valid": False, "rules": []}
    assert Refused.from_data({"contract": ["x"]}).contract is None
    assert not Waiting.from_data({"reason": ["checkpoint_required"]}).moves_sessions()
    assert OperatorAdded.from_data({"operators_sha256": 1}).operators_sha256 is None


def test_only_an_event_of_the_kind_has_the_payload() -> None:
    claimed = next(event for event in map(parse_line, LINES) if event.type == "claimed")
    assert Claimed.of(claimed) is claimed.payload
    assert Approved.of(claimed) is None and Claimed.of(None) is None


def test_signed_is_said_only_of_what_somebody_signed() -> None:
    signed = Approved(approved_by="ada", approval_sha256="a" * 64, request_sha256="b" * 64)
    assert signed.sentence() == f"approved and signed by ada (request {'b' * 12}, statement {'a' * 12})"
    granted = Approved(approved_by="ada", grant="c" * 64)
    assert granted.sentence() == f"approved under grant {'c' * 12}, given by ada; not signed individually"
    assert Approved(approved_by="ada").sentence() == "approved by ada"


def test_a_session_is_named() -> None:
    assert SessionOpened(session="s-1", requester="ann").sentence() == "opened the session s-1"
    opened = SessionOpened(session="s-2", workflow="release", role="tester")
    assert opened.sentence() == "opened the session s-2 as tester in workflow release"


def test_null_is_written_beside_what_it_belongs_to() -> None:
    by_hand = Cancelled(message="enough", reason="cancelled").to_data()
    assert by_hand["approved_by"] is None and "exit_code" not in by_hand
    ran = Cancelled(record_sha256="a" * 64, status="cancelled").to_data()
    assert ran["exit_code"] is None and "approved_by" not in ran


def test_a_payload_is_made_of_its_own_fields_and_never_changed() -> None:
    made: Any = Waiting(reason="quorum_missing")
    with pytest.raises(FrozenInstanceError):
        made.reason = None
    with pytest.raises(FrozenInstanceError):
        del made.reason
    kind: Any = Cleared
    with pytest.raises(TypeError, match="Cleared: surprise, would_block$"):
        kind(surprise=1)
