"""Lines that no well-behaved MCP client sends: each id gets an answer, and nothing ambiguous is acted on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.core import limits
from threegate.plugins.serve.mcp_reading import NotRead, ids_of, read_line

CALL = '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"aana_pre_tool_check","arguments":%s}}'
DEEP = "[" * 1000 + "]" * 1000
LONG = "9" * 6000
PARSE, INVALID = -32700, -32600
LINES: list[tuple[str, bytes, list[object], int]] = [
    ("duplicate argument", (CALL % (1, '{"a":1,"a":2}')).encode(), [1], PARSE),
    ("duplicate method", b'{"jsonrpc":"2.0","id":2,"method":"ping","method":"tools/list"}', [2], PARSE),
    ("the same id twice", b'{"jsonrpc":"2.0","id":3,"id":3,"method":"ping"}', [3], PARSE),
    ("two ids", b'{"jsonrpc":"2.0","id":4,"id":5,"method":"ping"}', [None], PARSE),
    ("an escaped key twice", b'{"jsonrpc":"2.0","id":6,"\\u0069d":6,"method":"ping"}', [6], PARSE),
    ("integer of 6,000 digits", (CALL % (7, LONG)).encode(), [7], PARSE),
    ("id of 6,000 digits", (CALL % (LONG, "{}")).encode(), [None], PARSE),
    ("lone surrogate", (CALL % ('"s8"', '{"a":"\\ud800"}')).encode(), ["s8"], PARSE),
    ("lone surrogate as key", (CALL % (9, '{"\\udfff":1}')).encode(), [9], PARSE),
    ("lone surrogate as id", (CALL % ('"\\ud800"', "{}")).encode(), [None], PARSE),
    ("depth 1,000", (CALL % (10, '{"a":' + DEEP + "}")).encode(), [10], PARSE),
    ("depth 100,000", (CALL % (11, "[" * 100_000)).encode(), [11], PARSE),
    ("depth 1,000 before the id", (b'{"params":%s,"id":12,"method":"ping"}' % DEEP.encode()), [12], PARSE),
    ("NaN", (CALL % (13, '{"a":NaN}')).encode(), [13], PARSE),
    ("infinity", (CALL % (14, '{"a":1e999}')).encode(), [14], PARSE),
    ("no UTF-8", (CALL % (15, '{"a":"')).encode() + b"\xff" + b'"}}}', [15], PARSE),
    ("a byte order mark", b"\xef\xbb\xbf" + (CALL % (16, "{}")).encode(), [16], PARSE),
    ("cut", (CALL % (17, "{}")).encode()[:-3], [17], PARSE),
    ("two values", b'{"jsonrpc":"2.0","id":18,"method":"ping"} 1', [18], PARSE),
    ("garbage", b"hello", [None], PARSE),
    ("too long", (CALL % (19, '{"a":"%s"}' % ("x" * 1_100_000))).encode(), [19], PARSE),
    ("batch", b'[{"jsonrpc":"2.0","id":20,"method":"ping"},{"id":"b"},{"method":"x"}]', [20, "b"], INVALID),
    ("batch with a twice", b'[{"id":21,"a":1,"a":2},{"id":22}]', [21, 22], PARSE),
    ("empty batch", b"[]", [None], INVALID),
    ("batch of batches", b'[[{"id":1}]]', [None], INVALID),
    ("no method", b'{"jsonrpc":"2.0","id":23}', [23], INVALID),
    ("method of another type", b'{"jsonrpc":"2.0","id":24,"method":5}', [24], INVALID),
    ("params of another type", b'{"jsonrpc":"2.0","id":25,"method":"ping","params":5}', [25], INVALID),
    ("no version", b'{"id":26,"method":"ping"}', [26], INVALID),
    ("id in another place", b'{"a":{"id":1},"b":["id",2],"c":"\\"id\\":3"}', [None], INVALID),
    ("null", b"null", [None], INVALID),
]  # fmt: skip


@pytest.mark.parametrize(("what", "line", "ids", "code"), LINES, ids=[line[0] for line in LINES])
def test_a_line_that_is_no_message_is_refused_with_its_ids(
    what: str, line: bytes, ids: list[object], code: int
) -> None:
    with pytest.raises(NotRead) as caught:
        read_line(line)
    assert caught.value.code == code and ids_of(line) == ids
    assert "999999" not in str(caught.value)


@given(st.binary(max_size=200) | st.text('{}[]:,"\\ idé0', max_size=60).map(str.encode))
def test_no_line_is_without_an_answer(line: bytes) -> None:
    """Whatever it is, the scan ends and names something to answer."""
    assert ids_of(line)


@given(st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(codec="utf-8"), max_size=30))
def test_the_scan_finds_the_id_that_json_finds(message_id: object) -> None:
    line = json.dumps({"params": {"id": "no"}, "id": message_id, "x": ['{"id":1}']}).encode()
    assert ids_of(line) == [message_id]


def test_every_line_is_answered_by_the_real_server(tmp_path: Path) -> None:
    """None of these got an answer to its id, and the client waited for ever; duplicate keys were acted on."""
    start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    begin = [
        json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": start}).encode(),
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b"",
    ]
    end = b'{"jsonrpc":"2.0","id":"last","method":"ping"}'
    expected = [item for _, _, ids, _ in LINES for item in ids]
    process = subprocess.Popen(
        [sys.executable, "-m", "threegate", "serve", "mcp", "--log", str(tmp_path / "d.jsonl")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stdin and process.stdout
    try:
        process.stdin.write(b"\n".join([*begin, *(line for _, line, _, _ in LINES), end, b""]))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(len(expected) + 2)]
        process.stdin.close()
        assert process.wait(30) == 0
    finally:
        process.kill()
    errors = [answer["id"] for answer in answers if "error" in answer]
    assert errors == expected
    assert {answer["id"] for answer in answers if "result" in answer} == {0, "last"}
    log = tmp_path / "d.jsonl"
    assert not log.exists() or not log.read_text(), "nothing of it was taken for a tool call"
    assert len(LINES[20][1]) > limits.MCP_LINE_BYTES
