"""The inputs of a request as parts of a screen, from our own copies: what `request/shown_whole.py` says is shown, in its order.

Invariant: bounded in time and memory whatever the files hold; bytes that are no text are shown as escapes, so that one of
them hides nothing of the others; nothing is unpacked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from threegate.request.model import InputFile
from threegate.request.shown_whole import Part, ShownInput, shown_inputs
from threegate.review.input_copies import InputCopy


@dataclass(frozen=True, slots=True)
class Preview:
    """A head of ours, and foreign text below it (not yet escaped); `path` names a file of a tar and is foreign, too."""

    head: str
    text: str
    path: str = ""


def previews(
    inputs: Sequence[InputFile], copies: Sequence[InputCopy]
) -> list[tuple[ShownInput, list[Preview]]]:
    """For each input why it is not shown whole, and what is shown of it. Raises OSError."""
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
        names = "\n".join(
            f"{entry.size:>12} {entry.path}{'/' if entry.folder else ''}" for entry in found.entries
        )
        files = sum(not entry.folder for entry in found.entries)
        previews.insert(0, Preview(f"archive, {files} files:", names))
    return previews or [Preview("empty", "")]


def _head(part: Part) -> str:
    if part.shown == part.size:
        return f"{part.size} bytes, all of them:"
    return f"the first {part.shown} of {part.size} bytes:" if part.shown else f"{part.size} bytes, not shown"
