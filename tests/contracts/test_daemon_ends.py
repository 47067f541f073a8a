"""What ends with a session: the requests that run in it, or in the children that end with their parent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import few
from tests.contracts.test_daemon import ask, lay, near, state
from tests.support import Place, monty_draft, request_id, wait_until

ENDLESS = "while True:\n    pass"
LONG = {"threegate.monty": {"timeouts": {"total_ms": 120_000}}}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return near(tmp_path, settings={"runners.monty.workers": 2})


@contextmanager
def daemon(place: Place) -> Iterator[None]:
    process = place.daemon()
    try:
        yield
    finally:
        process.terminate()
        print(process.communicate(timeout=60)[1].decode())  # shown where a test fails


def seen(place: Place, kind: str, rid: str) -> dict[str, Any]:
    """The event, once it is there."""

    def found() -> list[dict[str, Any]]:
        return [event for event in place.events(kind) if event.get("request_id") == rid]

    return wait_until(found, f"{kind} of {rid}")[0]


def test_a_killed_session_takes_its_running_request_along(place: Place) -> None:
    lay(place, LONG)
    place.run("contracts", "open", "mine", expect=0)
    rid = ask(place, "endless", ENDLESS, time_sec=100, extra="session_id: mine\n")  # type: ignore[arg-type]
    with daemon(place):
        seen(place, "started", rid)
        assert rid in place.run("contracts", "sessions", "mine", "--json", expect=0).out
        place.run("contracts", "kill", "session", "mine", expect=0)
        ended = seen(place, "cancelled", rid)
    assert ended["data"]["contract"]["session"] == "mine"
    assert "status: cancelled" in place.result(rid)
    place.run("contracts", "sessions", expect=0)
    mine = state(place)["sessions"]["mine"]
    assert (mine["state"]["killed"], mine["pending"], mine["state"]["tally"]["steps"]) == (
        "session_killed",
        {},
        0,
    )
    late = place.drop(monty_draft(request_id("late"), "1", extra="session_id: mine\n"))
    sign = ("--as", "operator", "--key", str(place.key), "--yes")
    done = place.run("approve", str(late), *sign)
    assert done.code == 2 and "session_killed" in done.out + done.err
    place.run("audit", "verify", expect=0)


@pytest.mark.parametrize("breaker", few(["consecutive_errors", "consecutive_blocks"], 1))
def test_a_breaker_ends_what_runs_in_a_child(place: Place, breaker: str) -> None:
    lay(
        place,
        {
            "threegate.monty": {
                "timeouts": {"total_ms": 120_000},
                "checkpoint": {
                    "when": [{"path": "$.limits.memory_mb", "gte": 200}],
                    "timeout_seconds": 600,
                    "context": [],
                },
            },
            "session": {"session_limits": {"circuit_breaker": {breaker: 1}}},
            "workflow": {
                "roles": [{"name": name, "session_contract": "session.yaml"} for name in ("boss", "hand")],
                "handoffs": [{"from": "boss", "to": "hand"}],
                "parent_close_policy": {"default": "terminate"},
            },
        },
    )
    where = ("--workflow", "w", "--role")
    place.run("contracts", "open", "parent", *where, "boss", expect=0)
    place.run("contracts", "open", "child", *where, "hand", "--parent", "parent", expect=0)
    extra = "session_id: {0}\nworkflow: w\nrole: {1}\n"
    child = ask(place, "child", ENDLESS, time_sec=100, extra=extra.format("child", "hand"))  # type: ignore[arg-type]
    with daemon(place):
        seen(place, "started", child)
        blocked = breaker == "consecutive_blocks"
        more: dict[str, Any] = {"extra": extra.format("parent", "boss"), "memory_mb": 256 if blocked else 128}
        parent = ask(place, "parent", "1 / 0", **more)
        if blocked:
            seen(place, "waiting", parent)
            sign = ("--as", "operator", "--key", str(place.key), "--yes")
            place.run("contracts", "deny", parent, *sign, expect=0)
        told = seen(place, "refused" if blocked else "finished", parent)
        assert told["data"]["contract"]["ends"] == [child]
        ended = seen(place, "cancelled", child)
    assert ended["data"]["contract"]["session"] == "child"
    asked = seen(place, "cancel_requested", child)
    assert asked["actor"] == "daemon" and "circuit breaker" in asked["data"]["message"]
    place.run("contracts", "sessions", expect=0)
    sessions = state(place)["sessions"]
    assert sessions["parent"]["state"]["killed"] == "circuit_open"
    assert sessions["child"]["state"]["killed"] == "session_killed"
    assert sessions["child"]["pending"] == {}
    place.run("audit", "verify", expect=0)
