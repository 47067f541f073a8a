"""What is wrong with the whole workspace stops every launch, leaves requests in approved/, and ends with 3."""

from __future__ import annotations

import shutil

from tests.support import Place, make_key, monty_draft, request_id


def waiting(place: Place, rid: str) -> None:
    """The request is still there and nothing ran."""
    assert place.events("started") == []
    assert (place.root / "tool-exec" / "approved" / f"{rid}.md").exists()


def test_an_operators_file_that_nobody_recorded(place: Place) -> None:
    rid = request_id("op")
    place.approve(place.drop(monty_draft(rid, "1")))
    operators = place.root / "tool-exec" / "operators"
    before = operators.read_bytes()
    stranger = make_key(place.root.parent / "stranger").with_suffix(".pub").read_text().split()
    operators.write_bytes(before + f'mallory namespaces="threegate-approval" {stranger[0]} {stranger[1]}\n'.encode())
    done = place.once(expect=3)
    assert "operator" in done.err
    waiting(place, rid)
    operators.write_bytes(before)
    place.once()
    assert "status: succeeded" in place.result(rid)


def test_a_copied_workspace(place: Place) -> None:
    rid = request_id("copy")
    place.approve(place.drop(monty_draft(rid, "1")))
    copy = Place(place.root.parent / "copy", place.key)
    shutil.copytree(place.root, copy.root, symlinks=True)
    done = copy.once(expect=3)
    assert "adopt" in done.err
    waiting(copy, rid)
    place.once()
    assert "status: succeeded" in place.result(rid)


def test_a_restored_backup(place: Place) -> None:
    rid = request_id("backup")
    place.approve(place.drop(monty_draft(rid, "1")))
    backup = place.root.parent / "backup"
    shutil.copytree(place.root, backup, symlinks=True)
    place.once()
    assert len(place.events("started")) == 1
    shutil.rmtree(place.root)
    shutil.copytree(backup, place.root, symlinks=True)
    done = place.once(expect=3)
    assert "adopt" in done.err
    waiting(place, rid)


def test_bad_settings_and_a_missing_trail(place: Place) -> None:
    rid = request_id("bad")
    place.approve(place.drop(monty_draft(rid, "1")))
    settings = place.root / "threegate.toml"
    good = settings.read_text()
    settings.write_text(good + "\n[approval2]\nx = 1\n")
    done = place.once(expect=2)
    assert "approval2" in done.err
    settings.write_text(good)
    trail = place.root / "tool-exec" / "audit" / "trail.jsonl"
    data = trail.read_bytes()
    trail.rename(trail.with_suffix(".away"))
    done = place.once(expect=3)
    assert "trail" in done.err
    trail.write_bytes(data[: len(data) // 2])
    assert place.once(expect=3).err
    trail.write_bytes(data)
    place.once()
    assert "status: succeeded" in place.result(rid)
