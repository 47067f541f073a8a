"""Cosignatures beside their checkpoints: announced before they are there, and there again after a crash."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.trail.workspaces import grow, make_workspace
from tests.whole.trail.everything import cosign_newest
from threegate.audit.audit_verify import verify_workspace
from threegate.audit.trail_checkpoints import (
    rotate,
    trail_checkpoint_due,
    trail_checkpoint_when_due,
    write_trail_checkpoint,
)
from threegate.core import durable, limits
from threegate.core.workspace import Workspace
from threegate.plugins.evidence.cosigned_checkpoints import complete_cosignature, newest_trail_checkpoint
from threegate.trail.checkpoint import TrailCheckpoint
from threegate.trail.cosignature import WitnessKey
from threegate.trail.event import Event
from threegate.trail.payloads import TrailCheckpointSigned
from threegate.trail.trail import Trail
from threegate.trail.workspace_key import SigningKey


class Killed(BaseException):
    """Stands for SIGKILL."""


@pytest.fixture(name="signed")
def a_signed_trail(tmp_path: Path) -> Workspace:
    workspace, trail = make_workspace(tmp_path / "ws")
    grow(trail, 9)
    with trail.locked() as held:
        write_trail_checkpoint(held, actor="me")
    trail.close()
    return workspace


def events(workspace: Workspace) -> list[Event]:
    return list(Trail(workspace).events())


def problems(workspace: Workspace) -> list[str]:
    return [str(item) for item in verify_workspace(workspace).problems]


def test_a_kill_at_any_operation_leaves_it_announced_and_whole_or_not_at_all(signed: Workspace) -> None:
    """Before and after each operation on the disk; what the next start completes has the announced bytes."""
    at, done = 0, False
    while not done:
        size = len(events(signed))
        with Trail(signed).locked() as held:
            write_trail_checkpoint(held, actor="me")
        at, done = at + 1, True
        left = at

        def kill(moment: str, operation: str, path: str) -> None:
            nonlocal left, done
            left -= 1
            if left == 0:
                done = False
                raise Killed

        stop = durable.observe(kill)
        try:
            cosign_newest(signed)
        except Killed:
            pass
        finally:
            stop()
        complete_cosignature(Trail(signed))
        new = [event for event in events(signed)[size + 1 :] if event.type == "witnessed"]
        place = signed.audit / "checkpoints" / f"{size:012d}.office"
        assert len(new) == place.exists(), f"killed at operation {at}"
        assert not problems(signed)
    assert at > 5


def test_each_file_is_compared_with_its_event(signed: Workspace) -> None:
    path = cosign_newest(signed)
    assert not problems(signed) and newest_trail_checkpoint(Trail(signed), "office") is None
    assert newest_trail_checkpoint(Trail(signed), "other") is not None
    good = path.read_bytes()
    path.write_bytes(good[:-3] + b"x=\n")
    assert any(f"{path}: is not what event" in line for line in problems(signed))
    path.unlink()
    assert any(f"{path}: event" in line for line in problems(signed))
    assert complete_cosignature(Trail(signed)) == path and path.read_bytes() == good
    path.with_name(f"{path.name}2").write_bytes(good)
    assert any("no event announced this file" in line for line in problems(signed))


def test_each_named_witness_must_have_cosigned_the_newest_checkpoint(signed: Workspace, tmp_path: Path) -> None:
    office = WitnessKey.of(SigningKey("witness.example/w1", Ed25519PrivateKey.from_private_bytes(b"w" * 32)))
    other = WitnessKey(office.name, bytes(range(32)))

    def wrong(*witnesses: WitnessKey, external: list[tuple[str, bytes]] | None = None) -> list[str]:
        result = verify_workspace(signed, witnesses=witnesses, external=external or [])
        return [item.message for item in result.problems]

    (message,) = wrong(office)
    assert message.startswith(f"has no cosignature by {office.name}+{office.key_id.hex()}")
    path = cosign_newest(signed)
    assert not wrong(office) and len(wrong(other)) == 1 and len(wrong(office, other)) == 1
    result = verify_workspace(signed, witnesses=[office])
    assert result.cosigned == [(office.name, 9, "2026-01-01T00:00:00Z")] and result.checkpoints == 1
    with Trail(signed).locked() as held:
        write_trail_checkpoint(held, actor="me")
    assert len(wrong(office)) == 1, "an older one does not count"
    note = newest_trail_checkpoint(Trail(signed), "office")
    assert note is not None
    elsewhere = path.with_name("elsewhere").name
    line = TrailCheckpoint.parse(path.read_bytes()).signatures[-1]
    forged = replace(note, signatures=(*note.signatures, line)).render()
    assert wrong(office, external=[(elsewhere, forged)]) == [f"has a cosignature by {office.name} that does not verify"]


def test_a_trail_without_a_checkpoint_has_no_cosignature(tmp_path: Path) -> None:
    workspace, _ = make_workspace(tmp_path / "ws")
    result = verify_workspace(workspace, witnesses=[WitnessKey("w.example", bytes(32))])
    assert ["has no trail checkpoint, so w.example cosigned none" in item.message for item in result.problems] == [True]


def test_a_checkpoint_whose_root_is_no_digest_has_no_cosignature(tmp_path: Path) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    with trail.locked() as held:
        held.append(TrailCheckpointSigned(size=1, root="not a digest"), actor="me")
    result = verify_workspace(workspace, witnesses=[WitnessKey("w.example", bytes(32))])
    messages = [item.message for item in result.problems]
    assert "announces a tree that is not the one before it" in messages
    assert any("w.example" in message for message in messages)


def test_a_checkpoint_that_is_gone_stops_no_start(signed: Workspace) -> None:
    path = cosign_newest(signed)
    with Trail(signed).locked() as held:
        rotate(held, actor="me")
    path.unlink()
    path.with_suffix("").write_text("no checkpoint")
    assert complete_cosignature(Trail(signed)) is None and not path.exists()
    path.with_suffix("").unlink()
    assert complete_cosignature(Trail(signed)) is None and not path.exists()


def test_what_witnesses_answer_makes_no_checkpoint_due(signed: Workspace) -> None:
    trail = Trail(signed)
    with trail.locked() as held:
        assert not trail_checkpoint_due(held, 2)
    cosign_newest(signed)
    assert trail_checkpoint_when_due(trail, 2, actor="daemon") is None
    grow(trail, 12)
    assert trail_checkpoint_when_due(trail, 2, actor="daemon") is not None


def test_a_kept_index_knows_the_last_cosignature(signed: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRAIL_INDEX_LINES", 5)
    path = cosign_newest(signed)
    trail = Trail(signed)
    with trail.locked() as held:
        write_trail_checkpoint(held, actor="me")
        assert held.index.saved
    good = path.read_bytes()
    path.unlink()
    again = Trail(signed)
    complete_cosignature(again)
    with again.locked() as held:
        assert held.index.saved
    assert path.read_bytes() == good


def test_it_is_not_announced_twice(signed: Workspace) -> None:
    cosign_newest(signed)
    with pytest.raises(AssertionError):
        cosign_newest(signed)
    assert [event.type for event in events(signed)].count("witnessed") == 1
