"""A link, a file or nothing where a folder of the workspace belongs: nothing is launched, and the folder is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench

FOLDERS = (
    "inbox", "inbox/files", "tool-exec", "tool-exec/approved", "tool-exec/running", "tool-exec/inputs", "tool-exec/audit"  # noqa: E501
)  # fmt: skip


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return make_bench(tmp_path_factory.mktemp("replaced"))


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("kind", ["link", "link out", "file", "nothing"])
def test_each_is_named(bench: Bench, name: str, kind: str, tmp_path: Path) -> None:
    workspace = bench.workspace
    assert workspace.replaced_folder() is None
    place, away = workspace.root / name, workspace.root.parent / "away"
    os.rename(place, away)
    try:
        if kind == "link":  # to the folder itself: everything in it is there
            place.symlink_to(away)
        elif kind == "link out":
            place.symlink_to(tmp_path)
        elif kind == "file":
            place.write_text("")
        told = workspace.replaced_folder()
        assert told is not None and told.startswith(f"{name}/ is not a folder ("), told
    finally:
        place.unlink(missing_ok=True)
        os.rename(away, place)
    assert workspace.replaced_folder() is None


def test_a_workspace_that_is_gone_is_said_so(bench: Bench) -> None:
    away = bench.workspace.root.with_name("gone")
    os.rename(bench.workspace.root, away)
    try:
        assert "inbox/ is not a folder" in str(bench.workspace.replaced_folder())
    finally:
        os.rename(away, bench.workspace.root)
