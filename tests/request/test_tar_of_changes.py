"""The reader of a change set's archive: symlinks, and no attribute beside a path and a target."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest

from threegate.core import limits
from threegate.request.tar_reader import TarError, read_change_tar, read_tar


def member(name: str, kind: bytes, data: bytes = b"", **more: Any) -> bytes:
    """One member, without the archive's end."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data)
    for key, value in more.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.PAX_FORMAT) + data + bytes(-len(data) % 512)


def pax(**records: str) -> bytes:
    """A header of attributes for the next member."""
    data = b""
    for key, value in records.items():
        record = f" {key}={value}\n".encode()
        size = len(record) + 2
        data += str(size if len(str(size)) == 2 else size + 1).encode() + record
    return member("pax", b"x", data)


END = bytes(1024)


def test_a_link_and_a_file() -> None:
    archive = pax(linkpath="t" * 60) + member("l", b"2", linkname="x") + member("f", b"0", b"1", mode=0o755) + END
    link, file = read_change_tar(archive)
    assert (link.link, link.folder, link.path) == ("t" * 60, False, "l")
    assert (file.mode, file.size, file.link) == (0o755, 1, None)
    assert read_change_tar(io.BytesIO(member("d", b"5") + END))[0].folder
    with pytest.raises(TarError, match="is a link"):
        read_tar(member("l", b"2", linkname="x") + END)


@pytest.mark.parametrize(
    "archive",
    [
        pax(linkpath="x") + member("f", b"0"),
        pax(linkpath="x") + pax(linkpath="y") + member("l", b"2"),
        pax(linkpath="x"),
        pax(mtime="1") + member("f", b"0"),
        member("pax", b"g", b"9 path=x\n") + member("f", b"0"),
        member("l", b"2"),
        member("l", b"2", linkname="x\ty"),
        member("l", b"2", b"1", linkname="x"),
        member("l", b"1", linkname="x"),
        pax(linkpath="x" * 80).replace(b"x" * 80, b"\xff" * 80) + member("l", b"2"),
    ],
)
def test_what_is_refused(archive: bytes) -> None:
    with pytest.raises(TarError):
        read_change_tar(archive + END)


def test_a_target_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TAR_PATH_BYTES", 3)
    with pytest.raises(TarError, match="target of at most 3"):
        read_change_tar(member("l", b"2", linkname="abcd") + END)
