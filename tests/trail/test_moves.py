"""Every change of state: the event first, nothing replaced, signatures after their request."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.trail.workspaces import approve, make_workspace
from threegate.core import durable
from threegate.core.errors import TrailError, Unavailable
from threegate.trail import moves
from threegate.trail.payloads import Approved, Quarantined, Refused


@pytest.fixture(name="made")
def a_workspace(tmp_path: Path):
    return make_workspace(tmp_path / "ws")


def watched(work) -> list[tuple[str, str]]:
    """What was done to the disk, in order."""
    seen: list[tuple[str, str]] = []
    stop = durable.observe(
        lambda moment, operation, path: seen.append((operation, Path(path).name)) if moment == "after" else None
    )
    try:
        work()
    finally:
        stop()
    return seen


def test_the_event_is_on_disk_before_the_name_appears(made) -> None:
    workspace, trail = made
    with trail.locked() as held:
        seen = watched(lambda: approve(held, "r-1"))
    names = [item for item in seen if item[0] in ("sync", "rename") and not item[1].startswith(".tmp")]
    assert names == [
        ("sync", "trail.jsonl"),
        ("rename", "TR-20260101-000000Z-r-1.md.sig"),
        ("rename", "TR-20260101-000000Z-r-1.md"),
    ]


def test_a_move_syncs_renames_and_syncs_both_folders(made) -> None:
    workspace, trail = made
    with trail.locked() as held:
        path = approve(held, "r-1")
        target = workspace.refused / path.name
        seen = watched(lambda: moves.move(held, path, target, Refused(), request_id="r-1", actor="daemon"))
    assert seen[1:] == [
        ("sync", "trail.jsonl"),
        ("rename", path.name),
        ("rename", f"{path.name}.sig"),
        ("sync_folder", "refused"),
        ("sync_folder", "approved"),
    ]
    assert not any(workspace.approved.iterdir())


def test_a_taken_name_gets_a_number_and_the_event_names_it(made) -> None:
    workspace, trail = made
    with trail.locked() as held:
        for number in ("", ".2", ".3"):
            source = workspace.approved / "TR-x.md"
            source.write_bytes(number.encode())
            source.with_name("TR-x.md.sig.bob").write_bytes(b"s")
            moved = moves.move(
                held,
                source,
                workspace.refused / "TR-x.md",
                Quarantined(),
                request_id="r",
                actor="daemon",
            )
            assert moved.name == f"TR-x{number}.md" and moved.read_bytes() == number.encode()
            assert (workspace.refused / f"TR-x{number}.md.sig.bob").exists()


def test_several_files_get_the_same_number(made) -> None:
    workspace, trail = made
    (workspace.approved / "TR-x.md.sig").write_bytes(b"old")
    with trail.locked() as held:
        paths = moves.deliver(
            held,
            [
                (workspace.approved / "TR-x.md.sig", b"s", 0o600),
                (workspace.approved / "TR-x.md", b"m", 0o640),
            ],
            Approved(),
            request_id="r",
            actor="me",
        )
    assert [path.name for path in paths] == ["TR-x.2.md.sig", "TR-x.2.md"]
    assert paths[1].stat().st_mode & 0o777 == 0o640
    with trail.locked() as held, pytest.raises(ValueError, match="nothing"):
        moves.deliver(held, [], Approved(), request_id="r", actor="me")


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("a.md", 1, "a.md"),
        ("a.md", 2, "a.2.md"),
        ("a.md.sig", 3, "a.3.md.sig"),
        ("a.json", 2, "a.2.json"),
        ("a", 2, "a.2"),
    ],
)
def test_where_the_number_goes(name: str, number: int, expected: str) -> None:
    assert moves.numbered(Path(name), number).name == expected


def test_a_file_that_is_gone_is_not_announced(made) -> None:
    workspace, trail = made
    with trail.locked() as held:
        with pytest.raises(FileNotFoundError):
            moves.move(
                held,
                workspace.approved / "x.md",
                workspace.refused / "x.md",
                Refused(),
                request_id="r",
                actor="d",
            )
        assert held.index.head.seq == 1


def test_nothing_is_moved_when_the_event_cannot_be_written(made) -> None:
    workspace, trail = made
    source = workspace.approved / "x.md"
    source.write_bytes(b"x")

    def fail(moment: str, operation: str, path: str) -> None:
        if (moment, operation) == ("before", "sync"):
            raise OSError(errno.EIO, "Input/output error")

    stop = durable.observe(fail)
    try:
        with pytest.raises(TrailError), trail.locked() as held:
            moves.move(held, source, workspace.refused / "x.md", Refused(), request_id="r", actor="d")
    finally:
        stop()
    assert source.exists()


def test_companions_are_only_this_requests_signatures(tmp_path: Path) -> None:
    for name in (
        "TR-a.md",
        "TR-a.md.sig",
        "TR-a.md.sig.bob",
        "TR-a.md.signature",
        "TR-b.md.sig",
        "TR-a.2.md.sig",
    ):
        (tmp_path / name).touch()
    found = moves.companions(tmp_path / "TR-a.md")
    assert [path.name for path in found] == ["TR-a.md.sig", "TR-a.md.sig.bob"]
    assert moves.companions(tmp_path / "none" / "a.md") == []


def test_thousands_of_one_name_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "NUMBERS", 3)
    for name in ("a.md", "a.2.md"):
        (tmp_path / name).touch()
    with pytest.raises(Unavailable, match="clean up the folder"):
        moves.free_name(tmp_path / "a.md")


def test_thousands_of_one_name_are_too_many_for_a_delivery(made, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, trail = made
    monkeypatch.setattr(moves, "NUMBERS", 3)
    for name in ("a.md", "a.2.md"):
        (workspace.approved / name).touch()
    with trail.locked() as held, pytest.raises(Unavailable, match="clean up the folder"):
        moves.deliver(held, [(workspace.approved / "a.md", b"", 0o600)], Approved(), request_id="r-1", actor="me")
