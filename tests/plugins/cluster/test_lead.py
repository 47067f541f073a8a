"""Which daemon leads, without a broker: the queue's order is played by hand."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

from tests.support import Place, make_place, monty_draft, request_id
from threegate.core import limits
from threegate.core.errors import Refused, TrailError, Unavailable
from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.plugins.cluster import lead
from threegate.plugins.cluster.lead import Lead
from threegate.trail.workspace_key import SigningKey, load_key


class Queue:
    """The broker's queue: one consumer at a time, what it holds comes back first."""

    def __init__(self) -> None:
        self.ready: deque[bytes] = deque()
        self.held: deque[bytes] = deque()

    def give(self, lead: Lead) -> None:
        """Everything that waits, to this daemon."""
        while self.ready:
            data = self.ready.popleft()
            if lead.heard(data):
                self.held.append(data)
                while len(self.held) > 1:
                    self.held.popleft()

    def lose(self, lead: Lead) -> None:
        """Its connection ends."""
        self.ready.extendleft(reversed(self.held))
        self.held.clear()
        lead.lose()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def lead_of(place: Place, queue: Queue, boot: str, said: list[str] | None = None) -> Lead:
    workspace = Workspace(place.root)
    key = load_key(workspace.load_settings().workspace.id)
    return Lead(workspace, key, boot, queue.ready.append, (said if said is not None else []).append)


def kept_of(place: Place) -> UserState:
    return UserState.of(Workspace(place.root).load_settings().workspace.id)


def leading(place: Place, queue: Queue, boot: str = "a") -> Lead:
    lead = lead_of(place, queue, boot)
    for _ in range(2):
        lead.turn()
        queue.give(lead)
    assert lead.leads and lead.problem is None
    return lead


def test_the_first_daemon_leads_when_its_own_head_came_back(place: Place) -> None:
    queue = Queue()
    lead = lead_of(place, queue, "a")
    assert lead.problem == "the broker has not answered yet"
    with pytest.raises(Unavailable):
        lead.cover()
    lead.turn()
    queue.give(lead)
    assert not lead.leads, "its question came back, not its head"
    lead.turn()
    queue.give(lead)
    assert lead.leads and len(queue.held) == 1


def test_a_second_one_waits_and_takes_over_what_it_contains(place: Place) -> None:
    queue, said = Queue(), []
    first = leading(place, queue)
    second = lead_of(place, queue, "b", said)
    second.turn()
    second.turn()
    assert len(queue.ready) == 1, "it asks once"
    queue.give(first)
    assert first.leads
    queue.lose(first)
    assert not first.leads
    queue.give(second)
    assert second.behind is None and not second.leads, "from when its own head came back"
    second.turn()
    queue.give(second)
    assert second.leads


def test_a_copy_that_lacks_what_was_recorded_never_leads(place: Place) -> None:
    queue, said = Queue(), []
    first = leading(place, queue)
    state = kept_of(place)
    before = state.read_head()
    assert before is not None
    state.write_head({**before, "seq": int(before["seq"]) + 5, "hash": "0" * 64})
    first.cover()
    queue.give(first)
    queue.lose(first)
    state.write_head(before)
    second = lead_of(place, queue, "b", said)
    second.turn()
    queue.give(second)
    second.turn()
    queue.give(second)
    assert not second.leads
    assert second.behind is not None and "later state of this workspace" in said[0]
    with pytest.raises(Unavailable, match="later state"):
        second.cover()


def test_an_adopted_workspace_takes_over(place: Place) -> None:
    queue = Queue()
    first = leading(place, queue)
    state = kept_of(place)
    before = state.read_head()
    assert before is not None
    state.write_head({**before, "epoch": 0, "seq": 500})
    first.cover()
    queue.give(first)
    queue.lose(first)
    state.write_head(before)
    leading(place, queue, "b")
    state.write_head({**before, "epoch": 7})
    third = lead_of(place, queue, "c")
    queue.held.clear()
    third.turn()
    queue.give(third)
    third.turn()
    queue.give(third)
    assert third.leads
    queue.lose(third)
    state.write_head(before)
    late = lead_of(place, queue, "d")
    queue.give(late)
    assert late.behind is not None and "epoch 7" in late.behind


def test_a_token_waits_for_a_head_with_its_claim(place: Place) -> None:
    queue = Queue()
    lead = leading(place, queue)
    lead.cover()
    assert not queue.ready, "nothing was claimed since"
    place.approve(place.drop(monty_draft(request_id("one"), "1")))
    assert place.run("run", "--once").code == 0
    lead.cover()
    assert len(queue.ready) == 1, "the head with the claim goes first"


def test_leading_ends_by_itself_and_an_old_round_counts_no_more(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue()
    lead = leading(place, queue)
    monkeypatch.setattr(limits, "CLUSTER_LEAD_SECONDS", 0.0)
    assert not lead.leads
    with pytest.raises(Unavailable):
        lead.cover()
    monkeypatch.setattr(limits, "CLUSTER_LEAD_SECONDS", 60.0)
    queue.lose(lead)
    queue.give(lead)
    assert not lead.leads, "a head of the connection before: somebody may have come in between"
    lead.turn()
    queue.give(lead)
    assert lead.leads


def test_a_head_that_cannot_be_compared_is_kept_and_nothing_starts(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener drops what raises: the head would be gone, and the next daemon would lead without having it."""
    queue, said = Queue(), []
    first = leading(place, queue)
    queue.lose(first)
    second = lead_of(place, queue, "b", said)

    def broken(workspace: Workspace) -> None:
        raise TrailError("the trail cannot be read")

    monkeypatch.setattr(lead, "Trail", broken)
    second.turn()
    queue.give(second)
    second.turn()
    queue.give(second)
    assert not second.leads and "cannot be compared" in said[0] and "cannot be read" in said[0]
    queue.lose(second)
    monkeypatch.undo()
    assert queue.ready, "the message is the broker's again"


def test_what_another_key_signed_is_dropped(place: Place) -> None:
    queue = Queue()
    lead = leading(place, queue)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from threegate.plugins.cluster.seal import seal

    stranger = SigningKey("x", Ed25519PrivateKey.generate())
    with pytest.raises(Refused):
        lead.heard(seal(stranger, "lead", {"boot": "z", "head": {"epoch": 9, "seq": 9, "hash": "0"}}))
    assert lead.behind is None and lead.leads
