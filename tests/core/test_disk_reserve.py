"""The spare files: who may use them, for what, and how many stay for small files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from threegate.core import durable, limits
from threegate.core.durable import disk_reserve, fill_reserve, may_use_reserve, take_spare, until_it_fits

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def reserve(tmp_path: Path) -> Path:
    folder = tmp_path / "reserve"
    assert fill_reserve(folder)
    return folder


@pytest.fixture
def full() -> Iterator[None]:
    """No new file can be made."""

    def fault(moment: str, operation: str, path: str) -> None:
        if (moment, operation) == ("before", "create"):
            raise FULL

    forget = durable.observe(fault)
    yield
    forget()


def fails(times: int) -> Callable[[], str]:
    left = [FULL] * times

    def act() -> str:
        if left:
            raise left.pop()
        return "done"

    return act


def test_a_spare_file_has_its_blocks(reserve: Path) -> None:
    spares = list(reserve.iterdir())
    assert len(spares) == limits.RESERVE_FILES
    assert all(path.stat().st_blocks * 512 >= limits.RESERVE_FILE_BYTES and not path.stat().st_size for path in spares)


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("put", [durable.deliver, durable.overwrite], ids=["deliver", "overwrite"])
def test_a_new_file_is_made_of_a_spare_one(
    tmp_path: Path, reserve: Path, put: Callable[[Path, bytes, int], None]
) -> None:
    with pytest.raises(OSError, match="No space"):
        put(tmp_path / "x", b"data", 0o644)
    assert len(os.listdir(reserve)) == limits.RESERVE_FILES, "only for who may use them"
    with disk_reserve(reserve):
        assert may_use_reserve()
        put(tmp_path / "x", b"data", 0o644)
    assert not may_use_reserve()
    found = (tmp_path / "x").stat()
    assert ((tmp_path / "x").read_bytes(), found.st_mode & 0o777, found.st_nlink) == (b"data", 0o644, 1)
    assert len(os.listdir(reserve)) == limits.RESERVE_FILES - 1 and not list(tmp_path.glob(".tmp-*"))
    assert fill_reserve(reserve) and len(os.listdir(reserve)) == limits.RESERVE_FILES


@pytest.mark.usefixtures("full")
def test_a_result_is_written_into_a_spare_file(tmp_path: Path, reserve: Path) -> None:
    with disk_reserve(reserve):
        durable.make_reserved(tmp_path / "r", limits.RESULT_RESERVED_BYTES)
        durable.deliver_into(tmp_path / "r", tmp_path / "x", b"result")
    assert (tmp_path / "x").read_bytes() == b"result" and not (tmp_path / "r").exists()


def test_what_needs_more_space_leaves_the_last_ones(reserve: Path) -> None:
    most = limits.RESERVE_FILES - limits.RESERVE_KEPT_FILES
    with pytest.raises(OSError, match="No space"):
        until_it_fits(fails(1))
    with disk_reserve(reserve):
        assert until_it_fits(fails(most)) == "done"
        assert len(os.listdir(reserve)) == limits.RESERVE_KEPT_FILES
        with pytest.raises(OSError, match="No space"):
            until_it_fits(fails(1))
    assert len(os.listdir(reserve)) == limits.RESERVE_KEPT_FILES


def test_another_file_system_has_no_reserve(tmp_path: Path, reserve: Path) -> None:
    other = Path("/dev/shm" if os.stat("/dev/shm").st_dev != os.stat(tmp_path).st_dev else "/var/tmp")
    with disk_reserve(reserve):
        assert not take_spare(other / "threegate-nothing", FULL)
    assert len(os.listdir(reserve)) == limits.RESERVE_FILES


def test_another_error_uses_nothing(tmp_path: Path, reserve: Path) -> None:
    with disk_reserve(reserve):
        assert not take_spare(tmp_path / "x", OSError(errno.EIO, "broken"))
    with disk_reserve(tmp_path / "missing"):
        assert not take_spare(tmp_path / "x", FULL)
    assert len(os.listdir(reserve)) == limits.RESERVE_FILES
