"""A tool's answer as the files of a run: `result.json`, and a file for each image, sound or other binary.

Invariant: everything in them is data that a foreign program wrote, and was masked where it left the server's
stream (`tools/message_stream.py`).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from threegate.core import limits
from threegate.plugins.tools.called_server import Answer
from threegate.plugins.tools.known_values import MASK, exact_base64

RESULT: Final = "result.json"
FILE_KEY: Final = "threegate_file"
"""Used instead of a block's base64 (`binary_part`): the name of the file with its bytes."""
_ENDINGS: Final[Mapping[str, str]] = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "audio/wav": "wav",
    "audio/mpeg": "mp3",
}


def answer_files(answer: Answer) -> tuple[tuple[str, bytes], ...]:
    """(name, bytes) of each file."""
    files: list[tuple[str, bytes]] = []
    blocks: list[Any] = []
    for given in answer.content:
        block: dict[str, Any] = copy.deepcopy(dict(given))
        holder, key = binary_part(block)
        holder.pop(FILE_KEY, None)  # this key is ours to set
        given_data = holder.get(key)
        data = exact_base64(given_data)  # anything else is left unchanged
        if isinstance(given_data, str) and MASK in given_data:
            blocks.append({"type": "text", "text": f"{MASK} was in these bytes, so they are not here"})
        elif data is None:
            blocks.append(block)
        else:
            name = f"content-{len(blocks)}.{_ENDINGS.get(str(holder.get('mimeType')), 'bin')}"
            files.append((name, data))
            del holder[key]
            holder[FILE_KEY] = name
            blocks.append(block)
    value: dict[str, Any] = {"content": blocks, "isError": answer.is_error}
    for key, said in (("structuredContent", answer.structured), ("_meta", answer.meta), ("error", answer.error)):
        if said is not None:
            value[key] = said
    return ((RESULT, json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "replace")), *files)


def texts_of(files: Sequence[tuple[str, bytes]]) -> str:
    """The text blocks of a result, one after another, for readers without JSON."""
    value = json.loads(files[0][1])
    texts = [block.get("text") for block in value["content"] if block.get("type") == "text"]
    return "".join(f"{text}\n" for text in texts if isinstance(text, str))


def progress_line(said: Mapping[str, Any]) -> bytes:
    """A progress notification as a line for people and for the door: `3 of 5: message`; of another form, empty."""
    numbers = [said[key] for key in ("progress", "total") if type(said.get(key)) in (int, float)]
    message = said.get("message")
    parts = [" of ".join(map(str, numbers))]
    if isinstance(message, str):
        parts.append(" ".join(message.split()))
    return ": ".join(filter(None, parts))[: limits.LIVE_LINE_CHARS].encode("utf-8", "replace")


def binary_part(block: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Where the base64 of a block would be: the object that has it, and the key (`data`, or a resource's `blob`)."""
    resource = block.get("resource")
    if block.get("type") == "resource" and isinstance(resource, dict):
        return resource, "blob"
    return block, "data"
