"""Outputs that are given back: what policy lets through, where it is, and that a crash leaves it whole."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import Place, make_place, monty_draft, request_id, wait_until
from threegate.core import limits
from threegate.core.workspace import Workspace
from threegate.launch.results.released import deliver_released, released_there, stage_released
from threegate.runners.interface import Artifact

TOKEN = b"ghp_" + b"a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def run_with(folder: Path, files: dict[str, bytes]) -> list[Artifact]:
    artifacts = []
    for name, data in files.items():
        path = folder / "out" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        artifacts.append(Artifact(name, len(data), hashlib.sha256(data).hexdigest()))
    return artifacts


def rows(folder: Path) -> dict[str, Any]:
    value = json.loads((folder / "outputs.json").read_text())
    assert value["schema"] == "threegate.outputs/1"
    return {row["path"]: row for row in value["outputs"]}


def test_what_is_given_back_and_what_is_not(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "ws")
    workspace.results.mkdir(parents=True)
    folder = tmp_path / "run"
    big = b"x" * (limits.RELEASED_BYTES - 10)
    artifacts = run_with(
        folder,
        {
            "a.txt": b"one",
            "again.txt": b"one",
            "sub/key.txt": b"it is " + TOKEN,
            "big": big,
            "late": b"y" * 11,
        },
    )
    (folder / "out" / "a.txt").write_bytes(b"two")
    staged = stage_released(workspace, folder, "req", artifacts)
    assert staged is not None and {path.name for path in staged.files} == set(os.listdir(folder / "released"))
    deliver_released(workspace, folder, "req")
    there = workspace.results / "req"
    assert released_there(workspace, "req") and not (folder / "released").exists()
    assert hashlib.sha256((there / "outputs.json").read_bytes()).hexdigest() == staged.sha256
    whys = {path: row["why"] for path, row in rows(there).items()}
    assert whys == {
        "a.txt": "changed",
        "again.txt": "",
        "sub/key.txt": "secret",
        "big": "",
        "late": "too_large",
    }
    for row in rows(there).values():
        path = there / row["sha256"]
        assert path.is_file() == (row["released"] or row["path"] == "a.txt")
    assert stage_released(workspace, folder, "req", artifacts) == staged, "as recovery does"
    deliver_released(workspace, folder, "req")
    assert not (folder / "released").exists()


def test_no_outputs_no_folder(tmp_path: Path) -> None:
    assert stage_released(Workspace(tmp_path), tmp_path, "req", []) is None
    assert not list(tmp_path.iterdir())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def test_the_trail_names_what_was_given_back_and_the_audit_checks_it(place: Place) -> None:
    rid = request_id("out")
    place.approve(place.drop(monty_draft(rid, "6 * 7")))
    place.once()
    (event,) = place.events("finished")
    folder = place.root / "tool-exec" / "results" / rid
    manifest = (folder / "outputs.json").read_bytes()
    assert event["data"]["released_sha256"] == hashlib.sha256(manifest).hexdigest()
    place.run("audit", "verify", expect=0)
    (row,) = rows(folder).values()
    (folder / row["sha256"]).write_bytes(b"0")
    assert "it was changed" in place.run("audit", "verify", expect=2).out
    (folder / row["sha256"]).unlink()
    assert "it is nowhere" in place.run("audit", "verify", expect=2).out
    (folder / "outputs.json").write_bytes(b"{}")
    assert "it was changed" in place.run("audit", "verify", expect=2).out
    (folder / "outputs.json").unlink()
    folder.rmdir()
    assert "they are not there" in place.run("audit", "verify", expect=2).out
    folder.mkdir()
    (folder / "planted").touch()
    assert place.run("audit", "verify").code == 2


def test_what_a_crash_left_undone_is_given_back_at_the_next_start(place: Place) -> None:
    rid = request_id("crash")
    place.approve(place.drop(monty_draft(rid, "6 * 7")))
    place.once()
    results = place.root / "tool-exec" / "results"
    kept = {path.name: path.read_bytes() for path in (results / rid).iterdir()}
    for path in (results / rid).iterdir():
        path.unlink()
    (results / rid).rmdir()
    (file,) = results.glob("TS-*.md")
    file.unlink()
    place.once()
    assert {path.name: path.read_bytes() for path in (results / rid).iterdir()} == kept
    place.run("audit", "verify", expect=0)


def test_policy_may_release_nothing(place: Place) -> None:
    path = place.root / "threegate.toml"
    path.write_text(re.sub(r"(?m)^#? *release = .*$", 'release = "never"', path.read_text()))
    rid = request_id("never")
    place.approve(place.drop(monty_draft(rid, "6 * 7")))
    place.once()
    assert not (place.root / "tool-exec" / "results" / rid).exists()
    assert "released_sha256" not in place.events("finished")[0]["data"]


def test_a_run_is_pruned_with_what_was_given_back(place: Place) -> None:
    rid = request_id("old")
    place.approve(place.drop(monty_draft(rid, "6 * 7")))
    place.once()
    ended = time.time()
    wait_until(lambda: time.time() > ended + 1, "a run that is older than a second")
    place.run("audit", "prune", "--older-than", "1s", expect=0)
    assert not (place.root / "tool-exec" / "results" / rid).exists()
    place.run("audit", "verify", expect=0)
