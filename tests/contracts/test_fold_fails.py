"""A trail from which the sessions cannot be read: nothing is allowed, and what ran still gets its end."""

from __future__ import annotations

from typing import Any

from tests.contracts.test_attempts import Stage, stage  # noqa: F401 - the fixture
from tests.contracts.test_daemon import ask, lay
from tests.support import monty_draft, request_id
from threegate.trail.payloads import Refused


def spoil(on: Stage) -> None:
    """Write an event that no session can take: the key of its call is not a number."""
    with on.context.trail.locked() as held:
        held.append(
            Refused.from_data({"contract": {"session": "default:uid-0", "requester": "uid-0", "loop": "no number"}}),
            request_id="TR-spoilt",
            actor="tests",
        )
        held.keep_head()


def contract_of(on: Stage, kind: str, rid: str) -> Any:
    [event] = [event for event in on.place.events(kind) if event.get("request_id") == rid]
    return event["data"].get("contract")


def test_nothing_is_let_through(stage: Stage) -> None:  # noqa: F811
    lay(stage.place, {"threegate.monty": {}})
    waiting, other = ask(stage.place, "waiting"), request_id("other")
    spoil(stage)
    sign = ("--as", "operator", "--key", str(stage.place.key), "--yes")
    done = stage.place.run("approve", str(stage.place.drop(monty_draft(other, "1"))), *sign)
    assert done.code == 2 and "session_state_lost" in done.out + done.err
    runner = stage.absent(0)
    ended = stage.launch(waiting, runner)
    assert (ended.event, ended.code, runner.asked) == ("refused", "session_state_lost", 0)
    assert contract_of(stage, "refused", waiting) is None
    listed = stage.place.run("contracts", "sessions")
    assert listed.code != 0 and "the sessions cannot be read from the trail (ValueError)" in listed.err
    assert "Traceback" not in listed.err


def test_shadow_mode_lets_it_run_and_says_so(stage: Stage) -> None:  # noqa: F811
    from threegate.setup.settings_file import set_values

    lay(stage.place, {"threegate.monty": {}})
    set_values(stage.place.root / "threegate.toml", {"contracts.mode": "shadow"})
    rid = ask(stage.place, "shadow")
    spoil(stage)
    assert stage.launch(rid, stage.absent(0)).code == "succeeded"
    assert contract_of(stage, "claimed", rid) == {"would_block": "session_state_lost"}


def test_what_ran_meanwhile_gets_its_end(stage: Stage) -> None:  # noqa: F811
    lay(stage.place, {"threegate.monty": {}})
    rid = ask(stage.place, "runs")
    ended = stage.launch(rid, stage.absent(0, on_ask=lambda control: spoil(stage)))
    assert ended.code == "succeeded"
    assert contract_of(stage, "finished", rid)["status"] == "session_state_lost"
    assert "status: succeeded" in stage.place.result(rid)
