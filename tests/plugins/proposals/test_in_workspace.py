"""A draft that was made from a proposal is exactly what that proposal makes of it, or it cannot be signed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support import Place, make_place
from threegate.core.canonical import sha256_hex
from threegate.core.errors import Refused
from threegate.core.workspace import Workspace
from threegate.plugins.proposals.proposer import Proposer
from threegate.request.reader import read_request
from threegate.review.draft_sources import check_draft
from threegate.trail.trail import Trail

VALUE = {"tool": "memory.propose", "args": {"content": "x"}}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace whose daemon has drafted one proposal."""
    made = make_place(tmp_path)
    workspace = Workspace(made.root)
    trail = Trail(workspace)
    try:
        path = workspace.inbox / "AP-x.json"
        path.write_text(json.dumps(VALUE))
        proposer = Proposer(workspace, trail, lambda *said: None, workspace.load_settings)
        proposer(path, path.read_bytes(), path.stat().st_uid)
    finally:
        trail.close()
    return made


def check(place: Place, draft: Path, recorded: str | None) -> None:
    """The check that approve and launch make of a draft."""
    workspace = Workspace(place.root)
    settings = workspace.load_settings()
    data = draft.read_bytes()
    request = read_request(data, path=draft.name, settings=settings.request, now=_now(), stage="draft").request
    assert request is not None
    copies = {item.name: workspace.input_place(workspace.drafts, item.name, item.sha256) for item in request.inputs}
    check_draft(workspace, draft, data, request, copies, settings=settings, recorded_sha256=recorded)


def _now() -> datetime:

    return datetime.now(UTC)


def drafted(place: Place) -> tuple[Path, Path, str]:
    """The draft, its proposal's file, and the digest that the trail recorded."""
    draft = next((place.root / "tool-exec" / "drafts").glob("*.md"))
    return draft, Path(f"{draft}.proposal.json"), place.events("proposed")[0]["data"]["proposal_sha256"]


def test_what_the_proposal_makes_passes(place: Place) -> None:
    draft, _, recorded = drafted(place)
    check(place, draft, recorded)


def test_a_draft_of_the_inbox_with_the_id_of_a_proposal_is_refused(place: Place) -> None:
    draft, _, recorded = drafted(place)
    copy = place.root / "inbox" / draft.name
    copy.write_bytes(draft.read_bytes())
    check(place, copy, None)
    with pytest.raises(Refused, match="has the id of a proposal"):
        check(place, copy, recorded)


def test_a_proposal_that_is_gone_or_another_is_refused(place: Place) -> None:
    draft, proposal, recorded = drafted(place)
    with pytest.raises(Refused, match="not the proposal that the trail recorded"):
        check(place, draft, sha256_hex(b"another"))
    proposal.unlink()
    with pytest.raises(Refused, match="cannot be read"):
        check(place, draft, recorded)
