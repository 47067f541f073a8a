"""Parse the SSH wire format (RFC 4251 section 5): completely, in order, with nothing left over.

Invariant: what `WireReader` returned and `end` accepted is exactly the bytes that it was given.
"""

from __future__ import annotations

import struct


class MalformedError(ValueError):
    """Bytes that do not fit where they occur. The text says what is wrong and never repeats them."""


class WireReader:
    """A cursor over bytes. Every method raises MalformedError if the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        end = self.position + length
        if end > len(self.data):
            raise MalformedError("ends in the middle of a value")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def byte(self) -> int:
        """One byte as a number."""
        return self.take(1)[0]

    def uint32(self) -> int:
        """A 32-bit number, most significant byte first."""
        value: int = struct.unpack(">I", self.take(4))[0]
        return value

    def uint64(self) -> int:
        """A 64-bit number, most significant byte first."""
        value: int = struct.unpack(">Q", self.take(8))[0]
        return value

    def string(self) -> bytes:
        """A length and that many bytes."""
        return self.take(self.uint32())

    def text(self) -> str:
        """A string of printable ASCII."""
        data = self.string()
        text = data.decode("latin-1")
        if not text.isascii() or not text.isprintable():
            raise MalformedError("has a name that is not printable ASCII")
        return text

    def positive(self) -> int:
        """A positive mpint in its only spelling (RFC 4251 section 5)."""
        data = self.string()
        value = int.from_bytes(data, "big")
        if value == 0 or data[0] & 0x80 or (data[0] == 0 and not data[1] & 0x80):
            raise MalformedError("has a number in an unusual spelling")
        return value

    def since(self, start: int) -> bytes:
        """The bytes from `start` to the cursor."""
        return self.data[start : self.position]

    def end(self) -> None:
        """Raise MalformedError if anything follows."""
        if self.position != len(self.data):
            raise MalformedError("has bytes after its end")


def string(data: bytes) -> bytes:
    """`data` as a wire string."""
    return struct.pack(">I", len(data)) + data
