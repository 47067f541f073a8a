"""Delivery is whole or not at all, and reading never follows, blocks or believes a changing file."""

import os
from pathlib import Path

import pytest

from threegate.core import durable, removal


def test_delivery_refuses_a_taken_name(tmp_path: Path) -> None:
    durable.deliver(tmp_path / "a", b"1")
    with pytest.raises(FileExistsError):
        durable.deliver(tmp_path / "a", b"2")
    assert (tmp_path / "a").read_bytes() == b"1"
    assert os.listdir(tmp_path) == ["a"]


def test_rename_never_replaces(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    with pytest.raises(FileExistsError):
        durable.rename(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_text() == "b"


def test_overwrite_replaces_whole(tmp_path: Path) -> None:
    durable.overwrite(tmp_path / "v", b"1", 0o644)
    durable.overwrite(tmp_path / "v", b"22", 0o644)
    assert (tmp_path / "v").read_bytes() == b"22"
    assert (tmp_path / "v").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename"])
def test_a_fault_leaves_nothing_behind(tmp_path: Path, operation: str) -> None:
    def fault(moment: str, name: str, path: str) -> None:
        if moment == "before" and name == operation and str(tmp_path) in path:
            raise OSError(28, "No space left on device")

    forget = durable.observe(fault)
    try:
        with pytest.raises(OSError, match="No space"):
            durable.deliver(tmp_path / "a", b"data")
    finally:
        forget()
    assert os.listdir(tmp_path) == []


def test_many_files_are_synced_together_with_few_open(tmp_path: Path) -> None:
    """A run may leave a thousand: each is synced once, then the folder, and never are all of them open."""
    files = [(f"{number:04}", b"x") for number in range(300)]
    durable.write_files(tmp_path, files)
    before = len(os.listdir("/proc/self/fd"))
    told: list[str] = []
    most = 0

    def seen(moment: str, operation: str, place: str) -> None:
        nonlocal most
        if moment == "before":
            told.append(Path(place).name)
            most = max(most, len(os.listdir("/proc/self/fd")) - before)

    stop = durable.observe(seen)
    try:
        durable.sync_together([tmp_path / name for name, _ in files], [tmp_path])
    finally:
        stop()
    assert told == [*(name for name, _ in files), tmp_path.name]
    assert 2 < most < 100 and len(os.listdir("/proc/self/fd")) == before
    (tmp_path / "link").symlink_to(tmp_path / "0000")
    with pytest.raises(OSError, match="link"):
        durable.sync_together([tmp_path / "link"], [])


def test_a_tree_of_any_depth_is_removed_and_no_link_is_followed(tmp_path: Path) -> None:
    """As recovery removes what a killed run made; Python has a thousand frames."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "kept")
    descriptor = os.open(tmp_path / "tree", os.O_RDONLY)
    for _ in range(2_000):
        os.mkdir("deep", dir_fd=descriptor)
        inner = os.open("deep", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    removal.remove_tree(tmp_path / "tree")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError, match="link"):
        removal.remove_tree(tmp_path / "link")
    assert (tmp_path / "kept").exists()


def test_many_names_are_removed_and_one_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    names = [str(number) for number in range(200)]
    for name in names:
        (tmp_path / name).write_text(name)
    (tmp_path / "stays").touch()
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        removal.unlink_all_at(folder, names, tmp_path)
        assert os.listdir(tmp_path) == ["stays"]
        with pytest.raises(FileNotFoundError):
            removal.unlink_all_at(folder, ["stays", *names], tmp_path)
    finally:
        os.close(folder)


def test_files_that_cannot_all_be_made_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"before")
    with pytest.raises(FileExistsError):
        durable.write_files(tmp_path, [("a", b"new"), ("b", b"new")])
    assert [path.name for path in tmp_path.iterdir()] == ["b"] and (tmp_path / "b").read_bytes() == b"before"


def test_reading_takes_plain_files_only(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_bytes(b"x" * 10)
    assert durable.read_regular(plain, max_bytes=10) == b"x" * 10
    with pytest.raises(OSError, match="at most"):
        durable.read_regular(plain, max_bytes=9)
    (tmp_path / "link").symlink_to(plain)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name in ("link", "fifo", "folder", "none"):
        with pytest.raises(OSError):
            durable.read_regular(tmp_path / name, max_bytes=100)
    os.link(plain, tmp_path / "second")
    with pytest.raises(OSError, match="hard link"):
        durable.read_regular(plain, max_bytes=100)


@pytest.mark.parametrize("change", [b"a" * 50, b"b" * 100, b"c" * 300])
def test_a_file_that_changes_while_it_is_read_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: bytes
) -> None:
    """The writer strikes between the first look and the first read: shorter, same length, longer."""
    path = tmp_path / "moving"
    path.write_bytes(b"a" * 100)
    os.utime(path, ns=(1, 1))
    real = os.read

    def read(descriptor: int, count: int) -> bytes:
        path.write_bytes(change)
        monkeypatch.setattr(os, "read", real)
        return real(descriptor, count)

    monkeypatch.setattr(os, "read", read)
    with pytest.raises(OSError, match="changed while it was read"):
        durable.read_regular(path, max_bytes=1000)


def test_many_files_are_delivered_with_one_sync(tmp_path: Path) -> None:
    """A codemod changes thousands, and a sync for each takes a disk minutes; a name that is taken keeps its file."""
    (tmp_path / "0007").write_bytes(b"taken")
    told: list[str] = []
    forget = durable.observe(lambda moment, operation, _: told.append(operation) if moment == "before" else None)
    try:
        durable.deliver_together(tmp_path, ((f"{number:04}", b"%d" % number) for number in range(300)))
    finally:
        forget()
    assert sorted(os.listdir(tmp_path)) == [f"{number:04}" for number in range(300)]
    assert (tmp_path / "0007").read_bytes() == b"taken" and (tmp_path / "0299").read_bytes() == b"299"
    assert (tmp_path / "0299").stat().st_mode & 0o777 == 0o600
    assert [operation for operation in told if "sync" in operation] == ["sync_all", "sync_folder"]
    assert told.index("rename") > told.index("sync_all"), "a name for bytes that may not be on the disk"


@pytest.mark.parametrize("operation", ["create", "write", "sync_all", "rename", "sync_folder"])
def test_a_fault_leaves_none_of_many_files(tmp_path: Path, operation: str) -> None:
    counted = 0

    def fault(moment: str, name: str, path: str) -> None:
        nonlocal counted
        if moment == "before" and name == operation and str(tmp_path) in path:
            counted += 1
            if counted == 5 or "sync" in name:
                raise OSError(28, "No space left on device")

    forget = durable.observe(fault)
    try:
        with pytest.raises(OSError, match="No space"):
            durable.deliver_together(tmp_path, [(f"{number}", b"data") for number in range(20)])
    finally:
        forget()
    assert os.listdir(tmp_path) == []


def test_a_derived_file_is_written_although_a_daemon_that_starts_removes_its_temporary_file(tmp_path: Path) -> None:
    """A command that holds no lock writes it; once is enough to fail without the second try."""
    path, removed = tmp_path / "verdict.json", list[str]()

    def start_of_a_daemon(moment: str, operation: str, name: str) -> None:
        if (moment, operation) == ("from", "replace") and not removed:
            removed.append(name)
            os.unlink(name)

    forget = durable.observe(start_of_a_daemon)
    try:
        durable.overwrite(path, b"said")
    finally:
        forget()
    assert removed and path.read_bytes() == b"said" and [item.name for item in tmp_path.iterdir()] == [path.name]


def test_a_derived_file_in_a_folder_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        durable.overwrite(tmp_path / "none" / "verdict.json", b"said")


def test_every_message_has_why_a_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123")
    with pytest.raises(OSError) as found:
        durable.read_regular(tmp_path / "a", max_bytes=2)
    assert found.value.strerror == str(found.value) == "a: 3 bytes, at most 2 are read"
