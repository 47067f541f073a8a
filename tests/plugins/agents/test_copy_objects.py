"""Packs that an agent's git made are read as git reads them, and damaged ones give nothing wrong."""

from __future__ import annotations

import hashlib
import os
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from threegate.core import limits
from threegate.core.held_folder import HeldFolder, hold_path
from threegate.plugins.agents.copy_objects import CopyObjects

MOST = 1 << 20


def git(folder: Path, *words: str, given: bytes = b"") -> bytes:
    environment = {
        "PATH": os.defpath, "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
    }  # fmt: skip
    done = subprocess.run(["git", *words], cwd=folder, input=given, capture_output=True, check=True, env=environment)
    return done.stdout


def repository(folder: Path, *init: str) -> Path:
    """Six commits of a file that grows, so that most of its versions are deltas."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", *init)
    for number in range(6):
        lines = [hashlib.sha256(b"%d" % line).hexdigest() for line in range(300)]
        for changed in range(number * 20):  # each version is next to the one before it
            lines[changed] = hashlib.sha256(lines[changed].encode()).hexdigest()
        (folder / "long.txt").write_text("\n".join(lines))
        (folder / f"{number}.txt").write_text(f"{number}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"number {number}")
    return folder


def objects(folder: Path) -> dict[str, tuple[bytes, bytes]]:
    """Every object as git says it is: id → kind and bytes."""
    found, left = {}, git(folder, "cat-file", "--batch-all-objects", "--batch")
    while left:
        head, _, left = left.partition(b"\n")
        oid, kind, size = head.split()
        found[oid.decode()] = kind, left[: int(size)]
        left = left[int(size) + 1 :]
    return found


@pytest.fixture(scope="module", params=["offset", "id", "sha256"])
def packed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    how = request.param
    folder = repository(tmp_path_factory.mktemp(how) / "copy", *(["--object-format=sha256"] if how == "sha256" else []))
    git(
        folder,
        "-c",
        "pack.threads=1",
        "-c",
        f"repack.useDeltaBaseOffset={str(how != 'id').lower()}",
        "repack",
        "-adfq",
        "--depth=50",
    )
    return folder


def held(folder: Path) -> HeldFolder:
    return hold_path(folder)


def test_every_object_is_what_git_says(packed: Path) -> None:
    verified = git(packed, "verify-pack", "-v", *map(str, packed.glob(".git/objects/pack/*.idx"))).decode()
    assert "chain length = 2:" in verified, "there are deltas on deltas"
    with held(packed) as top, CopyObjects(top) as own:
        for oid, (kind, data) in objects(packed).items():
            assert own.read(oid, kind, MOST) == data
            assert own.read(oid, b"tag", MOST) is None, "another kind"
            assert own.read(oid, kind, len(data) - 1) is None, "larger than is wanted"
        assert own.read("0" * 40, b"blob", MOST) is None and own.read("f" * 40, b"blob", MOST) is None


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    folder = repository(tmp_path / "copy")
    git(folder, "repack", "-adfq")
    for path in folder.glob(".git/objects/pack/*"):
        path.chmod(0o600)
    yield folder


def test_a_damaged_pack_gives_nothing_wrong(small: Path) -> None:
    """Each byte of the index and the pack, some of them at a time: either the right bytes or none, and it ends."""
    right = objects(small)
    [index], [pack] = (list(small.glob(f".git/objects/pack/*.{end}")) for end in ("idx", "pack"))
    wrong = 0
    for path in (index, pack):
        data = path.read_bytes()
        for at in range(0, len(data), max(1, len(data) // 60)):
            path.write_bytes(data[:at] + bytes((data[at] ^ 0xFF,)) + data[at + 1 :])
            with held(small) as top, CopyObjects(top) as own:
                for oid, (kind, content) in list(right.items())[::5]:
                    found = own.read(oid, kind, MOST)
                    assert found in (None, content)
                    wrong += found is None
            path.write_bytes(data[:at])
            with held(small) as top, CopyObjects(top) as own:
                for oid, (kind, content) in list(right.items())[::5]:
                    assert own.read(oid, kind, MOST) in (None, content)
        path.write_bytes(data)
    assert wrong, "the damage was noticed"


def test_an_index_with_an_offset_that_no_file_has_gives_nothing(small: Path) -> None:
    """Of 8 bytes, all of them set: more than the system takes for a place in a file."""
    right = objects(small)
    [index] = small.glob(".git/objects/pack/*.idx")
    data = bytearray(index.read_bytes())
    count = int.from_bytes(data[8 + 255 * 4 : 8 + 256 * 4], "big")
    offsets = 8 + 256 * 4 + count * 24
    for at in range(offsets, offsets + count * 4, 4):
        data[at : at + 4] = b"\x80\0\0\0"
    index.write_bytes(data[: offsets + count * 4] + b"\xff" * 48)
    with held(small) as top, CopyObjects(top) as own:
        assert {own.read(oid, kind, MOST) for oid, (kind, _) in right.items()} == {None}


def test_a_pack_that_is_small_and_holds_much_is_bounded(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = objects(small)
    monkeypatch.setattr(limits, "COPY_OBJECTS_BYTES", 10_000)
    with held(small) as top, CopyObjects(top) as own:
        read = [own.read(oid, kind, MOST) for oid, (kind, _) in right.items()]
    assert sum(len(data) for data in read if data is not None) <= 10_000 and None in read
    monkeypatch.setattr(limits, "COPY_OBJECTS_BYTES", 1 << 30)
    monkeypatch.setattr(limits, "PACK_DELTAS", 0)
    with held(small) as top, CopyObjects(top) as own:
        assert None in [own.read(oid, kind, MOST) for oid, (kind, _) in right.items()], "a chain is bounded too"


def test_links_and_odd_files_are_not_opened(small: Path, tmp_path: Path) -> None:
    right = objects(small)
    folder = small / ".git/objects/pack"
    [pack] = folder.glob("*.pack")
    elsewhere = tmp_path / "elsewhere"
    os.rename(pack, elsewhere)
    for put in (lambda: pack.symlink_to(elsewhere), lambda: os.mkfifo(pack), lambda: pack.mkdir()):
        put()
        with held(small) as top, CopyObjects(top) as own:
            assert {own.read(oid, kind, MOST) for oid, (kind, _) in right.items()} == {None}
        os.rename(pack, tmp_path / f"gone-{os.urandom(4).hex()}")
    os.rename(elsewhere, pack)
    os.rename(folder, tmp_path / "packs")
    folder.symlink_to(tmp_path / "packs")
    with held(small) as top, CopyObjects(top) as own:
        assert {own.read(oid, kind, MOST) for oid, (kind, _) in right.items()} == {None}


def test_a_loose_bomb_is_not_unpacked(small: Path) -> None:
    place = small / ".git/objects/aa"
    place.mkdir()
    (place / ("a" * 38)).write_bytes(zlib.compress(b"blob 1\0" + b"\0" * (64 << 20)))
    with held(small) as top, CopyObjects(top) as own:
        assert own.read("a" * 40, b"blob", MOST) is None
