"""The tar listing: what may be unpacked, and what refuses the whole archive."""

from __future__ import annotations

import io
import tarfile

import pytest

from threegate.core import limits
from threegate.request.fields import check_file_name
from threegate.request.tar_reader import TarError, read_headers, read_tar


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
    with pytest.raises(TarError, match="more than .* 3 entries"):
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


def header(
    name: bytes = b"a", size: bytes = b"00000000000\0", kind: bytes = b"0", magic: bytes = b"ustar\x0000"
) -> bytes:
    """One header, as it is written by hand, with a right checksum."""
    block = name.ljust(100, b"\0") + b"0000644\0" * 3 + size + b"0" * 11 + b"\0" + b" " * 8 + kind + bytes(100)
    block = (block + magic).ljust(512, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


END = bytes(1024)


def pax(*records: bytes, kind: bytes = b"x") -> bytes:
    """A header with attributes, padded."""
    data = b"".join(records)
    return header(b"pax", b"%011o\0" % len(data), kind) + data + bytes(-len(data) % 512)


def record(text: bytes) -> bytes:
    """One attribute with its own length in front."""
    size = len(text) + 2
    while len(b"%d" % size) + len(text) + 2 != size:
        size += 1
    return b"%d %s\n" % (size, text)


def test_names_come_from_every_form_that_common_programs_write() -> None:
    name = "d/" * 20 + "x" * 90
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        assert [item.path for item in read_tar(pack((name, b"1"), form=form)) if not item.folder] == [name]
    told = pax(record(b"comment=abc"), kind=b"g") + pax(record(b"path=b"), record(b"mtime=1.5")) + header() + END
    assert [item.path for item in read_tar(told)] == ["b"]
    assert [item.path for item in read_tar(header(kind=b"\0") + END)] == ["a"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (header(size=b"-0000001000\0", kind=b"5") + END, "not an octal number"),
        (header(size=b"\x80" + bytes(3) + (1 << 62).to_bytes(8, "big")) + END, "not an octal number"),
        (header(size=b"\x80" + bytes(3) + (1 << 62).to_bytes(8, "big"), kind=b"L") + END, "not an octal number"),
        (header(size=b"77777777777\0", kind=b"L") + END, "cut off"),
        (header(size=b"00000001000\0", kind=b"5") + bytes(512) + END, "folder with a size"),
        (header(size=b"00000400000\0", kind=b"x") + bytes(1 << 17) + END, "more than 65536 bytes"),
        (header(kind=b"S") + END, "sparse"),
        (header(magic=b"") + END, "no header of a plain tar"),
        (header().replace(b"0000644", b"0000645", 1) + END, "no header of a plain tar"),
        (header(b"\xff") + END, "not UTF-8"),
        (header(), "no end mark"),
        (pax(record(b"path=b")) + END, "without its entry"),
        (pax(record(b"path=b")) * 2 + header() + END, "two names"),
        (pax(record(b"path=b"), record(b"path=c")) + header() + END, "duplicate attribute"),
        (pax(record(b"path=b"), kind=b"g") + header() + END, "names of others"),
        (pax(record(b"size=5000000000")) + header() + END, "change its size"),
        (pax(record(b"GNU.sparse.realsize=25165824")) + header() + END, "change its size"),
        (pax(b"99 path=b\n") + header() + END, "cannot be read"),
        (pax(b"5 path=b\n") + header() + END, "cannot be read"),
        (pax(b"8 path=bc") + header() + END, "cannot be read"),
        (pax(b"path=b\n") + header() + END, "cannot be read"),
    ],
)
def test_what_makes_an_archive_larger_or_other_than_it_looks_refuses_it(data: bytes, why: str) -> None:
    with pytest.raises(TarError, match=why):
        read_tar(data)


def test_headers_without_entries_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TAR_ENTRIES", 2)
    with pytest.raises(TarError, match="more than 2 entries"):
        read_tar(pax(record(b"comment=x"), kind=b"g") * 5 + END)


def test_a_tar_that_python_expands_is_refused() -> None:
    """A sparse file of 4 KiB that unpacks to 24 MiB, as `tar --sparse --format=posix` writes it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("./GNUSparseFile.0/big")
        body = b"1\n0\n512\n".ljust(512, b"\0") + b"x" * 512
        info.size = len(body)
        info.pax_headers = {
            "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "big",
            "GNU.sparse.realsize": str(24 << 20),
        }  # fmt: skip
        archive.addfile(info, io.BytesIO(body))
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        assert archive.getmembers()[0].size == 24 << 20
    with pytest.raises(TarError, match="change its size"):
        read_tar(stream.getvalue())


def test_headers_of_every_kind_for_who_judges_them_one_by_one() -> None:
    """Links and their long targets come as they are; what would change how bytes are read is refused all the same."""
    long = "x" * 150
    data = pack(special("a", tarfile.SYMTYPE, long), special("b", tarfile.LNKTYPE, "c"), ("d", b"1"))
    found = list(read_headers(io.BytesIO(data), 10))
    assert [(item.name, item.kind, item.link) for item in found][1:] == [
        (b"b", b"1", b"c"),
        (b"d", b"0", b""),
    ]
    assert found[0].kind == b"2" and found[2].size == 1 and found[2].mode == 0o644
    with pytest.raises(TarError, match="is a link"):
        read_tar(pack(special("b", tarfile.LNKTYPE, "c")))
    with pytest.raises(TarError, match="more than 1 entries"):
        list(read_headers(io.BytesIO(data), 2))
    odd = bytearray(pack(("a", b"1")))
    odd[100:108] = b"rwxr-xr-"
    odd[148:156] = b" " * 8
    odd[148:156] = b"%06o\0 " % sum(odd[:512])
    assert [item.mode for item in read_headers(io.BytesIO(bytes(odd)), 2)] == [-1]
