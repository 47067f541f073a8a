"""The tar listing: what may be unpacked, and what refuses the whole archive."""

from __future__ import annotations

import io
import tarfile

import pytest

from threegate.core import limits
from threegate.request.files import TarError, check_file_name, read_tar


def pack(*members: tuple[str, bytes] | tarfile.TarInfo, form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar of files, or of entries made by hand; a name that ends with / is a folder."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            if member[0].endswith("/"):
                info.type = tarfile.DIRTYPE
            archive.addfile(info, io.BytesIO(member[1]))
    return stream.getvalue()


def special(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    """An entry of another kind."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def test_files_and_folders_come_out_with_the_place_of_their_bytes() -> None:
    data = pack(("./", b""), ("./src/", b""), ("./src/a.py", b"print(1)"), ("b/c/größe.txt", b"x" * 600))
    entries = read_tar(data)
    assert [(item.path, item.folder, item.size) for item in entries] == [
        ("src", True, 0),
        ("src/a.py", False, 8),
        ("b", True, 0),
        ("b/c", True, 0),
        ("b/c/größe.txt", False, 600),
    ]
    file = entries[1]
    assert data[file.offset : file.offset + file.size] == b"print(1)"


def test_a_stream_is_read_as_bytes_are_and_empty_archives_are_empty() -> None:
    data = pack(("a", b"1"))
    assert read_tar(io.BytesIO(data)) == read_tar(data)
    assert read_tar(pack()) == ()
    assert read_tar(pack(special(".", tarfile.DIRTYPE))) == ()


def test_executable_files_stay_so() -> None:
    info = tarfile.TarInfo("run")
    info.mode = 0o755
    assert read_tar(pack(info))[0].executable


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b"\x1f\x8b\x08\x00" + b"x" * 600,
        pack(("a", b"x" * 600))[:700],
        pack(("a", b"x" * 2000))[:1024],
        pack(("a", b"1"))[:1024] + b"garbage" * 200,
        pack(("a", b"1")) + b"more",
        pack(("/etc/passwd", b"x")),
        pack(("../x", b"x")),
        pack(("a/../../x", b"x")),
        pack(("a/./x", b"x")),
        pack(("a//x", b"x")),
        pack(("a", b"1"), ("a", b"2")),
        pack(("a/", b""), ("a", b"2")),
        pack(("a", b"1"), ("a/", b"")),
        pack(("a", b"1"), ("a/b", b"2")),
        pack(special("a", tarfile.SYMTYPE, "/etc/passwd")),
        pack(special("a", tarfile.LNKTYPE, "b")),
        pack(special("a", tarfile.CHRTYPE)),
        pack(special("a", tarfile.BLKTYPE)),
        pack(special("a", tarfile.FIFOTYPE)),
        pack(special("a", tarfile.GNUTYPE_SPARSE), form=tarfile.GNU_FORMAT),
        pack(("a\u202eb", b"x")),
        pack(("a\nb", b"x")),
        pack(("a\\b", b"x")),
        pack(("x" * 256, b"x")),
        pack(("x/" * 600 + "y", b"x")),
    ],
)
def test_what_is_no_plain_tree_of_files_refuses_the_archive(data: bytes) -> None:
    with pytest.raises(TarError) as caught:
        read_tar(data)
    assert "\n" not in str(caught.value)


def test_a_folder_may_be_named_twice_and_before_or_after_its_files() -> None:
    assert len(read_tar(pack(("a/", b""), ("a/x", b"1"), ("a/", b"")))) == 2


def test_count_and_size_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TAR_ENTRIES", 3)
    assert len(read_tar(pack(*((str(n), b"") for n in range(3))))) == 3
    with pytest.raises(TarError, match="more than 3"):
        read_tar(pack(*((str(n), b"") for n in range(4))))
    with pytest.raises(TarError, match="more than"):
        read_tar(pack(("a/b/c/d", b"")))
    monkeypatch.setattr(limits, "TAR_BYTES", 10)
    with pytest.raises(TarError, match="more than 10 bytes"):
        read_tar(pack(("a", b"x" * 6), ("b", b"x" * 5)))


@pytest.mark.parametrize(
    ("name", "good"), [("a.csv", True), ("..", False), ("a/b", False), ("", False), ("x" * 129, False)]
)
def test_a_bare_file_name(name: str, good: bool) -> None:
    assert (check_file_name(name) is None) == good
