"""What the door answers about a request that ended: bounded, with the place where the rest is.

Invariant: an answer is at most DOOR_ANSWER_BYTES of JSON, both of its forms counted, unless `read_output` was asked for
a length. What was left out is said, and `read_output` has it: an output by its path, the rest of a cut answer by one of
the names that begin with CUT. Texts are the result's, masked and made visible there, or a server's, masked where they
left its stream.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from threegate.core import limits
from threegate.request.source import FrontMatter, SourceRefused, plain_value, read_mapping

CUT: Final = "#"
"""`#stdout`, `#stderr`, `#answer`, `#outputs`: what an answer has only the beginning of. `/out/#stdout` is a file."""
_STREAM: Final = r"^## {}\n\n(`{{3,}})[a-z]*\n(.*?)\n\1$"
_SHOWN: Final = re.compile(r"\n\nShown: [0-9]{1,20} of ([0-9]{1,20}) bytes, .*; the operator has ([0-9]{1,20}) bytes ")
_RESERVED: Final = 2 * limits.KIB
"""Of a bounded answer of a server, for what we say about it."""


@dataclass(frozen=True, slots=True)
class DoorAnswer:
    """The answer to a call."""

    value: dict[str, Any]
    refused: bool = False
    """Whether the call could not be carried out."""
    completes: tuple[str, str] | None = None
    """The call that this answer completes, by its digest, and its request."""
    result: dict[str, Any] | None = None
    """A server tool's answer, in MCP's form; then `value` is about the request."""


class Part(NamedTuple):
    """Bytes of a file of `size` bytes, from `offset` on."""

    data: bytes
    offset: int
    size: int


class ResultStream(NamedTuple):
    """A stream in a result's text: what is there, all bytes of it, and the bytes that the operator has."""

    text: str
    size: int
    kept: int


def _front(text: str) -> tuple[dict[str, Any], int]:
    """The front matter of a result's text, and the index of the line that closes it. Raises SourceRefused."""
    front = FrontMatter(text, max_bytes=limits.RESULT_BYTES // 2)
    return plain_value(read_mapping(front.text, max_nodes=limits.RESULT_BYTES)), front.end


def answer_bytes(value: Mapping[str, Any]) -> int:
    """The JSON of an answer with this value: as an object, and as text."""
    text = json.dumps(value, ensure_ascii=False)
    return _size(text) + len(text.encode("utf-8", "replace"))


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _head(text: str, most: int) -> str:
    """The first bytes of a text, in whole characters."""
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def streams_of(text: str) -> dict[str, ResultStream]:
    """stdout and stderr in the text of a result."""
    try:
        body = text.split("\n", _front(text)[1] + 1)[-1]
    except SourceRefused:
        body = text
    found = {}
    for name in ("Stdout", "Stderr"):
        match = re.search(_STREAM.format(name), body, re.DOTALL | re.MULTILINE)
        shown = match[2] if match else ""
        # What follows the fence is ours: nothing that a run writes gets out of it.
        more = _SHOWN.match(body, match.end()) if match else None
        size = len(shown.encode())
        found[name.lower()] = ResultStream(shown, int(more[1]) if more else size, int(more[2]) if more else size)
    return found


def told_result(text: str, most: int = limits.DOOR_STREAM_BYTES) -> dict[str, Any]:
    """The content of a result, from its front matter and its streams, `most` bytes of each."""
    try:
        values, _ = _front(text)
    except SourceRefused:
        values = {}
    found: dict[str, Any] = {key: values.get(key) for key in ("exit_code", "reason", "runtime_sec", "network_used")}
    for name, stream in streams_of(text).items():
        found[name] = shown = _head(stream.text, most)
        told = len(shown.encode())
        there = len(stream.text.encode())
        if told < there or there < stream.size:
            whole = max(stream.size, there)
            rest = [f"read_output has {there} bytes: path {CUT}{name}, offset {told}"] if told < there else []
            if there < whole:
                rest.append(f"the operator has {stream.kept} of {whole} bytes in the run's folder")
            found[f"{name}_cut"] = {"bytes": told, "of": whole, "rest": "; ".join(rest)}
    detail = re.search(r"^- Detail: (.*)$", text, re.MULTILINE)
    found["detail"] = detail[1] if detail else None
    if values.get("outputs_missing"):
        found["outputs_missing"] = [
            _head(path, limits.DOOR_LONG_CHARS) for path in values["outputs_missing"][: limits.DOOR_LISTED]
        ]
    return {**found, **_network(values)}


def _network(values: Mapping[str, Any]) -> dict[str, Any]:
    """Which hosts were reached, refused, and allowed but not reached."""
    rows = values.get("network_destinations") or []
    told = {
        "reached": [f"{row['host']}:{row['port']}" for row in rows if row["allowed"]],
        "refused": [f"{row['host']}:{row['port']}" for row in rows if not row["allowed"]],
        "not_reached": list(values.get("network_not_reached") or []),
    }
    shown = {name: hosts[: limits.DOOR_LISTED] for name, hosts in told.items() if hosts}
    return {"network": shown} if shown else {}


def outputs_answer(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The outputs in an answer: the first, and how many more there are."""
    left = len(rows) - limits.DOOR_LISTED
    more = {"outputs_not_listed": f"{left}; read_output lists all: path {CUT}outputs"} if left > 0 else {}
    return {"outputs": list(rows[: limits.DOOR_LISTED]), **more}


def bounded_value(value: dict[str, Any]) -> dict[str, Any]:
    """An answer that is not about a run: without its lists and with its texts cut, if it would be too long."""
    if answer_bytes(value) <= limits.DOOR_ANSWER_BYTES:
        return value
    short = {key: item[: limits.DOOR_LONG_CHARS] if isinstance(item, str) else item for key, item in value.items()}
    kept = {key: item for key, item in short.items() if not isinstance(item, list | dict)}
    return {**kept, "left_out": ", ".join(key for key in short if key not in kept)}


def as_text(data: bytes) -> dict[str, str]:
    """Bytes for an answer: text if they are UTF-8, else base64."""
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def part_answer(about: Mapping[str, Any], part: Part, *, bounded: bool = True, share: int = 1) -> dict[str, Any]:
    """Part of an output, with `next`: the offset of what follows it, or None at its end. `share`: how many parts an
    answer has.
    """
    most = limits.DOOR_ANSWER_BYTES // share
    data = part.data
    while True:
        if part.offset + len(data) < part.size:
            data = _whole_characters(data)
        after = part.offset + len(data)
        value = {
            **about,
            "offset": part.offset,
            "rest": max(0, part.size - after),
            "next": after if after < part.size else None,
            **as_text(data),
        }
        size = answer_bytes(value) + _RESERVED
        if not bounded or size <= most or len(data) <= 1:
            return value
        data = data[: max(1, min(len(data) - 1, len(data) * most // size))]


def _whole_characters(data: bytes) -> bytes:
    """Text without a last character that is cut in the middle; other bytes as they are."""
    for cut in range(4):
        end = len(data) - cut
        try:
            data[:end].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return data[:end] if end > 0 else data
    return data


def texts_of_result(result: Mapping[str, Any]) -> bytes:
    """The text blocks of a server's answer, one after another."""
    texts = (block.get("text") for block in result["content"] if block.get("type") == "text")
    return "".join(f"{text}\n" for text in texts if isinstance(text, str)).encode("utf-8", "replace")


def bounded_result(result: dict[str, Any], request_id: str) -> dict[str, Any]:
    """A server's answer, or as much of it as fits, with our own last block, which says where the rest is."""
    if _size(result) + _RESERVED <= limits.DOOR_ANSWER_BYTES:
        return result
    room = limits.DOOR_ANSWER_BYTES - 2 * _RESERVED
    blocks: list[Any] = []
    texts = 0
    cut_at: int | None = None
    left: list[str] = []
    for block in result["content"]:
        text = block.get("text") if block.get("type") == "text" else None
        size = _size(block)
        if size <= room and not (cut_at is not None and isinstance(text, str)):
            blocks.append(block)
            room -= size
            texts += 0 if not isinstance(text, str) else len(text.encode("utf-8", "replace")) + 1
        elif isinstance(text, str):
            if cut_at is None:
                shown = _fitting(text, room - _size({**block, "text": ""}))
                blocks.append({**block, "text": shown})
                room -= _size(blocks[-1])
                cut_at = texts + len(shown.encode())
        else:
            left.append(str(block.get("type"))[:32])
    value: dict[str, Any] = {"content": blocks, "isError": result.get("isError", False)}
    for key in ("_meta", "structuredContent", "error"):
        if key in result:
            if _size(result[key]) <= room:
                value[key] = result[key]
                room -= _size(result[key])
            else:
                left.append(key)
    if "error" in left:
        value["isError"] = True
    total = len(texts_of_result(result))
    said = [f"this answer of {_size(result)} bytes was cut"]
    if cut_at is not None:
        said.append(f"{cut_at} of {total} bytes of text are here, the rest: path {CUT}answer, offset {cut_at}")
    if left:
        said.append(f"left out: {', '.join(left[:8])} (path result.json, or a file of its own)")
    note = f"[ThreeGate: {'; '.join(said)}; with read_output and request_id {request_id}]"
    return {**value, "content": [*blocks, {"type": "text", "text": note}]}


def _fitting(text: str, room: int) -> str:
    """As much of the beginning of a text as fits as JSON."""
    shown = _head(text, max(0, room))
    while shown and (size := _size(shown)) > room:
        shown = _head(shown, min(len(shown.encode()) - 1, len(shown.encode()) * max(0, room) // size))
    return shown
