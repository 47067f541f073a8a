"""A held folder: whatever its writer does with names and links, nothing outside of it is reached."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from threegate.core import held_folder
from threegate.core.held_folder import HeldFolder, open_beneath


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside of the held folder."""
    path = tmp_path / "secret"
    path.write_text("1234")
    return path


@pytest.fixture(params=["openat2", "openat"])
def held(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HeldFolder:
    """A held folder, with the system call and with its replacement on an old kernel."""
    if request.param == "openat":
        monkeypatch.setattr(held_folder, "OPENAT2", 100_000)  # a number that no kernel has: ENOSYS
    folder = tmp_path / "theirs"
    folder.mkdir()
    return HeldFolder(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), folder)


def test_what_is_delivered_is_read_again_and_goes_away(held: HeldFolder) -> None:
    held.deliver("a", b"bytes", 0o640)
    data, facts = held.read("a", max_bytes=5)
    assert data == b"bytes" and facts.st_mode & 0o777 == 0o640
    with pytest.raises(FileExistsError):
        held.deliver("a", b"other")
    with held.entries() as found:
        assert [entry.name for entry in found] == ["a"]
    held.unlink("a")
    with pytest.raises(FileNotFoundError):
        held.stat("a")


def test_a_link_is_not_followed(held: HeldFolder, secret: Path) -> None:
    (held.path / "a").symlink_to(secret)
    (held.path / "files").symlink_to(secret.parent)
    with pytest.raises(OSError) as refused:
        held.read("a", max_bytes=10)
    assert refused.value.errno == errno.ELOOP
    with pytest.raises(OSError):
        held.folder("files")


def test_a_folder_that_is_exchanged_for_a_link_is_still_the_one_that_is_held(held: HeldFolder, secret: Path) -> None:
    held.path.rename(held.path.with_name("away"))
    held.path.symlink_to(secret.parent)
    held.deliver("a", b"x")
    assert (secret.parent / "away" / "a").read_bytes() == b"x"
    with pytest.raises(FileNotFoundError):
        held.read("secret", max_bytes=10)


@pytest.mark.parametrize("name", ["", ".", "..", "../secret", "/etc/passwd", "a/b", "a\0b"])
def test_only_the_name_of_one_file_is_opened(held: HeldFolder, name: str) -> None:
    with pytest.raises(OSError) as refused:
        held.read(name, max_bytes=10)
    assert refused.value.errno == errno.EINVAL
    with pytest.raises(OSError) as refused:
        held.stat(name)
    assert refused.value.errno == errno.EINVAL


def test_neither_a_fifo_nor_a_second_link_is_taken(held: HeldFolder, secret: Path) -> None:
    os.mkfifo(held.path / "fifo")
    os.link(secret, held.path / "hard")
    for name in ("fifo", "hard"):
        with pytest.raises(OSError):
            held.open_regular(name)
        with pytest.raises(OSError):
            held.read(name, max_bytes=10)


def test_a_delivery_that_fails_leaves_nothing(held: HeldFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes, path: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(held_folder.durable, "write_fd", full)
    with pytest.raises(OSError):
        held.deliver("a", b"x")
    assert os.listdir(held.path) == []


def test_the_kernel_refuses_links_in_one_step(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(OSError) as refused:
            open_beneath(folder, "link", os.O_RDONLY)
        assert refused.value.errno == errno.ELOOP
    finally:
        os.close(folder)
