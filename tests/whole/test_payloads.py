"""Every kind of event that a plugin gives has one payload, which reads and writes the lines that are in trails today.

As tests/trail/test_payloads.py says it of the core's.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import slow
from tests.trail.test_payloads import (
    EVERY_LINE,
    KINDS,
    check_it_is_written_as_it_was,
    check_nothing_at_all_is_read,
    check_whatever_is_in_a_line,
)
from threegate.trail.chain import Chain
from threegate.trail.event import known_kinds, parse_line

OF_PLUGINS = """granted grant_revoked witnessed undo_started undone project_added project_removed agent_started
    agent_ended findings_decided drill_set drill_placed drill_ended tools_added tools_refreshed tools_removed
    cluster.operators_distributed agents.host_closed""".split()
LINES = [line for line in EVERY_LINE if parse_line(line).type in OF_PLUGINS]


def test_each_kind_has_exactly_one_payload() -> None:
    kinds = [*KINDS, *OF_PLUGINS]
    assert sorted(known_kinds()) == sorted(kinds) and len(kinds) == 48
    assert {kind: payload.kind for kind, payload in known_kinds().items()} == {kind: kind for kind in kinds}
    assert len(set(known_kinds().values())) == 48


def test_the_fixture_is_a_trail_with_every_kind() -> None:
    chain = Chain()
    assert {chain.take(line).type for line in EVERY_LINE} == set(known_kinds())


@pytest.mark.parametrize("line", LINES, ids=lambda line: parse_line(line).type)
def test_a_line_is_written_as_it_was_before_there_were_payloads(line: bytes) -> None:
    check_it_is_written_as_it_was(line)


@pytest.mark.parametrize("kind", OF_PLUGINS)
def test_nothing_at_all_is_read_and_said(kind: str) -> None:
    check_nothing_at_all_is_read(kind)


@pytest.mark.parametrize("kind", [slow(kind) for kind in OF_PLUGINS])
@settings(max_examples=30)
@given(data=st.data())
def test_whatever_is_in_a_line_is_read(kind: str, data: st.DataObject) -> None:
    check_whatever_is_in_a_line(kind, data)
