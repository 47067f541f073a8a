"""A tool's answer as the files of a run: `result.json`, and a file for each image, sound or other binary.

Invariant: none of them contains the value of a secret that the server was given, or a hit of the secret scan;
everything in them is data that a foreign program wrote.
"""

from __future__ import annotations

import base64
import binascii
import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from threegate.core import limits
from threegate.secretscan import mask_secrets
from threegate.tools.server_process import Answer

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
_MASKED: Final = "[secret]"


def answer_files(answer: Answer, secrets: Sequence[str]) -> tuple[tuple[str, bytes], ...]:
    """(name, bytes) of each file; `secrets` are the values that the server was given."""
    files: list[tuple[str, bytes]] = []
    blocks: list[Any] = []
    for given in answer.content:
        block: dict[str, Any] = copy.deepcopy(dict(given))
        holder, key = binary_part(block)
        holder.pop(FILE_KEY, None)  # this key is ours to set
        data = _decoded(holder.get(key))
        if data is None:
            blocks.append(block)
        elif any(value.encode() in data for value in secrets if value):
            blocks.append({"type": "text", "text": f"{_MASKED} was in these bytes, so they are not here"})
        else:
            name = f"content-{len(blocks)}.{_ENDINGS.get(str(holder.get('mimeType')), 'bin')}"
            files.append((name, data))
            del holder[key]
            holder[FILE_KEY] = name
            blocks.append(block)
    value: dict[str, Any] = {"content": blocks, "isError": answer.is_error}
    for key, said in (
        ("structuredContent", answer.structured),
        ("_meta", answer.meta),
        ("error", answer.error),
    ):
        if said is not None:
            value[key] = said
    masked = _masked(value, lambda text: _mask(text, secrets))
    return ((RESULT, json.dumps(masked, ensure_ascii=False, indent=1).encode("utf-8", "replace")), *files)


def texts_of(files: Sequence[tuple[str, bytes]]) -> str:
    """The text blocks of a result, one after another, for readers without JSON."""
    value = json.loads(files[0][1])
    texts = [block.get("text") for block in value["content"] if block.get("type") == "text"]
    return "".join(f"{text}\n" for text in texts if isinstance(text, str))


def progress_line(said: Mapping[str, Any], secrets: Sequence[str]) -> bytes:
    """A progress notification as one line for people and for the door: `3 of 5: message`; one of another form
    is left out.
    """
    numbers = [said[key] for key in ("progress", "total") if type(said.get(key)) in (int, float)]
    message = said.get("message")
    parts = [" of ".join(map(str, numbers))]
    if isinstance(message, str):
        parts.append(" ".join(_mask(message, secrets).split()))
    return ": ".join(filter(None, parts))[: limits.LIVE_LINE_CHARS].encode("utf-8", "replace")


def binary_part(block: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Where the base64 of a block would be: the object that has it, and the key (`data`; an embedded
    resource's `blob`).
    """
    resource = block.get("resource")
    if block.get("type") == "resource" and isinstance(resource, dict):
        return resource, "blob"
    return block, "data"


def _decoded(text: object) -> bytes | None:
    """The bytes of base64 that round-trips exactly; None for anything else, which is left unchanged."""
    if not isinstance(text, str):
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


def _mask(text: str, secrets: Sequence[str]) -> str:
    for value in sorted((value for value in secrets if value), key=len, reverse=True):
        text = text.replace(value, _MASKED)
    return mask_secrets(text)


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    """The same value with every string in it masked, keys included."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {mask(key): _masked(item, mask) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, mask) for item in value]
    return value
