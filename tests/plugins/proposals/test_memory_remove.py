"""A stored memory note can be removed: announced by its digest, and nothing else goes with it."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from tests.acts.bench_workspace import Bench
from threegate.cli import execute as run
from threegate.plugins.proposals.memory import notes
from threegate.trail.trail import Trail

LINES = [
    json.dumps({"content": f"note {number}", "request_id": name}).encode() + b"\n"
    for number, name in enumerate(["a", "b", "b"], start=1)
]


@pytest.fixture
def stored(bench: Bench) -> Bench:
    (bench.workspace.memory / "notes.jsonl").write_bytes(b"".join(LINES))
    return bench


def remove(bench: Bench, which: str) -> int:
    return run(["--workspace", str(bench.workspace.root), "project", "note", "remove", which, "--yes"])


@pytest.mark.parametrize(("which", "gone"), [("notes.jsonl:2", 1), ("a", 0), ("notes.jsonl:3", 2)])
def test_exactly_the_named_note_goes(stored: Bench, which: str, gone: int) -> None:
    assert remove(stored, which) == 0
    left = [line for number, line in enumerate(LINES) if number != gone]
    assert (stored.workspace.memory / "notes.jsonl").read_bytes() == b"".join(left)
    event = list(Trail(stored.workspace).events())[-1]
    assert (event.type, event.data["note_sha256"]) == ("pruned", sha256(LINES[gone]).hexdigest())
    assert event.data["what"] == "memory note"


@pytest.mark.parametrize("which", ["b", "c", "notes.jsonl:4", "notes.jsonl:0", "../notes.jsonl:1", ""])
def test_what_names_no_single_note_removes_none(stored: Bench, which: str) -> None:
    assert remove(stored, which) == 2
    assert len(notes(stored.context)) == 3
    assert all(event.type != "pruned" for event in Trail(stored.workspace).events())
