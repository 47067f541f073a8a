"""A look into an input before it is approved: text, archive or binary, from our own copy.

Invariant: bounded in time and memory whatever the file holds; nothing is unpacked.
"""

from __future__ import annotations

import tarfile

from threegate.review.input_copies import InputCopy

_HEAD_BYTES = 4096
_TAR_ENTRIES = 200


def preview(copy: InputCopy, *, unpack: bool = False) -> tuple[str, str]:
    """What kind of content it is (a word of ours) and a piece of it (foreign text, not yet escaped)."""
    if unpack:
        return _entries(copy)
    head = copy.head(_HEAD_BYTES)
    left = copy.size - len(head)
    rest = f" (the first {len(head)} of {copy.size} bytes)" if left else ""
    if not head:
        return "empty", ""
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if not (left and error.start >= len(head) - 4):
            return f"binary{rest}", head[:256].hex(" ")
        text = head[: error.start].decode("utf-8")
    if "\x00" in text:
        return f"binary{rest}", head[:256].hex(" ")
    return f"text{rest}", text


def _entries(copy: InputCopy) -> tuple[str, str]:
    """The names in a tar, as far as they are looked at; gate 1 and the staging judge them."""
    names: list[str] = []
    try:
        with tarfile.open(copy.path, "r:") as archive:
            for entry in archive:
                if len(names) == _TAR_ENTRIES:
                    return f"archive, its first {_TAR_ENTRIES} entries", "\n".join(names)
                kind = "/" if entry.isdir() else "" if entry.isreg() else " (no regular file)"
                names.append(f"{entry.size:>12} {entry.name}{kind}")
    except (tarfile.TarError, OSError, ValueError, RecursionError) as error:
        return f"no readable tar ({type(error).__name__}); the run would be refused", "\n".join(names)
    return f"archive, {len(names)} entries", "\n".join(names)
