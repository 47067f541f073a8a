"""What the crash harness stops: a note that is stored and removed."""

from __future__ import annotations

import json

from tests.crash.place import Place, announced, forked, last_words
from tests.crash.scenarios import Scenario, recovered
from threegate.audit.audit_verify import verify_workspace


def prepare_note(place: Place) -> None:
    """A proposed note has run: it can be stored."""
    proposal = {"tool": "memory.propose", "args": {"content": "Be short.", "type": "PREFERENCE"}}
    (place.workspace.inbox / "AP-note.json").write_text(json.dumps(proposal))
    assert forked(place.daemon) == 0
    (draft,) = place.workspace.drafts.glob("*.md")
    said = [json.loads(line) for line in place.workspace.trail_file.read_bytes().splitlines()]
    place.ids["note"] = next(item["request_id"] for item in said if item["type"] == "proposed")
    assert place.signed("approve", str(draft)) == 0
    assert forked(place.daemon) == 0
    place.save()


def store_note(place: Place) -> int:
    return place.signed("project", "note", "approve", place.ids["note"])


def stored_notes(place: Place) -> int:
    path = place.workspace.memory / "notes.jsonl"
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def after_note(place: Place) -> list[str]:
    """It is stored and the trail says so, or neither; then it can be stored."""
    wrong = recovered(place)
    if stored_notes(place) != announced(place, "applied", "note"):
        wrong.append(f"{stored_notes(place)} notes are stored, and the trail says something else")
    if stored_notes(place) == 0 and (code := forked(lambda: store_note(place))) != 0:
        wrong.append(f"it cannot be stored again ({code}): {last_words()}")
    if stored_notes(place) != 1:
        wrong.append("it is not stored")
    wrong += [f"left: {path.name}" for path in place.workspace.memory.iterdir() if path.name != "notes.jsonl"]
    return wrong + [f"verify: {item}" for item in verify_workspace(place.workspace).problems]


def prepare_note_removed(place: Place) -> None:
    prepare_note(place)
    assert store_note(place) == 0
    place.save()


def remove_note(place: Place) -> int:
    return place.command("project", "note", "remove", place.ids["note"], "--yes")


def after_note_removed(place: Place) -> list[str]:
    """It is gone and the trail says so, or neither; then it can be removed."""
    wrong = recovered(place)
    if stored_notes(place) == announced(place, "pruned"):
        wrong.append(f"{stored_notes(place)} notes are stored, and the trail says something else")
    if stored_notes(place) == 1 and (code := forked(lambda: remove_note(place))) != 0:
        wrong.append(f"it cannot be removed again ({code}): {last_words()}")
    if stored_notes(place) != 0:
        wrong.append("it is still stored")
    wrong += [f"left: {path.name}" for path in place.workspace.memory.iterdir() if path.name != "notes.jsonl"]
    return wrong + [f"verify: {item}" for item in verify_workspace(place.workspace).problems]


SCENARIOS = {
    "note": Scenario(prepare_note, store_note, after_note, floor=(18, 27)),
    "note_removed": Scenario(prepare_note_removed, remove_note, after_note_removed, floor=(18, 27)),
}
