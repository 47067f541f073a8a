"""The inputs of a request as parts of a screen, from our own copies: what `request/shown_whole.py` selects,
in its order, and on demand a whole input in pages.

Invariant: memory is bounded whatever the files hold; bytes that are not text are shown as escapes, so that
none hides another; the pages of an input hold each of its bytes once, in order; nothing is unpacked.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from threegate.core import limits
from threegate.request.model import InputFile
from threegate.request.shown_whole import Part, ShownInput, shown_inputs
from threegate.request.tar_reader import TarEntry, read_tar
from threegate.review.input_copies import InputCopy


@dataclass(frozen=True, slots=True)
class Preview:
    """Our heading, and foreign text below it, not yet escaped. `path` names a file of a tar and is foreign too; `line`
    is the number of the text's first line.
    """

    head: str
    text: str
    path: str = ""
    line: int = 1


def previews(inputs: Sequence[InputFile], copies: Sequence[InputCopy]) -> list[tuple[ShownInput, list[Preview]]]:
    """For each input, why it is not shown in full, and what is shown of it. Raises OSError."""
    by_name = {copy.name: copy for copy in copies}
    shown = shown_inputs(inputs, lambda item: by_name[item.name].open())
    return [
        (found, _previews(found, by_name[item.name], unpack=item.unpack))
        for item, found in zip(inputs, shown, strict=True)
    ]


def _previews(found: ShownInput, copy: InputCopy, *, unpack: bool) -> list[Preview]:
    with copy.open() as stream:

        def text(part: Part) -> str:
            stream.seek(part.offset)
            return stream.read(part.shown).decode("utf-8", "backslashreplace")

        previews = [Preview(_head(part), text(part), part.path) for part in found.parts if part.size]
    if unpack:
        previews.insert(0, _names(found.entries))
    return previews or [Preview("empty", "")]


def pages(item: InputFile, copy: InputCopy) -> Iterator[Preview]:
    """A whole input: for a tar that is unpacked, the names and then each file. Raises OSError, TarError."""
    with copy.open() as stream:
        if not item.unpack:
            yield from _pages(stream, Part("", 0, copy.size, 0))
            return
        entries = read_tar(stream)
        yield _names(entries)
        for entry in entries:
            if not entry.folder:
                yield from _pages(stream, Part(entry.path, entry.offset, entry.size, 0))


def _pages(stream: BinaryIO, part: Part) -> Iterator[Preview]:
    """A part, up to INPUT_PAGE_BYTES at a time: whole lines, or pieces of a longer line."""
    at, line, inside = 0, 1, False
    while True:
        stream.seek(part.offset + at)
        data = stream.read(min(limits.INPUT_PAGE_BYTES, part.size - at))
        last = not data or at + len(data) == part.size
        cut = len(data) if last else data.rfind(b"\n") + 1 or len(data)
        text, taken = codecs.utf_8_decode(data[:cut], "backslashreplace", last)
        goes_on = f", line {line} continued" if inside else ""
        yield Preview(f"bytes {at} to {at + taken} of {part.size}{goes_on}:", text, part.path, line)
        if last:
            return
        at, line, inside = at + taken, line + text.count("\n"), not text.endswith("\n")


def _names(entries: Sequence[TarEntry]) -> Preview:
    names = "\n".join(f"{entry.size:>12} {entry.path}{'/' if entry.folder else ''}" for entry in entries)
    return Preview(f"archive, {sum(not entry.folder for entry in entries)} files:", names)


def _head(part: Part) -> str:
    if part.shown == part.size:
        return f"{part.size} bytes, all of them:"
    return f"the first {part.shown} of {part.size} bytes:" if part.shown else f"{part.size} bytes, not shown"
