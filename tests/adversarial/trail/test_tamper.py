"""Whoever can write the trail's file but does not have the workspace's key: each attack is detected and named.

Who has every file, the key and the outside head can forge everything but a checkpoint that is kept elsewhere.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trail.workspaces import WORKSPACE_ID, grow, make_workspace, raw_trail
from threegate.audit.trail_checkpoints import complete_trail_checkpoint, write_trail_checkpoint
from threegate.core.errors import TrailError
from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.trail.chain import Chain
from threegate.trail.checkpoint import TrailCheckpoint, sign_trail_checkpoint
from threegate.trail.event import LineError, make_event
from threegate.trail.payloads import TrailCheckpointSigned
from threegate.trail.trail import Trail
from threegate.trail.tree import Frontier
from threegate.trail.verify import trail_checkpoint_folder, verify_trail
from threegate.trail.workspace_key import SigningKey, load_key

LINES = 200


@pytest.fixture(name="trail")
def a_trail(tmp_path: Path) -> tuple[Workspace, bytes]:
    """A workspace whose trail has LINES lines and one checkpoint in the middle; and the file's bytes."""
    workspace, trail = make_workspace(tmp_path / "ws")
    grow(trail, LINES // 2)
    with trail.locked() as held:
        write_trail_checkpoint(held, actor="me")
    grow(trail, LINES)
    with trail.locked() as held:
        held.keep_head()
    assert verify_trail(workspace).ok
    return workspace, workspace.trail_file.read_bytes()


def resign(lines: list[bytes]) -> list[bytes]:
    """The same events with all hashes made again, as a forger without the key would."""
    out: list[bytes] = []
    prev = WORKSPACE_ID
    for seq, line in enumerate(lines, start=1):
        value = orjson.loads(line)
        event = make_event(
            seq=seq,
            time=value["time"],
            type=value["type"],
            request_id=value["request_id"],
            actor=value["actor"],
            data=value["data"],
            prev=prev,
        )
        prev = event.hash
        out.append(event.line)
    return out


def test_every_bit_of_every_byte(trail) -> None:
    """From the untouched lines before it, no flipped bit lets the changed line through as the next one."""
    _, data = trail
    chain = Chain()
    flips = 0
    for line in data.splitlines():
        before = (chain.seq, chain.hash, chain.time, chain.type, chain.line)
        for place in range(len(line)):
            for bit in (0, 2, 5) if place % 16 else range(8):
                changed = bytearray(line)
                changed[place] ^= 1 << bit
                parts = bytes(changed).split(b"\n")
                with pytest.raises(LineError):
                    for part in parts:
                        chain.take(part)
                assert (chain.seq, chain.hash, chain.time, chain.type, chain.line) == before
                flips += 1
        chain.take(line)
    assert flips > len(data) * 3


def test_the_line_of_a_changed_byte_is_named(trail) -> None:
    """The whole verification on files with one byte changed, newlines included: the first problem is that line."""
    workspace, data = trail
    ends = [place for place, byte in enumerate(data) if byte == 10]
    places = sorted({*range(0, len(data), 211), *ends[::20], ends[-1]})
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 4
        workspace.trail_file.write_bytes(changed)
        result = verify_trail(workspace)
        assert not result.ok
        assert result.problems[0].line == data.count(b"\n", 0, place) + 1, place


@pytest.mark.soak
def test_every_byte_with_the_whole_verification(trail) -> None:
    workspace, data = trail
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        workspace.trail_file.write_bytes(changed)
        result = verify_trail(workspace)
        assert result.problems[0].line == data.count(b"\n", 0, place) + 1, place


@pytest.mark.parametrize("at", [0, 1, 57, LINES - 2, LINES - 1])
def test_a_deleted_line(trail, at: int) -> None:
    workspace, data = trail
    lines = data.splitlines(keepends=True)
    workspace.trail_file.write_bytes(b"".join(lines[:at] + lines[at + 1 :]))
    result = verify_trail(workspace)
    assert not result.ok
    assert result.problems[0].line == (at + 1 if at < LINES - 1 else LINES - 1)


@pytest.mark.parametrize("at", [0, 1, 57, LINES - 2])
def test_two_swapped_lines(trail, at: int) -> None:
    workspace, data = trail
    lines = data.splitlines(keepends=True)
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    workspace.trail_file.write_bytes(b"".join(lines))
    assert verify_trail(workspace).problems[0].line == at + 1


@pytest.mark.parametrize("at", [1, 57, LINES])
@pytest.mark.parametrize("kind", ["copy", "forged", "blank", "other trail"])
def test_an_inserted_line(trail, at: int, kind: str) -> None:
    workspace, data = trail
    lines = data.splitlines(keepends=True)
    last = orjson.loads(lines[at - 1])
    new = {
        "copy": lines[at - 1],
        "blank": b"\n",
        "forged": make_event(
            seq=at + 1, time=last["time"], type="approved", request_id="r-evil", actor="operator", data={}, prev=last["hash"],  # noqa: E501
        ).line + b"\n",
        "other trail": raw_trail(at + 1)[at] + b"\n",
    }[kind]  # fmt: skip
    workspace.trail_file.write_bytes(b"".join([*lines[:at], new, *lines[at:]]))
    result = verify_trail(workspace)
    if kind == "forged" and at == LINES:
        assert result.ok, "an event at the end is what appending is; only who holds the file may do it"
        return
    assert result.problems[0].line == (at + 2 if kind == "forged" else at + 1)


@pytest.mark.parametrize("left", [0, 1, 50, LINES // 2 + 5, LINES - 1])
def test_a_truncated_trail(trail, left: int) -> None:
    workspace, data = trail
    workspace.trail_file.write_bytes(b"".join(data.splitlines(keepends=True)[:left]))
    result = verify_trail(workspace)
    assert not result.ok
    at = workspace.trail_file
    first = f"{at.parent}/checkpoints/{100:012}: signs 100 lines, the trail has {left}: its end was cut off"
    outside = f"{at}:{left}: ends here; the head kept outside says that there were {LINES} events: the end was cut off"
    wanted = [*([first] if left < 100 else []), outside] if left else [f"{at}: the trail is empty", first]
    assert [str(item) for item in result.problems] == wanted


def test_truncated_and_continued(trail) -> None:
    """Cut off, then grown past its old length with a chain that is right in itself."""
    workspace, data = trail
    lines = [line.rstrip(b"\n") for line in data.splitlines()]
    forged = resign(
        lines[:150] + [lines[150].replace(b'"valid":true', b'"valid":false')] + lines[151:] + lines[-1:] * 9
    )
    workspace.trail_file.write_bytes(b"\n".join(forged) + b"\n")
    result = verify_trail(workspace)
    assert [item.line for item in result.problems] == [LINES]
    assert "head kept outside" in result.problems[0].message


def test_continued_before_a_checkpoint_without_an_outside_head(trail) -> None:
    workspace, data = trail
    UserState.of(WORKSPACE_ID).head_file.unlink()
    lines = data.splitlines()
    forged = resign([*lines[:20], lines[20].replace(b'"valid":true', b'"valid":false'), *lines[21:]])
    workspace.trail_file.write_bytes(b"\n".join(forged) + b"\n")
    messages = [str(item) for item in verify_trail(workspace).problems]
    assert any("announces a tree" in item for item in messages)
    assert any("signs another tree" in item for item in messages)


def test_resigned_with_another_key(trail) -> None:
    """Every line, the key in the first one, and the checkpoint are the forger's own; the real key is known
    elsewhere.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    workspace, data = trail
    real = load_key(WORKSPACE_ID)
    UserState.of(WORKSPACE_ID).head_file.unlink()
    forger = SigningKey(real.name, Ed25519PrivateKey.generate())
    lines = [line.replace(real.public.render().encode(), forger.public.render().encode()) for line in data.splitlines()]
    half = resign(lines[: LINES // 2])
    frontier = Frontier()
    for line in half:
        frontier.add(line)
    note = sign_trail_checkpoint(forger, len(half), frontier.root())
    lines[LINES // 2] = lines[LINES // 2].replace(
        orjson.loads(lines[LINES // 2])["data"]["root"].encode(), frontier.root().hex().encode()
    )
    workspace.trail_file.write_bytes(b"\n".join(resign(lines)) + b"\n")
    (path,) = (workspace.audit / "checkpoints").iterdir()
    path.write_bytes(note.render())
    assert verify_trail(workspace).ok, "consistent in itself: nothing in this folder can tell"
    messages = [str(item) for item in verify_trail(workspace, key=real.public).problems]
    assert any("another key than the one given" in item for item in messages)


def test_an_old_trail_with_its_old_checkpoint(trail, tmp_path: Path) -> None:
    """A whole older state put back, outside head too: only a checkpoint that was kept elsewhere tells."""
    workspace, _ = trail
    outside = UserState.of(WORKSPACE_ID)
    shutil.copytree(workspace.audit, tmp_path / "old-audit")
    old_head = outside.head_file.read_bytes()
    grower = Trail(workspace)
    grow(grower, LINES + 50)
    with grower.locked() as held:
        path, kept_elsewhere = write_trail_checkpoint(held, actor="me")
    assert path.read_bytes() == kept_elsewhere.render()
    shutil.rmtree(workspace.audit)
    shutil.copytree(tmp_path / "old-audit", workspace.audit)
    outside.head_file.write_bytes(old_head)
    assert verify_trail(workspace).ok
    result = verify_trail(workspace, external=[("mail.txt", kept_elsewhere.render())])
    assert [str(item) for item in result.problems] == [
        f"mail.txt: signs {LINES + 50} lines, the trail has {LINES}: its end was cut off"
    ]


def test_a_checkpoint_whose_bytes_were_changed(trail) -> None:
    workspace, _ = trail
    (path,) = (workspace.audit / "checkpoints").iterdir()
    good = path.read_bytes()
    for place in range(len(good)):
        changed = bytearray(good)
        changed[place] ^= 1
        path.write_bytes(changed)
        result = verify_trail(workspace)
        assert not result.ok and result.problems[0].place == str(path), place


@pytest.mark.parametrize(
    ("size", "root"), [(LINES, "ab" * 32), (LINES, "no digest"), (7, ""), (0, ""), (-1, ""), (999, "")]
)
def test_a_tree_that_an_event_only_claims_is_never_signed(trail, size: int, root: str) -> None:
    """A daemon that starts writes the note that the last such event announced, if a crash kept it from its folder."""
    workspace, _ = trail
    with Trail(workspace).locked() as held:
        held.append(TrailCheckpointSigned(size=size, root=root or held.index.frontier.root().hex()), actor="me")
    notes = sorted(trail_checkpoint_folder(workspace).iterdir())
    with pytest.raises(TrailError, match="is not of the lines before it"):
        complete_trail_checkpoint(Trail(workspace))
    assert sorted(trail_checkpoint_folder(workspace).iterdir()) == notes


def test_checkpoints_that_contradict_each_other(trail) -> None:
    workspace, _ = trail
    key = load_key(WORKSPACE_ID)
    forged = sign_trail_checkpoint(key, 77, hashlib.sha256(b"another history").digest())
    result = verify_trail(workspace, external=[("kept", forged.render())])
    assert [str(item) for item in result.problems] == [
        "kept: signs another tree: something in the first 77 lines was changed since"
    ]
    assert TrailCheckpoint.parse(forged.render()) == forged


CLEAN = {
    "seed": st.integers(0, 2**32),
    "data": st.dictionaries(st.text(max_size=12), st.text(max_size=12) | st.integers(), max_size=4),
}


@settings(max_examples=20)
@given(**CLEAN)
def test_no_false_alarm_on_clean_trails(tmp_path_factory, seed: int, data: dict) -> None:
    """20 examples of 100 trails each: clean trails of any values, written and verified as files."""
    a_hundred_clean_trails(tmp_path_factory.getbasetemp() / "clean", seed, data)


@pytest.mark.soak
@settings(max_examples=100)
@given(**CLEAN)
def test_no_false_alarm_on_ten_thousand_clean_trails(tmp_path_factory, seed: int, data: dict) -> None:
    a_hundred_clean_trails(tmp_path_factory.getbasetemp() / "clean", seed, data)


def a_hundred_clean_trails(folder: Path, seed: int, data: dict) -> None:
    random_ = random.Random(seed)
    workspace = Workspace(folder)
    workspace.audit.mkdir(parents=True, exist_ok=True)
    vkey = (
        "k+" + hashlib.sha256(b"k\n\x01" + b"\0" * 32).hexdigest()[:8] + "+AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    )
    types = ("observed", "validated", "approved", "claimed", "finished", "refused", "waiting")
    for _ in range(100):
        prev, lines = WORKSPACE_ID, []
        for seq in range(1, random_.randint(2, 6)):
            event = make_event(
                seq=seq,
                time="2026-01-01T00:00:00.000Z",
                type="workspace_created" if seq == 1 else random_.choice(types),
                request_id=None if seq == 1 else f"r-{random_.randint(0, 3)}",
                actor=random_.choice(("daemon", "\u202eoperator", "x" * 300)),
                data={"vkey": vkey} if seq == 1 else {**data, "n": random_.getrandbits(60)},
                prev=prev,
            )
            prev = event.hash
            lines.append(event.line + b"\n")
        workspace.trail_file.write_bytes(b"".join(lines))
        result = verify_trail(workspace)
        assert result.ok and result.lines == len(lines), result.problems
