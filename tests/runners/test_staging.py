"""Inputs are hashed while they are copied; nothing but plain files comes out."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import tarfile
from pathlib import Path

import pytest

from threegate.core import limits
from threegate.core.removal import remove_folder
from threegate.request.job import JobInput, JobLimits
from threegate.runners.staging import StagingError, collect, shown, stage_inputs

SMALL = JobLimits("1", 64, 5, out_bytes=10_000, out_files=8, file_bytes=4_000)


def pin(folder: Path, name: str, data: bytes, *, unpack: bool = False) -> JobInput:
    folder.mkdir(exist_ok=True)
    digest = hashlib.sha256(data).hexdigest()
    (folder / digest).write_bytes(data)
    return JobInput(name, digest, len(data), unpack)


def tar_of(*members: tuple[str, bytes | None], **kinds: bytes) -> bytes:
    """A tar of files (content) and folders (None); `kinds` maps a member's name to a type byte."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.type = kinds.get(name, tarfile.DIRTYPE if content is None else tarfile.REGTYPE)
            info.size = len(content or b"")
            info.linkname = "/etc/passwd" if info.type in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            archive.addfile(info, io.BytesIO(content or b""))
    return buffer.getvalue()


def test_inputs_are_copies_and_read_only(tmp_path: Path) -> None:
    item = pin(tmp_path / "pinned", "a.csv", b"1,2\n")
    stage_inputs([item], tmp_path / "pinned", tmp_path / "in")
    copy = tmp_path / "in" / "a.csv"
    assert copy.read_bytes() == b"1,2\n"
    assert copy.stat().st_ino != (tmp_path / "pinned" / item.sha256).stat().st_ino
    assert (copy.stat().st_mode & 0o777, (tmp_path / "in").stat().st_mode & 0o777) == (0o444, 0o555)


@pytest.mark.parametrize("bad", [b"", b"1,2", b"1,3\n", b"1,2\n\n"])
def test_other_bytes_than_approved_are_refused(bad: bytes, tmp_path: Path) -> None:
    item = pin(tmp_path / "pinned", "a.csv", b"1,2\n")
    (tmp_path / "pinned" / item.sha256).write_bytes(bad)
    with pytest.raises(StagingError, match="changed since the approval"):
        stage_inputs([item], tmp_path / "pinned", tmp_path / "in")


@pytest.mark.parametrize("kind", ["missing", "link", "fifo", "folder"])
def test_a_pinned_input_is_a_plain_file(kind: str, tmp_path: Path) -> None:
    item = pin(tmp_path / "pinned", "a.csv", b"1,2\n")
    path = tmp_path / "pinned" / item.sha256
    path.rename(tmp_path / "real")
    if kind == "link":
        path.symlink_to(tmp_path / "real")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(StagingError):
        stage_inputs([item], tmp_path / "pinned", tmp_path / "in")


def test_a_tar_is_laid_out_below_its_stem(tmp_path: Path) -> None:
    data = tar_of(("d", None), ("d/a", b"A"), ("b", b"B"), ("./e/f/g", b"G"))
    stage_inputs([pin(tmp_path / "pinned", "tree.tar", data, unpack=True)], tmp_path / "pinned", tmp_path / "in")
    tree = tmp_path / "in" / "tree"
    assert {str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*") if path.is_file()} == {
        "d/a": b"A",
        "b": b"B",
        "e/f/g": b"G",
    }


@pytest.mark.parametrize(
    "data",
    [
        tar_of(("../x", b"X")),
        tar_of(("/etc/x", b"X")),
        tar_of(("a/../../x", b"X")),
        tar_of(("link", b""), link=tarfile.SYMTYPE),
        tar_of(("hard", b""), hard=tarfile.LNKTYPE),
        tar_of(("fifo", b""), fifo=tarfile.FIFOTYPE),
        tar_of(("device", b""), device=tarfile.CHRTYPE),
        tar_of(("link", b""), ("link/x", b"X"), link=tarfile.SYMTYPE),
        tar_of(("a", b"1"), ("a", b"2")),
        tar_of(("a", b"1"), ("a/b", b"2")),
        tar_of(("a\x1b[2J", b"1")),
        tar_of(("/".join("d" * 40), b"1")),
        b"no tar at all" * 100,
        tar_of(("a", b"1" * 2000))[:1200],
    ],
    ids=lambda _: "",
)
def test_other_tars_are_refused_and_nothing_leaves_the_folder(data: bytes, tmp_path: Path) -> None:
    item = pin(tmp_path / "pinned", "t.tar", data, unpack=True)
    with pytest.raises(StagingError):
        stage_inputs([item], tmp_path / "pinned", tmp_path / "in")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "pinned"]


def test_a_tar_of_too_many_or_too_large_entries_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TAR_ENTRIES", 3)
    monkeypatch.setattr(limits, "TAR_BYTES", 100)
    for number, data in enumerate((tar_of(*[(f"{i}", b"") for i in range(4)]), tar_of(("big", b"x" * 101)))):
        item = pin(tmp_path / "pinned", "t.tar", data, unpack=True)
        with pytest.raises(StagingError, match="more than"):
            stage_inputs([item], tmp_path / "pinned", tmp_path / f"in{number}")


def test_only_plain_files_are_collected(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "sub").mkdir(parents=True)
    (out / "plain").write_bytes(b"P")
    (out / "sub" / "more").write_bytes(b"M")
    (out / "link").symlink_to("/etc/passwd")
    (out / "folder link").symlink_to("/etc")
    os.mkfifo(out / "fifo")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(out / "socket"))
    (out / "one").write_bytes(b"1")
    os.link(out / "one", out / "two")
    (out / "suid").write_bytes(b"")
    (out / "suid").chmod(0o4755)
    (out / "sgid").write_bytes(b"")
    (out / "sgid").chmod(0o2755)
    (out / "a\nb").write_bytes(b"")
    (out / "bidi\u202e").write_bytes(b"")
    (out / "odd\udcff").write_bytes(b"")
    (out / "big").write_bytes(b"x" * 4_001)
    bounds = JobLimits("1", 64, 5, out_bytes=100_000, out_files=100, file_bytes=4_000)
    found = collect(out, bounds)
    assert [(item.path, item.size) for item in found.artifacts] == [("plain", 1), ("sub/more", 1)]
    assert found.artifacts[0].sha256 == hashlib.sha256(b"P").hexdigest()
    assert len(found.dropped) == 12 and found.exceeded is None
    assert all("\n" not in line and line.isascii() for line in found.dropped)
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*")) == [
        "plain",
        "sub",
        "sub/more",
    ]
    assert (out / "plain").stat().st_mode & 0o7777 == 0o400


@pytest.mark.root
def test_devices_stay_behind(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    os.mknod(out / "null", 0o666 | 0o020000, os.makedev(1, 3))
    found = collect(out, SMALL)
    assert found.artifacts == [] and found.dropped == ["null: a device"] and not any(out.iterdir())


def test_caps_of_bytes_files_names_and_depth(tmp_path: Path) -> None:
    def made(name: str, count: int, size: int) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for number in range(count):
            (folder / f"{number:04}").write_bytes(b"x" * size)
        return folder

    many = collect(made("many", 9, 1), SMALL)
    assert len(many.artifacts) == 8 and many.exceeded == "/out holds more than 8 files"
    crowd = collect(made("crowd", 40, 0), SMALL)
    assert crowd.exceeded is not None and len(crowd.artifacts) <= 8
    large = collect(made("large", 3, 4_000), SMALL)
    assert sum(item.size for item in large.artifacts) == 8_000
    assert large.exceeded == "/out holds more than 10000 bytes"
    deep = tmp_path / "deep"
    path = deep
    for _ in range(40):
        path = path / "d"
    path.mkdir(parents=True)
    (path / "x").write_bytes(b"")
    found = collect(deep, JobLimits("1", 64, 5))
    assert found.artifacts == [] and "deep" in found.dropped[0]
    assert len(list(deep.rglob("*"))) == limits.OUT_DEPTH and not list(deep.rglob("x"))


def test_a_sparse_file_does_not_grow_the_disk(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with open(out / "sparse", "wb") as file:
        file.truncate(1 << 40)
    found = collect(out, JobLimits("1", 64, 5))
    assert found.artifacts == [] and "more than the" in found.dropped[0]


def test_names_are_shown_in_bounds() -> None:
    assert shown("a\x1b\u202e\udcff") == "a\\x1b\\u202e\\udcff"
    assert len(shown("x" * 5000)) == limits.TRAIL_STRING_CHARS


def test_a_locked_folder_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / "in" / "deep").mkdir(parents=True)
    (folder / "in").chmod(0)
    folder.chmod(0o500)
    remove_folder(folder)
    assert not folder.exists()
    remove_folder(folder)


def chain(folder: Path, depth: int) -> None:
    """A folder in a folder in a folder: more of them than a path, Python's stack and the table of descriptors hold."""
    folder.mkdir(parents=True)
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 40, dir_fd=descriptor)
        inner = os.open("d" * 40, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)


def test_folders_of_any_depth_are_removed(tmp_path: Path) -> None:
    chain(tmp_path / "work" / "in", 2_000)
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "work" / "link").symlink_to(tmp_path / "kept")
    remove_folder(tmp_path / "work")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    out = tmp_path / "out"
    chain(out, 2_000)
    (out / "a").write_text("a")
    found = collect(out, JobLimits("1", 64, 5))
    assert [item.path for item in found.artifacts] == ["a"] and len(found.dropped) == 1
    assert len(list(out.rglob("*"))) == limits.OUT_DEPTH + 1


def test_a_link_in_the_place_of_a_work_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o500)
    (tmp_path / "there").chmod(0o500)
    (tmp_path / "work").symlink_to(tmp_path / "there")
    remove_folder(tmp_path / "work")
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o500
