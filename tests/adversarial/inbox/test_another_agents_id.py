"""A file with another agent's request_id takes nothing from that agent: not the request, not its name, not its
limits.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support import Place, make_place, monty_draft, request_id

pytestmark = pytest.mark.root
FIRST, SECOND = 1001, 1002


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace whose settings name two agents."""
    made = make_place(tmp_path)
    path = made.root / "threegate.toml"
    named = f'[requesters]\n"{FIRST}" = "operator"\n"{SECOND}" = "other"'
    path.write_text(path.read_text().replace("[requesters]", named))
    return made


def drop(place: Place, owner: int, text: str, name: str | None = None) -> Path:
    """Put a draft into the inbox as an account's own file."""
    path = place.drop(text, name)
    os.chown(path, owner, owner)
    return path


def test_the_requester_is_the_owner_of_the_first_file(place: Place) -> None:
    """`operator` may not approve its own request, and does not become somebody else by another's copy of it."""
    rid = request_id("mine")
    first = drop(place, FIRST, monty_draft(rid, "1"))
    place.once()
    assert "whoever asks cannot approve" in place.approve(first, expect=2).err
    second = drop(place, SECOND, monty_draft(rid, "1"), f"{rid[:23]}copy.md")
    place.once()
    verdict = place.verdict(second.name)
    assert not verdict["valid"] and verdict["reason"] == "TG901"
    assert "was first used by the account with uid 1001" in place.approve(second, expect=2).err
    assert "whoever asks cannot approve" in place.approve(first, expect=2).err


def test_rejecting_the_copy_leaves_the_request_alone(place: Place) -> None:
    rid = request_id("victim")
    first = drop(place, SECOND, monty_draft(rid, "1"))
    place.once()
    copy = drop(place, FIRST, monty_draft(rid, "2"), f"{rid[:23]}copy.md")
    place.once()
    place.run("reject", str(copy), "--reason", "no", expect=0)
    (event,) = place.events("rejected")
    assert event["request_id"] is None and event["data"]["claims_id"] == rid
    place.approve(first)
    place.once()
    assert "status: succeeded" in place.result(rid)


def test_a_copy_dropped_after_the_approval_changes_nothing(place: Place) -> None:
    rid = request_id("approved")
    place.approve(drop(place, SECOND, monty_draft(rid, "1")))
    drop(place, FIRST, monty_draft(rid, "2"), f"{rid[:23]}copy.md")
    place.once()
    place.once()
    assert "status: succeeded" in place.result(rid)
    assert [event["data"]["owner_uid"] for event in place.events("approved")] == [SECOND]


def test_the_id_of_a_proposal_is_not_taken_over(place: Place) -> None:
    path = place.root / "inbox" / "AP-x.json"
    path.write_text(json.dumps({"tool": "memory.propose", "args": {"content": "x"}}))
    os.chown(path, SECOND, SECOND)
    place.once()
    draft = next((place.root / "tool-exec" / "drafts").glob("*.md"))
    rid = place.events("proposed")[0]["request_id"]
    copy = drop(place, FIRST, monty_draft(rid, "1"), "TR-20260101-000000Z-copy.md")
    place.once()
    assert place.verdict(copy.name)["reason"] == "TG901"
    place.approve(draft)
    assert [event["data"]["owner_uid"] for event in place.events("approved")] == [SECOND]


def test_a_proposal_whose_id_was_guessed_first_is_refused_by_name(place: Place) -> None:
    value = json.dumps({"tool": "memory.propose", "args": {"content": "y"}})
    (place.root.parent / "elsewhere").mkdir()
    other = make_place(place.root.parent / "elsewhere")
    (other.root / "inbox" / "AP-y.json").write_text(value)
    other.once()
    rid = other.events("proposed")[0]["request_id"]
    drop(place, FIRST, monty_draft(rid, "1"), "TR-20260101-000000Z-guess.md")
    place.once()
    path = place.root / "inbox" / "AP-y.json"
    path.write_text(value)
    os.chown(path, SECOND, SECOND)
    place.once()
    assert place.verdict("AP-y.json")["reason"] == "id_taken" and place.events("proposed") == []
