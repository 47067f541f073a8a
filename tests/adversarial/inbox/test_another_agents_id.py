"""A file with another agent's request_id takes nothing from that agent: not the request, not its name, not its
limits.
"""

from __future__ import annotations

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
