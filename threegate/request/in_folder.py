"""The folder /in as a run will see it: which files and folders are there, and the bytes of those that can be read.

Invariant: it depends on the declared inputs and their bytes alone. Of an input whose bytes are not at hand nothing is
known but its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from threegate.request.model import InputFile
from threegate.request.tar_reader import TarEntry, TarError, read_tar

OpenKnown = Callable[[InputFile], BinaryIO | None]
"""Gives an input, open for reading, if its declared bytes are at hand. Raises OSError."""


@dataclass
class InFolder:
    """/in. Paths are relative to it; an input is opened only when something in it is asked for."""

    inputs: Sequence[InputFile]
    open_known: OpenKnown
    _trees: dict[str, dict[str, TarEntry] | None] = field(default_factory=dict)
    """What is in each unpacked input, by the name of its folder; None: not known."""

    def has(self, path: str) -> bool | None:
        """Whether a file or folder is there; None if that is not known."""
        return self.is_file(path) or self.is_folder(path)

    def is_file(self, path: str) -> bool | None:
        """Whether a file is there; None if that is not known."""
        item, inside = self._find(path)
        if item is None:
            return False
        if not item.unpack:
            return not inside
        tree = self._tree(item)
        return None if tree is None else inside in tree and not tree[inside].folder

    def is_folder(self, path: str) -> bool | None:
        """Whether a folder is there; None if that is not known."""
        item, inside = self._find(path)
        if item is None or not item.unpack:
            return not path
        if not inside:
            return True
        tree = self._tree(item)
        return None if tree is None else inside in tree and tree[inside].folder

    def names(self, folder: str) -> Iterator[str]:
        """The names of all that is known to be in a folder."""
        if not folder:
            yield from (_folder_of(item) if item.unpack else item.name for item in self.inputs)
            return
        item, inside = self._find(folder)
        tree = self._tree(item) if item is not None and item.unpack else None
        for path in tree or ():
            above, _, name = path.rpartition("/")
            if above == inside:
                yield name

    def read(self, path: str, most: int) -> bytes | None:
        """The first `most` bytes of a file; None if they are not at hand."""
        item, inside = self._find(path)
        if item is None or (entry := self._entry(item, inside)) is None:
            return None
        offset, size = entry
        try:
            stream = self.open_known(item)
            if stream is None:
                return None
            with stream:
                stream.seek(offset)
                return stream.read(min(size, most))
        except OSError:
            return None

    def _entry(self, item: InputFile, inside: str) -> tuple[int, int] | None:
        """Offset and size of a file in its input; the whole input is as long as it is."""
        if not item.unpack:
            return None if inside else (0, 1 << 62)
        entry = (self._tree(item) or {}).get(inside)
        return None if entry is None or entry.folder else (entry.offset, entry.size)

    def _find(self, path: str) -> tuple[InputFile | None, str]:
        """The input that a path is in, and the rest of the path."""
        first, _, inside = path.partition("/")
        found = (item for item in self.inputs if first == (_folder_of(item) if item.unpack else item.name))
        return next(found, None), inside

    def _tree(self, item: InputFile) -> dict[str, TarEntry] | None:
        name = item.name
        if name not in self._trees:
            self._trees[name] = None
            try:
                if (stream := self.open_known(item)) is not None:
                    with stream:
                        self._trees[name] = {entry.path: entry for entry in read_tar(stream)}
            except (OSError, TarError):  # an archive that cannot be unpacked is refused elsewhere
                pass
        return self._trees[name]


def _folder_of(item: InputFile) -> str:
    return item.name.removesuffix(".tar")
