"""What a tool answered, as the files of a run: `result.json`, and each image or sound as a file of its own.

Invariant: no value of a secret that the server was given is in any of them, and no hit of the secret scan; everything in
them is data that a stranger's program wrote.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from threegate.secretscan import mask_secrets
from threegate.tools.server_process import Answer

RESULT: Final = "result.json"
FILE_KEY: Final = "threegate_file"
"""In the place of a block's `data`: the name of the file that has its bytes."""
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
        block = {key: value for key, value in given.items() if key != FILE_KEY}  # that one is ours to set
        data = _bytes_of(block)
        if data is None:
            blocks.append(block)
        elif any(value.encode() in data for value in secrets if value):
            blocks.append({"type": "text", "text": f"{_MASKED} was in these bytes, so they are not here"})
        else:
            name = f"content-{len(blocks)}.{_ENDINGS.get(str(block.get('mimeType')), 'bin')}"
            files.append((name, data))
            del block["data"]
            blocks.append({**block, FILE_KEY: name})
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
    """The text blocks of a result, one below the other, for whoever reads no JSON."""
    value = json.loads(files[0][1])
    texts = [block.get("text") for block in value["content"] if block.get("type") == "text"]
    return "".join(f"{text}\n" for text in texts if isinstance(text, str))


def _bytes_of(block: Mapping[str, Any]) -> bytes | None:
    """The bytes that an image or audio block carries; None for any other one, which stays as it is."""
    if block.get("type") not in ("image", "audio") or not isinstance(block.get("data"), str):
        return None
    try:
        return base64.b64decode(block["data"], validate=True)
    except (binascii.Error, ValueError):
        return None


def _mask(text: str, secrets: Sequence[str]) -> str:
    for value in sorted((value for value in secrets if value), key=len, reverse=True):
        text = text.replace(value, _MASKED)
    return mask_secrets(text)


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    """The same value with every string of it masked, keys included."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {mask(key): _masked(item, mask) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, mask) for item in value]
    return value
