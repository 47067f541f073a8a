"""The one reader of tar archives: for screens, approvals, what is unpacked for a run, and what an engine delivers.

Invariant: an entry returned by `read_tar` is a regular file or a folder with a relative path of ordinary
segments, each path once and never both a file and a folder; its bytes are inside the archive and count
towards the limits. Anything else (links, devices, sparse files, sizes in another notation, an archive without
its end) refuses the whole archive. Source: docs/spec/1-tool-request.md, "Tar inputs"; POSIX.1-2017 pax,
"ustar Interchange Format".
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

from threegate.core import limits
from threegate.request.characters import has_hidden

_BLOCK: Final = 512
_OCTAL: Final = re.compile(rb" *([0-7]+)[ \0]*")
_MAGIC_USTAR: Final = b"ustar\x0000"
_MAGIC_GNU: Final = b"ustar  \x00"
FILES: Final = (b"0", b"\0")
FOLDER: Final = b"5"
_LINK: Final = b"2"
_LONG_NAME, _PAX, _PAX_GLOBAL = b"L", b"x", b"g"
_PAX_RECORD: Final = re.compile(rb"([1-9][0-9]{0,5}) ([^=\n\0]+)=")


class TarError(ValueError):
    """The bytes are not a tar that may be unpacked; the message says which entry and why."""


@dataclass(frozen=True, slots=True)
class TarEntry:
    """A file or folder of an archive. `path` is relative, with '/'; a file's bytes are at `offset`, `size` long."""

    path: str
    folder: bool
    size: int = 0
    offset: int = 0
    mode: int | None = None
    """What the archive says, -1 for what is not an octal number; None for a folder that is only implied."""
    link: str | None = None
    """The target of a symlink, which only a change set has; None for everything else."""


@dataclass(frozen=True, slots=True)
class TarHeader:
    """An entry as its header says, of any kind. Nobody has judged `name`, and `link` is a hard link's other name."""

    name: bytes
    kind: bytes
    mode: int
    """Permission and set-id bits; -1 (all of them) for what is not an octal number."""
    size: int
    offset: int
    link: bytes


def read_headers(source: BinaryIO, most: int) -> Iterator[TarHeader]:
    """Every entry of an archive, links and special files included, for a caller that judges each one itself.

    Raises TarError for the malformed archives that `read_tar` refuses: checksums, sizes, attributes, a cut, a
    missing end. `most` limits the headers.
    """
    return _Reader(source, links=True).headers(most)


def read_tar(source: bytes | BinaryIO) -> tuple[TarEntry, ...]:
    """The entries of a plain (uncompressed) tar, in order, folders that are only implied included. Reads no contents.

    Raises TarError; bounded by TAR_ENTRIES entries and TAR_BYTES bytes of files.
    """
    return _Reader(io.BytesIO(source) if isinstance(source, bytes) else source).entries()


def read_change_tar(source: bytes | BinaryIO) -> tuple[TarEntry, ...]:
    """As `read_tar` for a change set: symlinks are entries too, and an attribute that is neither a path nor a link's
    target (an owner, an extended attribute, an access list) refuses the archive. Raises TarError.
    """
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    return _Reader(stream, change_set=True).entries()


class _Reader:
    """One pass over an archive, from its first header to its end mark."""

    def __init__(self, stream: BinaryIO, *, links: bool = False, change_set: bool = False) -> None:
        self._stream = stream
        self._change_set = change_set
        self._end = stream.seek(0, io.SEEK_END)
        self._taken: dict[str, TarEntry] = {}
        self._bytes = 0
        self._changing = {"size", "hdrcharset"} if links else {"size", "hdrcharset", "linkpath"}
        """Attributes that change how the bytes of an entry are read."""
        self._place = 0
        """The position of the header being read."""
        self._name: bytes | None = None
        """The next entry's name according to a separate header."""
        self._target: bytes | None = None
        """The target of the next entry of a change set according to a separate header."""

    def entries(self) -> tuple[TarEntry, ...]:
        for header in self.headers(2 * limits.TAR_ENTRIES):  # each entry may have one that names it
            if header.kind == _LINK and self._change_set:
                self._link(header)
                continue
            folder = header.kind == FOLDER
            if not folder and header.kind not in FILES:
                raise self._wrong(
                    "is a link, a device, sparse or another special file; only files and folders are unpacked"
                )
            if folder and header.size:
                raise self._wrong("is a folder with a size")
            if path := self._path(self._text(header.name), folder):
                self._take(TarEntry(path, folder, header.size, 0 if folder else header.offset, header.mode))
        return tuple(self._taken.values())

    def headers(self, most: int) -> Iterator[TarHeader]:
        place = headers = 0
        while (header := self._block(place)) != bytes(_BLOCK):
            self._place, headers = place, headers + 1
            if headers > most:
                raise TarError(f"has more than {most // 2} entries")
            size = self._size_of(header)
            start = place + _BLOCK
            place = start + -(-size // _BLOCK) * _BLOCK
            if place > self._end:
                raise self._wrong("is cut off")
            kind = header[156:157]
            if kind == _LONG_NAME:
                self._rename(self._extra(start, size).removesuffix(b"\0"))
            elif kind in (_PAX, _PAX_GLOBAL):
                self._pax(self._records(self._extra(start, size)), whole=kind == _PAX_GLOBAL)
            else:
                mode = _octal(header[100:108])
                target, self._target = self._target, None
                if target is not None and kind != _LINK:
                    raise self._wrong("has a target and is not a link")
                link = header[157:257].partition(b"\0")[0] if target is None else target
                yield TarHeader(self._name_of(header), kind, -1 if mode is None else mode, size, start, link)
        if self._name is not None or self._target is not None:
            raise TarError("ends after a name without its entry")
        # Some readers go on after the first end mark, and would find entries that nobody was shown.
        self._stream.seek(place)
        while chunk := self._stream.read(limits.MIB):
            if chunk.strip(b"\0"):
                raise TarError("has something after its end")

    def _wrong(self, why: str) -> TarError:
        return TarError(f"its entry at byte {self._place} {why}")

    def _block(self, place: int) -> bytes:
        self._stream.seek(place)
        block = self._stream.read(_BLOCK)
        if len(block) != _BLOCK:
            raise TarError("is not a plain tar archive, or is cut off: it has no end mark")
        return block

    def _size_of(self, header: bytes) -> int:
        """The size in a header of a known form; used only after its checksum was verified."""
        checked = header[:148] + b" " * 8 + header[156:]
        if header[257:265] not in (_MAGIC_USTAR, _MAGIC_GNU) or _octal(header[148:156]) != sum(checked):
            raise self._wrong("has no header of a plain tar archive")
        size = _octal(header[124:136])
        if size is None:
            raise self._wrong("has a size that is not an octal number")
        return size

    def _extra(self, start: int, size: int) -> bytes:
        """What a header says about the next entry."""
        if size > limits.TAR_HEADER_BYTES:
            raise self._wrong(f"has a name or attributes of more than {limits.TAR_HEADER_BYTES} bytes")
        self._stream.seek(start)
        return self._stream.read(size)

    def _records(self, data: bytes) -> Mapping[str, bytes]:
        """The attributes of a pax header, each once."""
        found: dict[str, bytes] = {}
        while data:
            match = _PAX_RECORD.match(data)
            length = int(match[1]) if match else 0
            if match is None or not match.end() < length <= len(data) or data[length - 1 : length] != b"\n":
                raise self._wrong("has attributes that cannot be read")
            key = match[2].decode("utf-8", "replace")
            # Readers differ in which of the two counts.
            if key in found:
                raise self._wrong("has a duplicate attribute")
            found[key] = data[match.end() : length - 1]
            data = data[length:]
        return found

    def _pax(self, records: Mapping[str, bytes], *, whole: bool) -> None:
        """Times, owners and comments mean nothing here; a name is taken, what changes how bytes are read is refused."""
        if self._change_set:
            if whole or not records.keys() <= {"path", "linkpath"}:
                raise self._wrong("has attributes that no change set has: owners, extended attributes, access lists")
            if "linkpath" in records and self._target is not None:
                raise self._wrong("has two targets")
            self._target = records.get("linkpath", self._target)
        elif (self._changing | ({"path"} if whole else set())) & records.keys() or any(
            key.startswith("GNU.sparse") for key in records
        ):
            raise self._wrong("has attributes that change its size, its kind or the names of others")
        if "path" in records:
            self._rename(records["path"])

    def _rename(self, name: bytes) -> None:
        if self._name is not None:
            raise self._wrong("has two names")
        self._name = name

    def _name_of(self, header: bytes) -> bytes:
        """The name of an entry: from a separate header before it, or else from its prefix and name."""
        name, self._name = self._name, None
        if name is None:
            name = header[:100].partition(b"\0")[0]
            # With the magic of GNU these bytes are times, and no prefix.
            above = b"" if header[257:265] == _MAGIC_GNU else header[345:500].partition(b"\0")[0]
            if above:
                name = above + b"/" + name
        return name

    def _link(self, header: TarHeader) -> None:
        target = self._text(header.link)
        path = self._path(self._text(header.name), False)
        if header.size or not target or len(header.link) > limits.TAR_PATH_BYTES:
            raise self._wrong(f"is a link with a size, or without a target of at most {limits.TAR_PATH_BYTES} bytes")
        if _is_odd(target):
            raise self._wrong("is a link to a name with hidden characters or backslashes")
        self._take(TarEntry(path, False, mode=header.mode, link=target))

    def _text(self, name: bytes) -> str:
        try:
            return name.decode("utf-8")
        except UnicodeDecodeError:
            raise self._wrong("has a name that is not UTF-8") from None

    def _path(self, name: str, folder: bool) -> str:
        """The clean path of an entry; empty for the archive's own root folder."""
        name = name.removeprefix("./") if name != "." else ""
        if folder:
            name = name.removesuffix("/")
            if not name:
                return ""
        segments = name.split("/")
        if any(segment in ("", ".", "..") for segment in segments):
            raise self._wrong("has an absolute path, or '..', '.' or empty segments")
        if len(segments) > limits.TAR_DEPTH:
            raise self._wrong(f"is deeper than {limits.TAR_DEPTH} folders")
        if len(name.encode()) > limits.TAR_PATH_BYTES or any(
            len(item.encode()) > limits.TAR_NAME_BYTES for item in segments
        ):
            raise self._wrong(
                f"has a path of more than {limits.TAR_PATH_BYTES} bytes, or a name of more than {limits.TAR_NAME_BYTES}"
            )
        if _is_odd(name):
            raise self._wrong("has a name with hidden characters or backslashes")
        return name

    def _take(self, entry: TarEntry) -> None:
        """Add an entry and the folders above it."""
        taken = self._taken
        parts = entry.path.split("/")
        for depth in range(1, len(parts)):
            above = "/".join(parts[:depth])
            if not taken.setdefault(above, TarEntry(above, True)).folder:
                raise self._wrong("is below a file")
        if entry.path in taken and not (entry.folder and taken[entry.path].folder):
            raise self._wrong("has a name that occurs twice")
        taken[entry.path] = entry
        self._bytes += entry.size
        if self._bytes > limits.TAR_BYTES or len(taken) > limits.TAR_ENTRIES:
            raise TarError(f"unpacks to more than {limits.TAR_BYTES} bytes or {limits.TAR_ENTRIES} entries")


def _is_odd(name: str) -> bool:
    return has_hidden(name) or "\n" in name or "\t" in name or "\\" in name


def _octal(field: bytes) -> int | None:
    """A number of a header; None for every other notation, a negative or a base-256 one included."""
    match = _OCTAL.fullmatch(field)
    return None if match is None else int(match[1], 8)
