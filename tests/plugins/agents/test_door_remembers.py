"""What the door remembers of its calls: across servers, kills at every step, rejections, and a thousand calls."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.agents.agent_runs import make_run
from tests.support import Place, make_place
from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.workspace import AgentRun, Workspace
from threegate.plugins.agents.call_ledger import CallLedger, MadeRequest
from threegate.plugins.agents.door import Door
from threegate.plugins.agents.door_answers import DoorAnswer

ASK = {"code": "6 * 7", "purpose": "Multiply two numbers.", "wait_sec": 0}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@pytest.fixture(params=["run", "inbox"])
def run(request: pytest.FixtureRequest, place: Place) -> AgentRun | None:
    return make_run(place) if request.param == "run" else None


def inbox_of(place: Place, run: AgentRun | None) -> Path:
    return run.inbox if run is not None else place.root / "inbox"


def call(place: Place, run: AgentRun | None, name: str = "run_python", **arguments: Any) -> DoorAnswer:
    """One call at a server that has just started; what it answers reaches the client."""

    async def tell(waited: float, seconds: float, what: str) -> None:
        pass

    door = Door(Workspace(place.root), run, 0)
    answer = asyncio.run(door.call(name, arguments, tell))
    if answer.completes is not None:
        door.delivered(answer.completes)
    return answer


def ask(place: Place, run: AgentRun | None, **more: Any) -> dict[str, Any]:
    return call(place, run, **{**ASK, **more}).value


def drafts(place: Place, run: AgentRun | None) -> list[Path]:
    return sorted(inbox_of(place, run).glob("TR-*.md"))


def test_a_server_that_starts_again_finds_what_was_there(place: Place, run: AgentRun | None) -> None:
    first = ask(place, run)
    again = ask(place, run)
    assert first["status"] == again["status"] == "pending" and first["request_id"] == again["request_id"]
    (line,) = call(place, run, "requests").value["requests"]
    assert line["request_id"] == first["request_id"] and "daemon not running" in line["waits_for"]
    assert call(place, run, "wait", request_id=first["request_id"], wait_sec=0).value["status"] == "pending"
    assert len(drafts(place, run)) == 1
    (folder,) = (place.root / "inbox").glob(".calls-*") if run is None else (run.calls,)
    assert folder.stat().st_mode & 0o777 == 0o700
    place.once()
    verdicts = [path.name for path in (run.verdicts if run else place.root / "tool-exec" / "verdicts").iterdir()]
    assert verdicts == [f"{drafts(place, run)[0].name}.json"], "the record itself is no draft"


def killed_at(place: Place, run: AgentRun | None, point: int, **more: Any) -> bool:
    """Whether a server was killed before or after its `point`-th operation on the disk."""
    child = os.fork()
    if child == 0:
        seen = 0

        def look(moment: str, operation: str, path: str) -> None:
            nonlocal seen
            seen += 1
            if seen == point:
                os.kill(os.getpid(), signal.SIGKILL)

        durable.observe(look)
        try:
            ask(place, run, **more)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.slow
def test_no_kill_makes_two_drafts_of_one_call(place: Place, run: AgentRun | None, tmp_path: Path) -> None:
    (place.root / "inbox" / "files" / "a.txt").write_text("one")
    if run is not None:
        (run.work / "tree" / "a.txt").write_text("one")
    ask(place, run, code="0")  # the ledger's folder is there: every point below is in the call
    point = 0
    while True:
        point += 1
        mine = {"code": f"{point} * 7", "files": ["a.txt"]}
        if not killed_at(place, run, point, **mine):
            break
        found = ask(place, run, **mine)
        assert found["status"] == "pending"
        assert found["request_id"] == ask(place, run, **mine)["request_id"]
        texts = [path.read_text() for path in drafts(place, run)]
        own = [text for text in texts if f"\n{point} * 7\n" in text]
        assert len(own) == 1 and f"request_id: {found['request_id']}\n" in own[0], point
        listed = call(place, run, "requests").value["requests"]
        assert len(listed) == min(point + 1, limits.DOOR_LISTED) and found["request_id"] in str(listed)
    assert point > 30, "fewer places than before: is there a write beside the seam?"


def test_an_entry_whose_draft_never_appeared_is_nobodys_request(place: Place, run: AgentRun | None) -> None:
    ledger = CallLedger(Workspace(place.root), run)
    lost = MadeRequest(request_id="lost-1", file="TR-20260102-030405Z-lost.md", tool="run_python", placed=False)
    with ledger.locked() as opened:
        opened.put("a" * 64, lost)
    assert call(place, run, "requests").value["requests"] == []
    with pytest.raises(InvalidInput, match="not one of your requests"):
        call(place, run, "wait", request_id="lost-1")


def test_a_call_that_a_person_rejected_is_not_taken_again_unless_it_says_so(place: Place, run: AgentRun | None) -> None:
    first = ask(place, run)
    place.once()
    place.run("reject", str(drafts(place, run)[0]), "--reason", "use the small table", expect=0)
    for _ in range(2):  # the answer that is owed, and then the same call again
        said = call(place, run, **ASK)
        assert said.refused and said.value["request_id"] == first["request_id"], said
        assert said.value["status"] == "refused" and "use the small table" in said.value["why"]
        assert "`again: true`" in said.value["next"]
    assert drafts(place, run) == []
    assert ask(place, run, code="6 * 8")["status"] == "pending", "another call"
    new = ask(place, run, again=True)
    assert new["status"] == "pending" and new["request_id"] != first["request_id"]
    assert ask(place, run)["request_id"] == ask(place, run, again=True)["request_id"] == new["request_id"]
    assert len(drafts(place, run)) == 2


def test_wait_takes_the_word_for_a_call_that_cannot_say_it(place: Place, run: AgentRun | None) -> None:
    first = ask(place, run)
    with pytest.raises(InvalidInput, match="no person rejected"):
        call(place, run, "wait", request_id=first["request_id"], again=True)
    place.once()
    place.run("reject", str(drafts(place, run)[0]), "--reason", "no", expect=0)
    assert call(place, run, **ASK).refused
    said = call(place, run, "wait", request_id=first["request_id"], again=True).value
    assert "asks once more" in said["next"]
    assert ask(place, run)["status"] == "pending"


def test_the_record_is_bounded_and_forgets_what_was_answered_first(
    place: Place, run: AgentRun | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DOOR_CALLS", 5)
    ledger = CallLedger(Workspace(place.root), run)

    def made(number: int, **more: Any) -> MadeRequest:
        return MadeRequest(request_id=f"r-{number}", file=f"TR-2026010{number}-000000Z-x.md", tool="run_python", **more)

    with ledger.locked() as opened:
        for number in range(5):
            opened.put(f"{number}" * 64, made(number, delivered=number < 3))
        for number in range(5, 8):
            opened.put(f"{number}" * 64, made(number))
        with pytest.raises(InvalidInput, match="5 of your requests are open"):
            opened.put("8" * 64, made(8))
    assert [item.request_id for item in ledger.all()][-4:] == ["r-4", "r-5", "r-6", "r-7"]


def test_what_is_planted_in_the_record_decides_nothing(place: Place) -> None:
    """An account that serves for the inbox can write there: a name that leads elsewhere is not taken."""
    first = ask(place, None)
    (folder,) = (place.root / "inbox").glob(".calls-*")
    outside = place.root / "threegate.toml"
    (entry,) = folder.glob("*.json")
    value = json.loads(entry.read_text())
    for name in ("../threegate.toml", "../../x.md", "TR-/../../threegate.toml", "TR-x/../y.md"):
        entry.write_text(json.dumps({**value, "file": name}))
        with pytest.raises(InvalidInput, match="not one of your requests"):
            call(place, None, "cancel", request_id=first["request_id"])
    entry.write_text("{" * 100_000)
    assert call(place, None, "requests").value["requests"] == [] and outside.exists()


def test_a_record_that_somebody_else_may_write_is_not_used(place: Place) -> None:
    ask(place, None)
    (folder,) = (place.root / "inbox").glob(".calls-*")
    folder.chmod(0o777)
    with pytest.raises(Unavailable, match="does not belong to this account alone"):
        ask(place, None)
    folder.chmod(0o700)
    away = folder.rename(folder.parent / "elsewhere")
    folder.symlink_to(away)
    with pytest.raises(OSError):
        ask(place, None)
