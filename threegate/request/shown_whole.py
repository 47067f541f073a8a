"""Which inputs the full review screen shows in full, so that a person can read everything in them at once.

Invariant: the answer depends only on the inputs' bytes. It is the same when a request is approved and when it
is launched, whoever reads it and however far they scrolled, so it can be part of the signed Job. An input is
shown in full if it is UTF-8 text without hidden characters, or a tar to be unpacked that contains nothing
else, and fits into SHOWN_BYTES together with the inputs before it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from threegate.core import limits
from threegate.request.backend import BACKENDS
from threegate.request.characters import describe, hidden_places
from threegate.request.model import InputFile, Request
from threegate.request.tar_reader import TarEntry, TarError, read_tar

OpenInput = Callable[[InputFile], BinaryIO]
"""Gives our copy of an input, open for reading. Raises OSError."""

# The record that ends a zip archive. Interpreters run the zip, whatever precedes it.
ZIP_END: Final = b"PK\x05\x06"
# It and the longest comment that may follow it, in bytes.
_ZIP_TAIL: Final = 65_557
_TEXT_HEAD: Final = 512
# The bytes that a name in the list of a tar takes besides itself.
_ROW: Final = 16
# A line that makes Python read a file in another encoding (PEP 263): then it means something else than is shown.
_CODING: Final = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_ENCODINGS: Final = ("utf-8", "utf8", "ascii", "us-ascii")


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of an input that are shown below each other: a whole file, or a file of a tar (`path`).

    `shown` of its `size` bytes are on the screen, from the first one at `offset`.
    """

    path: str
    offset: int
    size: int
    shown: int


@dataclass(frozen=True, slots=True)
class ShownInput:
    """What a screen shows of an input; `why` it is not all that is in it, in our words, or nothing."""

    why: str
    parts: tuple[Part, ...]
    entries: tuple[TarEntry, ...] = ()
    """Files and folders of a tar that is unpacked."""


def unread_inputs(request: Request, open_input: OpenInput) -> tuple[str, ...]:
    """The names of inputs that may hold code and that the full screen does not show whole. Raises OSError."""
    if BACKENDS[request.backend].data_inputs:
        return ()
    shown = shown_inputs(request.inputs, open_input)
    return tuple(item.name for item, found in zip(request.inputs, shown, strict=True) if found.why)


def shown_inputs(inputs: Sequence[InputFile], open_input: OpenInput) -> list[ShownInput]:
    """What is shown of each input, in their order. Raises OSError."""
    left = limits.SHOWN_BYTES
    found = []
    for item in inputs:
        with open_input(item) as stream:
            shown = _unpacked(stream, left) if item.unpack else _plain(stream, left)
        left -= sum(part.shown for part in shown.parts if part.shown == part.size)
        left -= _names_size(shown.entries)
        found.append(shown)
    return found


def _plain(stream: BinaryIO, left: int) -> ShownInput:
    size = stream.seek(0, io.SEEK_END)
    kind = archive_at_end(stream)
    if size > left:
        return ShownInput(kind or _too_large(size), (Part("", 0, size, min(size, limits.SHOWN_HEAD_BYTES)),))
    stream.seek(0)
    return ShownInput(kind or why_not_plain(stream.read(size)), (Part("", 0, size, size),))


def _unpacked(stream: BinaryIO, left: int) -> ShownInput:
    try:
        entries = read_tar(stream)
    except TarError as error:
        return ShownInput(f"it cannot be unpacked: {error}", ())
    left -= _names_size(entries)
    if left < 0:
        return ShownInput(f"it holds {len(entries)} files and folders, more than are shown", ())
    why, parts = "", []
    for entry in entries:
        if entry.folder:
            continue
        shown = entry.size if entry.size <= left else 0
        left -= shown
        stream.seek(entry.offset)
        found = why_not_plain(stream.read(shown)) if shown == entry.size else _too_large(entry.size)
        why = why or (f"a file in it: {found}" if found else "")
        parts.append(Part(entry.path, entry.offset, entry.size, shown))
    return ShownInput(why, tuple(parts), entries)


def _names_size(entries: Sequence[TarEntry]) -> int:
    return sum(len(entry.path.encode()) + _ROW for entry in entries)


def _too_large(size: int) -> str:
    return f"it has {size} bytes; of all inputs together {limits.SHOWN_BYTES} are shown"


def archive_at_end(stream: BinaryIO) -> str:
    """What kind of file this is if it ends with a zip archive, in words; nothing for every other file."""
    stream.seek(max(0, stream.seek(0, io.SEEK_END) - _ZIP_TAIL))
    if ZIP_END not in stream.read(_ZIP_TAIL):
        return ""
    stream.seek(0)
    before = stream.read(_TEXT_HEAD).partition(b"PK\x03\x04")[0]
    if not before:
        return "it is a zip archive"
    kind = "data" if b"\0" in before else "text"
    return f"it is {kind} followed by a zip archive, which an interpreter would run"


def why_not_plain(data: bytes) -> str:
    """Why a screen does not show what these bytes mean, in words; nothing for plain text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"its byte {error.start} is not UTF-8"
    # A line may end with CR LF; a CR by itself ends a line in Python, inside of what is shown as one.
    text = text.replace("\r\n", "\n")
    place = next(hidden_places(text), None)
    if place is not None:
        return f"it holds hidden characters ({describe(text[place])})"
    return "it says that it is to be read in another encoding than UTF-8" if names_other_encoding(text) else ""


def names_other_encoding(text: str) -> bool:
    """Whether one of its first two lines makes Python read a file in another encoding than UTF-8."""
    codings = [match[1] for line in text.split("\n", 2)[:2] if (match := _CODING.match(line)) is not None]
    return any(coding.lower().replace("_", "-") not in _ENCODINGS for coding in codings)
