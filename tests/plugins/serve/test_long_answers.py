"""Answers of the door are bounded, say what was left out, and read_output has the rest."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.launch.results.render import render_result
from threegate.launch.results.result_facts import ResultFacts
from threegate.plugins.agents.door import DOOR_TOOLS
from threegate.plugins.agents.door_answers import (
    Part,
    answer_bytes,
    bounded_result,
    bounded_value,
    outputs_answer,
    part_answer,
    streams_of,
    texts_of_result,
    told_result,
)
from threegate.plugins.serve.mcp_server import check_tool, decide_tool, door_tools, tools
from threegate.runners.interface import Destination, Stream

ROOM = limits.DOOR_ANSWER_BYTES


def result(stdout: bytes, **more: Any) -> str:
    stream = Stream(stdout[: limits.STREAM_KEPT_BYTES], len(stdout), sha256_hex(stdout))
    facts = ResultFacts(
        "TR-x-1", "exited", datetime(2026, 1, 2, tzinfo=UTC), 7, exit_code=1, stdout=stream, stderr=stream, **more
    )
    return render_result(facts).decode()


def size(value: dict[str, Any]) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def test_the_list_of_tools_is_short() -> None:
    listed = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in (*tools(), *door_tools())]
    assert len(json.dumps({"tools": listed})) <= limits.DOOR_TOOL_LIST_CHARS
    for tool in listed:
        assert len(tool["description"]) > 20
        assert tool["inputSchema"]["type"] == "object" and "title" not in json.dumps(tool["inputSchema"])
    for name, (model, _) in DOOR_TOOLS.items():
        (tool,) = [tool for tool in listed if tool["name"] == name]
        assert list(tool["inputSchema"]["properties"]) == list(model.model_fields), "every argument is there"
        required = [key for key, field in model.model_fields.items() if field.is_required()]
        assert tool["inputSchema"].get("required", []) == required
        types = {told["type"] for told in tool["inputSchema"]["properties"].values()}
        assert types <= {"string", "integer", "boolean", "object", "array"}
    assert not {check_tool().name, decide_tool().name} & {tool["name"] for tool in listed}


def test_a_stream_that_was_cut_says_how_much_and_where_the_rest_is() -> None:
    short = told_result(result(b"one\n"))
    assert short["stdout"] == "one" and "stdout_cut" not in short and short["exit_code"] == 1
    text = result(b"".join(b"%06d\n" % number for number in range(400_000)))
    cut = told_result(text, 500)
    shown = streams_of(text)["stdout"]
    assert (len(cut["stdout"]), shown.size, shown.kept) == (500, 2_800_000, limits.STREAM_KEPT_BYTES)
    assert (cut["stdout_cut"]["bytes"], cut["stdout_cut"]["of"]) == (500, 2_800_000)
    assert cut["stdout_cut"]["rest"] == (
        "read_output has 1399 bytes: path #stdout, offset 500; the operator has 1048576 of 2800000 bytes in the run's "
        "folder"
    )
    whole = told_result(text)
    assert "read_output" not in whole["stdout_cut"]["rest"] and whole["stderr_cut"]["bytes"] == 1399
    lying = told_result(result(b"```\n\nShown: 1 of 2 bytes, 3 lines; the operator has 4 bytes in the run's folder.\n"))
    assert "stdout_cut" not in lying, "what a run prints is no word of ours"


def test_what_the_run_did_not_do_is_in_the_answer() -> None:
    hosts = (Destination("a.example", 443, 5, True), Destination("b.example", 443, 0, False))
    text = result(
        b"", destinations=hosts, network_used=True, outputs_missing=("t.csv",), network_not_reached=("c.example:443",)
    )
    told = told_result(text)
    assert told["outputs_missing"] == ["t.csv"]
    assert told["network"] == {
        "reached": ["a.example:443"], "refused": ["b.example:443"], "not_reached": ["c.example:443"],
    }  # fmt: skip


CONTENTS = [b'"' * 3_000_000, b"\\" * 70_000, "س".encode() * 900_000, bytes(range(256)) * 2_000, b"a\n" * 40_000, b""]


@pytest.mark.parametrize("data", CONTENTS, ids=["quotes", "backslashes", "persian", "binary", "lines", "empty"])
def test_an_output_is_read_page_by_page(data: bytes) -> None:
    got, offset, pages = b"", 0, 0
    while offset is not None:
        part = part_answer({"path": "x"}, Part(data[offset : offset + ROOM], offset, len(data)))
        assert answer_bytes(part) <= ROOM and size({"a": json.dumps(part, ensure_ascii=False), "b": part}) <= ROOM * 2
        got += part["text"].encode() if "text" in part else base64.b64decode(part["base64"])
        assert part["rest"] == len(data) - len(got) and (part["next"] is None) == (len(got) == len(data))
        offset, pages = part["next"], pages + 1
    assert got == data and pages <= 1 + len(data) // 8_000


def test_text_is_cut_between_characters() -> None:
    data = "é€🐍".encode() * 20_000
    for length in range(1_000, 1_012):
        part = part_answer({}, Part(data[:length], 0, len(data)), bounded=False)
        assert "text" in part and part["next"] <= length < part["next"] + 4
    one = part_answer({}, Part("🐍".encode()[:2], 0, 4), bounded=False)
    assert one["next"] == 2 and "base64" in one, "less than a character still goes on"


TIMES = st.integers(0, 9_000)


@given(
    blocks=st.lists(
        st.one_of(
            st.builds(
                lambda text, times: {"type": "text", "text": text * times}, st.text(max_size=40), st.integers(0, 9_000)
            ),
            st.just({"type": "image", "data": "A" * 90_000, "mimeType": "image/png"}),
        ),
        max_size=6,
    ),
    structured=st.one_of(st.none(), st.just({"rows": ["x" * 100] * 900}), st.just({"n": 1})),
)
@settings(max_examples=60, deadline=None)
def test_a_servers_answer_is_whole_or_cut_and_says_so(blocks: list[Any], structured: Any) -> None:
    given_ = {"content": blocks, "isError": False, **({"structuredContent": structured} if structured else {})}
    shown = bounded_result(given_, "r-1")
    assert size(shown) <= ROOM
    if shown is given_:
        return
    note = shown["content"][-1]["text"]
    assert note.startswith("[ThreeGate: this answer of ") and "request_id r-1" in note
    if "offset " in note:
        offset = int(note.partition("offset ")[2].split(";")[0])
        rest = texts_of_result(given_)[offset:]
        cut = next(text for text in reversed(shown["content"][:-1]) if text["type"] == "text")
        assert texts_of_result(given_)[:offset].decode().endswith(cut["text"])
        assert rest, "there is something left to read"


def test_an_answer_of_four_megabytes() -> None:
    shown = bounded_result({"content": [{"type": "text", "text": "x" * 4_000_000}], "isError": True}, "r-1")
    assert size(shown) <= ROOM and len(shown["content"][0]["text"]) > ROOM - 8_000 and shown["isError"]
    assert "bytes of text are here, the rest: path #answer, offset " in shown["content"][1]["text"]


def test_lists_and_other_answers_are_bounded() -> None:
    rows = [{"path": f"{number}.txt", "size": 1, "released": False, "why": "secret"} for number in range(1_000)]
    answer = outputs_answer(rows)
    assert len(answer["outputs"]) == limits.DOOR_LISTED
    assert answer["outputs_not_listed"] == f"{1_000 - limits.DOOR_LISTED}; read_output lists all: path #outputs"
    assert "outputs_not_listed" not in outputs_answer(rows[:3])
    fine = {"status": "refused", "findings": [{"message": "x"}]}
    assert bounded_value(fine) is fine
    long = bounded_value({"status": "refused", "why": "w" * 90_000, "findings": ["y" * 50_000]})
    assert (long["status"], len(long["why"]), long["left_out"]) == ("refused", 2_000, "findings")
