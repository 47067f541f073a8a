"""A file with the id of another agent's proposal takes nothing from that agent."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.adversarial.inbox.test_another_agents_id import drop
from tests.support import Place, make_place, monty_draft

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
