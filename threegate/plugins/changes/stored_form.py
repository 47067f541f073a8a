"""How git stores a file of a project: the conversions that it makes without a program, made by ourselves.

Invariant: pure. A path with an attribute that would start a program, or whose conversion is not one of these, is
refused by name and never stored unconverted. Source: git's convert.c (`crlf_to_git`, `convert_attrs`); the
specification of git-lfs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from threegate.core.canonical import sha256_hex

Stored = Literal["bytes", "text", "guess", "lfs"]
"""As it is; with LF for each CRLF; the same if it looks like text; as a pointer of git-lfs."""
_TRUE: Final = frozenset({"true", "yes", "on", "1", ""})
_POINTER: Final = b"version https://git-lfs.github.com/spec/v1\n"
_POINTER_BYTES: Final = 1024
_PRINTABLE_CONTROLS: Final = b"\b\t\x1b\f"
_FORMS: Final[Mapping[str, Stored]] = {"set": "text", "unset": "bytes", "auto": "guess", "input": "text"}


def how_stored(attributes: Mapping[str, str], autocrlf: str | None) -> tuple[Stored, str]:
    """How a file with these attributes (as `git check-attr -a` has them) is stored; and why a branch is refused for it,
    or nothing. `autocrlf` is the setting core.autocrlf.
    """
    driver = attributes.get("filter", "unset")
    if driver not in ("set", "unset", "lfs"):
        return "bytes", f"has the filter {driver!r} (git attributes), which is a program"
    if attributes.get("ident") == "set":
        return "bytes", "has the attribute ident, with which git changes its text"
    if attributes.get("working-tree-encoding", "unset") != "unset":
        return "bytes", "has the attribute working-tree-encoding, with which git changes its bytes"
    if driver == "lfs":
        return "lfs", ""
    form = _FORMS.get(attributes.get("text", "")) or _FORMS.get(attributes.get("crlf", ""))
    if form in (None, "text") and attributes.get("eol") in ("lf", "crlf"):
        form = "text"
    if form is None:
        form = "guess" if autocrlf is not None and autocrlf.lower() in {*_TRUE, "input"} else "bytes"
    return form, ""


def stored_bytes(data: bytes, how: Stored, present: bytes | None) -> bytes:
    """The bytes of the blob. `present` is the blob that HEAD has at the path, which decides with `guess`."""
    if how == "lfs":
        return data if not data or is_pointer(data) else pointer(data)
    if how == "bytes" or b"\r\n" not in data:
        return data
    if how == "guess" and (not _is_text(data) or (present is not None and b"\r\n" in present and _is_text(present))):
        return data
    return data.replace(b"\r\n", b"\n")


def pointer(data: bytes) -> bytes:
    """The pointer of git-lfs to these bytes."""
    return _POINTER + f"oid sha256:{sha256_hex(data)}\nsize {len(data)}\n".encode()


def is_pointer(data: bytes) -> bool:
    """Whether a file is such a pointer already: then git-lfs stores it unchanged."""
    return len(data) < _POINTER_BYTES and data.startswith(_POINTER) and b"\noid sha256:" in data


def _is_text(data: bytes) -> bool:
    """What git takes for text when it guesses (`convert_is_binary`)."""
    if b"\0" in data or data.count(b"\r") != data.count(b"\r\n"):
        return False
    odd = sum(data.count(bytes((code,))) for code in (*range(32), 127) if code not in b"\r\n" + _PRINTABLE_CONTROLS)
    if data.endswith(b"\x1a"):
        odd -= 1
    ends = data.count(b"\n") + data.count(b"\r")
    return (len(data) - ends - odd - data.endswith(b"\x1a")) >> 7 >= odd
