"""Workspaces that earlier versions made keep verifying and running: copied and adopted, or gone on with in place."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest

from scripts.make_upgrade_fixture import DRAFTS, HOME
from tests.support import Place
from threegate.launch.results.validate import validate_result
from threegate.setup.settings_file import set_values

KEPT = sorted((Path(__file__).resolve().parents[1] / "data" / "upgrade").glob("*.tar.gz"))
_SIGN = ("--as", "operator", "--key")


def unpacked(archive: Path, folder: Path) -> Place:
    with tarfile.open(archive) as packed:
        packed.extractall(folder)  # Debian's Python 3.11.2 knows no filter
    (folder / "operator_key").chmod(0o600)
    return Place(folder / "ws", folder / "operator_key")


def results(place: Place) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (place.root / "tool-exec" / "results").glob("TS-*.md")}


def old_ids(place: Place) -> set[str]:
    """Requests that the closed files of the trail name."""
    files = (place.root / "tool-exec" / "audit").glob("trail-*.jsonl")
    return {json.loads(line)["request_id"] for path in files for line in path.read_text().splitlines()}


def goes_on(place: Place, before: dict[str, bytes], reason: str) -> None:
    """What a workspace must still do; the approval that waited was bound to what is no more, which is said, and
    asked for again.
    """
    waits, approved = "TR-20261122-100005Z-waits", "TR-20261122-100004Z-approved"
    place.approve(place.root / "inbox" / f"{waits}.md")
    place.once()
    assert "status: succeeded" in place.result(waits)
    assert f'reason: "{reason}"' in place.result(approved)
    place.run("draft", "--again", approved, expect=0)
    [draft] = (place.root / "inbox").glob("TR-*approved*.md")
    text = draft.read_text()
    place.approve(draft)
    place.once()
    fresh = next(line for line in text.splitlines() if line.startswith("request_id: "))
    assert "status: succeeded" in place.result(fresh.removeprefix("request_id: ").strip('"'))
    now = results(place)
    assert {name: now[name] for name in before} == before, "what was told is never told otherwise"
    for name in before:
        assert not validate_result((place.root / "tool-exec" / "results" / name).read_bytes())
    told = place.run("audit", "replay", "TR-20261122-100000Z-succeeds", *_SIGN, str(place.key), "--yes", expect=0)
    assert told.out.startswith("identical"), told.out
    verified = place.run("audit", "verify", expect=0)
    assert "trail verifies" in verified.out


def test_the_workspace_of_the_first_version_is_kept() -> None:
    assert [path.name for path in KEPT][:1] == ["0.1.0.tar.gz"]
    assert all(path.stat().st_size < 200 * 1024 for path in KEPT)


@pytest.mark.parametrize("archive", KEPT, ids=lambda path: path.name)
@pytest.mark.root  # the account that made the fixture
def test_a_copy_is_adopted_and_goes_on(archive: Path, tmp_path: Path) -> None:
    place = unpacked(archive, tmp_path)
    before = results(place)
    assert len(before) == 4, "one for each request that has ended"
    assert [path.stem for path in (place.root / "tool-exec" / "approved").glob("*.md")] == [
        "TR-20261122-100004Z-approved"
    ]
    done = place.once(expect=3)
    assert "threegate settings adopt" in done.err, "nothing is started in a copy"
    place.run("settings", "adopt", *_SIGN, str(place.key), "--yes", expect=0)
    place.run("audit", "verify", expect=0)
    place.once()
    goes_on(place, before, "workspace_mismatch")
    assert set(DRAFTS) <= {event["request_id"] for event in place.events()} | {None} | old_ids(place)


@pytest.mark.slow
@pytest.mark.parametrize("archive", KEPT, ids=lambda path: path.name)
def test_in_place_it_goes_on_without_an_act(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        HOME.mkdir(mode=0o700)
    except FileExistsError:
        pytest.fail(f"{HOME}: is there; remove it (the kept workspace knows this path)")
    try:
        place = unpacked(archive, HOME)
        monkeypatch.setenv("XDG_STATE_HOME", str(HOME / "state"))
        place.run("audit", "verify", expect=0)
        before = results(place)
        # Another version may have the same policy as this one: what is changed here is part of it.
        set_values(place.root / "threegate.toml", {"request.max_time_sec": 1800})
        place.once()
        goes_on(place, before, "policy_changed")
    finally:
        _remove(HOME)


def _remove(folder: Path) -> None:
    for parent, folders, files in os.walk(folder, topdown=False):
        for name in files:
            (Path(parent) / name).unlink()
        for name in folders:
            path = Path(parent) / name
            path.unlink() if path.is_symlink() else path.rmdir()
    folder.rmdir()
