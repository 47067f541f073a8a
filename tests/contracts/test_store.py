"""The sessions of a workspace on disk: a fold over a real trail, and a cache that may be deleted or spoilt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.material import NOW, call, compiled
from threegate.contracts.session import SessionStore
from threegate.contracts.state import Call, CallOutcome
from threegate.core import limits
from threegate.core.workspace import Workspace
from threegate.trail.event import Event, known_kinds
from threegate.trail.trail import LockedTrail, Trail

WORKSPACE_ID = "ws-" + "0" * 32
SPEC: dict[str, Any] = {
    "t": {"binds": [{"name": "b", "path": "$.n"}]},
    "u": {"argument_value_invariants": [{"path": "$.n", "ref": "b"}]},
    "session": {"session_limits": {"max_calls_per_tool": {"t": 3}, "loop_detection": {"window": 3, "threshold": 3}}},
    "workflow": {"handoffs": [{"from": "boss", "to": "boss"}]},
}


class Given:
    """What events name, by request id."""

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self.outcomes: dict[str, CallOutcome] = {}

    def call(self, event: Event) -> Call | None:
        return self.calls.get(str(event.request_id))

    def outcome(self, event: Event) -> CallOutcome | None:
        return self.outcomes.get(str(event.request_id))


@pytest.fixture(autouse=True)
def saved_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONTRACT_EVENTS_UNSAVED", 1)


@pytest.fixture
def trail(tmp_path: Path) -> Iterator[Trail]:
    workspace = Workspace(tmp_path)
    workspace.make_folders()
    made = Trail.create(workspace, workspace_id=WORKSPACE_ID, actor="tests")
    yield made
    made.close()


def told(trail: Trail, kind: str, request_id: str | None = None, **data: Any) -> None:
    with trail.locked() as held:
        held.append(known_kinds()[kind].from_data(data), request_id=request_id, actor="operator:ann")


def claim(trail: Trail, given: Given, request_id: str, session: str = "default:ann", **arguments: Any) -> None:
    given.calls[request_id] = call(arguments, session_id=session, call_id=request_id)
    told(trail, "claimed", request_id, contract={"session": session, "requester": "ann", "loop": "00"})


def finish(trail: Trail, given: Given, request_id: str, kind: str = "finished", session: str = "default:ann") -> None:
    given.outcomes.setdefault(request_id, CallOutcome("succeeded"))
    told(trail, kind, request_id, contract={"session": session, "requester": "ann", "status": "committed"})


def seen(trail: Trail, given: Given, spec: Any = SPEC, store: SessionStore | None = None) -> dict[str, Any]:
    with trail.locked() as held:
        kept = (store or SessionStore(trail.workspace)).view(held, compiled(spec), given)
        return json.loads(json.dumps(kept.to_json()))


def test_the_fold_of_a_life(trail: Trail) -> None:
    given = Given()
    live = SessionStore(trail.workspace)
    assert seen(trail, given, store=live)["sessions"] == {}
    claim(trail, given, "TR-1", n=5)
    state = seen(trail, given, store=live)["sessions"]["default:ann"]
    assert list(state["pending"]) == ["TR-1"] and state["state"]["tally"]["steps"] == 0
    finish(trail, given, "TR-1")
    claim(trail, given, "TR-2", n=6)
    finish(trail, given, "TR-2", kind="interrupted")
    finish(trail, given, "TR-2")
    told(trail, "session_opened", session="mine", requester="ann")
    told(trail, "session_opened", session="boss", requester="", workflow="w", role="boss", parent=None)
    told(trail, "session_opened", session="odd", workflow="w", role="nobody")
    told(trail, "session_opened")
    told(trail, "session_opened", session="dies")
    told(trail, "session_opened", session="ends")
    told(trail, "session_killed", scope="session", name="dies")
    told(trail, "session_killed", scope="close", name="ends")
    told(trail, "session_killed", scope="close", name="nobody")
    told(trail, "session_killed", scope="workflow", name="nothing")
    told(trail, "waiting", "TR-3", reason="checkpoint_required")
    told(trail, "checkpoint_answered", "TR-3", call_sha256="0" * 64, approve=True)
    told(trail, "refused", "TR-4", contract={"session": "mine", "requester": "ann", "loop": "aa" * 16})
    told(trail, "refused", "TR-4", contract={"session": "nobody", "requester": "ann"})
    told(trail, "validated", "TR-5")
    state = seen(trail, given, store=live)
    assert sorted(state["sessions"]) == ["boss", "default:ann", "dies", "ends", "mine"]
    first = state["sessions"]["default:ann"]["state"]
    assert (first["tally"]["steps"], first["binds"], first["errors"]) == (1, {"b": 5}, 0)
    assert state["sessions"]["mine"]["state"]["blocks"] == 1
    assert state["sessions"]["mine"]["state"]["window"] == ["aa" * 16]
    assert (state["sessions"]["dies"]["state"]["killed"], state["sessions"]["ends"]["state"]["killed"]) == (
        "session_killed",
        "session_closed",
    )
    assert state["answers"]["TR-3"]["approve"] is True and "TR-3" in state["asked"]
    claim(trail, given, "TR-3", n=7)
    finish(trail, given, "TR-3")
    state = seen(trail, given, store=live)
    assert (state["answers"], state["asked"]) == ({}, {})
    # a new process reads the file; without it, the whole trail; both see the same
    assert seen(trail, given) == state
    live.path.unlink()
    assert seen(trail, given) == state


def test_the_file_is_written_after_so_many_events(trail: Trail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONTRACT_EVENTS_UNSAVED", 4)
    given, live = Given(), SessionStore(trail.workspace)
    written = []
    for number in range(4):
        claim(trail, given, f"TR-{number}", n=number)
        seen(trail, given, store=live)
        finish(trail, given, f"TR-{number}")
        seen(trail, given, store=live)
        written.append(json.loads(live.path.read_bytes())["trail_seq"] if live.path.exists() else 0)
    assert written == [0, 5, 5, 9]
    assert seen(trail, given) == seen(trail, given, store=live)


def test_an_event_that_moves_no_session_is_passed_over(trail: Trail) -> None:
    """An index that an earlier version kept names `cleared` events among those of the sessions."""
    given = Given()
    claim(trail, given, "TR-1", n=5)
    before = seen(trail, given)
    with trail.locked() as held:
        data = {"contract": {"verdict": "allow", "session": "default:ann", "requester": "ann"}}
        event = held.append(known_kinds()["cleared"].from_data(data), request_id="TR-1", actor="daemon")
        assert held.index.session_events_after(event.seq - 1) == []
        held.index._session_events.append(event)
    assert seen(trail, given) == before


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"{",
        lambda data: b"[]",
        lambda data: b"null",
        lambda data: data.replace(b'"version":1', b'"version":2'),
        lambda data: data.replace(WORKSPACE_ID.encode(), b"ws-" + b"1" * 32),
        lambda data: data.replace(b'"trail_hash":"', b'"trail_hash":"0'),
        lambda data: data.replace(b'"trail_seq":', b'"trail_seq":9'),
        lambda data: data.replace(b'"steps":1', b'"steps":"one"'),
        lambda data: data.replace(b'"cost":"0', b'"cost":"x0'),
        lambda data: data.replace(b'"tally"', b'"tell"'),
    ],
)
def test_a_spoilt_cache_is_folded_anew(trail: Trail, spoil: Callable[[bytes], bytes]) -> None:
    given = Given()
    claim(trail, given, "TR-1", n=5)
    finish(trail, given, "TR-1")
    state = seen(trail, given)
    path = SessionStore(trail.workspace).path
    data = path.read_bytes()
    assert spoil(data) != data
    path.write_bytes(spoil(data))
    again = seen(trail, given)
    assert json.dumps(again).replace('"one"', "1") == json.dumps(state)


def test_other_contracts_fold_the_same_events_under_their_own_rules(trail: Trail) -> None:
    given = Given()
    live = SessionStore(trail.workspace)
    claim(trail, given, "TR-1", n=5)
    finish(trail, given, "TR-1")
    assert seen(trail, given, store=live)["sessions"]["default:ann"]["state"]["binds"] == {"b": 5}
    changed = {"t": {}, "u": {}}
    state = seen(trail, given, changed, store=live)["sessions"]["default:ann"]["state"]
    assert (state["binds"], state["tally"]["calls"]) == ({}, {"t": 1})
    gone = {"u": {}}
    state = seen(trail, given, gone, store=live)["sessions"]["default:ann"]["state"]
    assert (state["tally"]["steps"], state["tally"]["calls"]) == (1, {})


def test_what_is_missing_blocks_the_session(trail: Trail) -> None:
    given = Given()
    claim(trail, given, "TR-1", n=5)
    finish(trail, given, "TR-1")
    claim(trail, given, "TR-2", session="default:ann", n=5)
    seen(trail, given)
    SessionStore(trail.workspace).path.unlink()
    without_call = Given()
    without_call.outcomes = given.outcomes
    assert seen(trail, without_call)["sessions"]["default:ann"]["state"]["killed"] == "session_state_lost"
    SessionStore(trail.workspace).path.unlink()
    without_outcome = Given()
    without_outcome.calls = given.calls
    kept = seen(trail, without_outcome)["sessions"]["default:ann"]
    assert kept["state"]["killed"] == "session_state_lost" and list(kept["pending"]) == ["TR-2"]
    with trail.locked() as held:
        table = SessionStore(trail.workspace).view(held, compiled(SPEC), given)
        assert table.decide(call(session_id="default:ann"), NOW).code == "session_state_lost"


def test_the_lock_is_needed(trail: Trail) -> None:
    with trail.locked() as held:
        assert isinstance(held, LockedTrail)
        assert SessionStore(trail.workspace).view(held, compiled(SPEC), Given()).sessions == {}


def test_an_event_that_cannot_be_applied_leaves_nothing_half_done(trail: Trail) -> None:
    """The end of a call is applied in steps. If one of them fails, the next look begins with the trail again."""
    given, live = Given(), SessionStore(trail.workspace)
    first = {"requires_prior_tool": "t", "resource": {"bind_from": "output", "path": "$.id"}}
    spec = {"t": {"evidence_class": "local_transaction"}, "u": {"preconditions": [first]}}
    claim(trail, given, "TR-1")
    seen(trail, given, spec, live)
    given.outcomes["TR-1"] = CallOutcome("succeeded", {"id": 2**60})  # no canonical JSON has this number
    finish(trail, given, "TR-1")
    for _ in range(2):
        with pytest.raises(ValueError, match="canonical"):
            seen(trail, given, spec, live)
    given.outcomes["TR-1"] = CallOutcome("succeeded", {"id": 2})
    state = seen(trail, given, spec, live)["sessions"]["default:ann"]["state"]
    assert state["tally"]["steps"] == 1 and state["fulfilled"] == {"u#0": ["2"]}
