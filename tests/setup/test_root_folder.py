"""Unpacking a root for ERA without an engine: named by its tree, whole or not there at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import make_place
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.settings import EraSettings
from threegate.runners.era.bubblewrap_doctor import prove_bubblewrap
from threegate.runners.era.root_identity import identify
from threegate.setup import root_folder, sandbox
from threegate.setup.root_folder import tree_digest, unpack_root


def tree(folder: Path) -> Path:
    (folder / "usr").mkdir(parents=True)
    (folder / "usr" / "a").write_text("a")
    (folder / "b").symlink_to("usr/a")
    return folder


def test_each_part_of_a_tree_is_in_its_digest(tmp_path: Path) -> None:
    first = tree_digest(tree(tmp_path / "0"))
    assert tree_digest(tree(tmp_path / "1")) == first and len(first) == 64
    seen = {first}
    place = tmp_path / "1"
    for change in (
        lambda: (place / "usr" / "a").write_text("b"),
        lambda: (place / "usr" / "a").chmod(0o755),
        lambda: (place / "usr").chmod(0o700),
        lambda: (place / "b").unlink(),
        lambda: (place / "b").symlink_to("usr/b"),
        lambda: (place / "c").mkdir(),
        lambda: (place / "c").rename(place / "d"),
    ):
        change()
        seen.add(tree_digest(place))
    assert len(seen) == 8
    os.mkfifo(place / "pipe")
    with pytest.raises(Unavailable, match="neither file, folder nor link"):
        tree_digest(place)


def test_what_is_no_root_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(InvalidInput, match="is there and is not an unpacked root"):
        unpack_root(tmp_path / "mine")
    with pytest.raises(InvalidInput, match="there is no such folder"):
        unpack_root(tmp_path / "none" / "root")
    monkeypatch.setattr(root_folder, "PROGRAM", str(tmp_path / "none"))
    with pytest.raises(Unavailable, match="apt-get install bubblewrap"):
        unpack_root(tmp_path / "root")


def test_a_failure_leaves_the_root_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What unpacks it fails, after it made something."""
    program = tmp_path / "sandbox" / "bootstrap"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nmkdir "$2"\necho "bootstrap: no mirror" >&2\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setattr(root_folder, "PROGRAM", "/bin/sh")
    monkeypatch.setattr(root_folder, "sandbox_folder", lambda: program.parent)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "root.json").write_text("{}")
    with pytest.raises(Unavailable, match="bootstrap: no mirror"):
        unpack_root(tmp_path / "root")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["root", "sandbox"]
    assert (tmp_path / "root" / "root.json").read_text() == "{}"


@pytest.mark.slow
@pytest.mark.jail
def test_debians_packages_make_a_root_that_runs(tmp_path: Path) -> None:
    """Without an engine; whatever account asks, apt checks the signature of the lists."""
    place = make_place(tmp_path)
    done = place.run("settings", "images", "--rootfs", str(tmp_path / "root"), "--json", expect=0, timeout=280).json()
    era = EraSettings(root=str(tmp_path / "root"), runtime="bubblewrap")
    root = identify(era)
    assert (done["digest"], done["root"]) == (root.digest, str(tmp_path / "root"))
    assert root.digest == f"root:sha256:{tree_digest(tmp_path / 'root' / 'tree')}"
    assert {"sh", "python3", "python", "git", "curl", "awk"} <= root.programs and "sqlite3" in root.modules
    assert place.events("settings_changed")[-1]["data"]["image"] == root.digest
    _, walls = prove_bubblewrap(era)
    assert all(wall.held for wall in walls), walls
    assert sandbox.sandbox_folder().is_dir()
