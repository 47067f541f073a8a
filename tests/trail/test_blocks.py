"""Blocks of the trail's bytes: a changed line is found wherever they end, and a line must have the one form."""

from __future__ import annotations

import hashlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trail.workspaces import grow, make_workspace, raw_trail
from threegate.core.workspace import Workspace
from threegate.trail import tree
from threegate.trail.chain import Chain
from threegate.trail.event import LineError
from threegate.trail.verify import verify_trail

LINES = raw_trail(300)


@pytest.fixture(name="workspace", scope="module")
def a_workspace(tmp_path_factory) -> Workspace:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        workspace, trail = make_workspace(tmp_path_factory.mktemp("ws") / "ws")
        grow(trail, 200)
    return workspace


@pytest.mark.parametrize("block", [600, 5_000, 1 << 20])
def test_the_place_of_a_changed_byte_whatever_the_blocks(workspace: Workspace, monkeypatch, block: int) -> None:
    """Blocks that end within, at and far behind the changed line."""
    monkeypatch.setattr("threegate.trail.chain.CHUNK", block)
    data = workspace.trail_file.read_bytes()
    assert verify_trail(workspace).ok
    try:
        for place in range(17, len(data), 1499):
            changed = bytearray(data)
            changed[place] ^= 4
            workspace.trail_file.write_bytes(changed)
            result = verify_trail(workspace)
            assert result.problems[0].line == data.count(b"\n", 0, place) + 1, place
    finally:
        workspace.trail_file.write_bytes(data)


@given(st.lists(st.integers(0, 90), max_size=6))
def test_a_frontier_grows_by_leaves_as_by_lines(sizes: list[int]) -> None:
    one, many = tree.Frontier(), tree.Frontier()
    for size in sizes:
        lines = [b"%d" % (one.size + number) for number in range(size)]
        many.extend([tree.leaf_hash(line) for line in lines])
        for line in lines:
            one.add(line)
        assert (many.size, many.root()) == (one.size, one.root())


FORGED = [
    {"v": True}, {"v": 2}, {"v": "1"}, {"seq": 2.0}, {"seq": 3}, {"seq": True}, {"actor": 5}, {"actor": None}, {"data": []},  # noqa: E501
    {"data": None}, {"request_id": 3}, {"time": "2026-13-01T00:00:02.000Z"}, {"time": "2026-01-01T00:00:00.000Z"},
    {"time": 7}, {"type": "Nonsense"}, {"type": "a.b.c"}, {"type": ["observed"]}, {"type": "workspace_created"},
    {"prev": "0" * 64},
    {"prev": None}, {"data": {"x": 1.5}}, {"data": {"x": 2**53}}, {"data": {"x": [1.5]}}, {"data": {"a": {"b": 1e9}}},
    {"data": {"x": [2**53]}}, {"another": "key"},
]  # fmt: skip


@pytest.mark.parametrize("change", FORGED, ids=str)
def test_a_line_with_the_right_hash_and_the_wrong_form_is_none(change: dict) -> None:
    """Whoever writes the file makes hashes that fit."""
    value = {key: item for key, item in orjson.loads(LINES[1]).items() if key != "hash"} | change
    value["hash"] = hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
    chain = Chain()
    chain.take(LINES[0])
    with pytest.raises(LineError):
        chain.take(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


@pytest.mark.parametrize("respell", [lambda line: line.replace(b":", b": ", 1), lambda line: line + b" ",
                                     lambda line: line.replace(b"observed", b"\\u006fbserved")])  # fmt: skip
def test_another_spelling_is_no_line(respell) -> None:
    chain = Chain()
    chain.take(LINES[0])
    for line in (respell(LINES[1]), b"", b"[]", b"5"):
        with pytest.raises(LineError):
            chain.take(line)
    assert chain.take(LINES[1]).seq == 2
