"""The contract gate in a real workspace: limits, sessions, checkpoints, kills, the fold over the trail."""

from __future__ import annotations

import io
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.material import folder
from tests.support import Done, Place, make_place, monty_draft, offered, request_id, wait_until
from threegate import cli
from threegate.core.workspace import Workspace
from threegate.launch.context import open_context


class Near(Place):
    """A workspace whose commands run in this process (the daemon runs in its own)."""

    def run(self, *arguments: str, expect: int | None = None, **more: Any) -> Done:
        if arguments[0] == "run":
            return super().run(*arguments, expect=expect, **more)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = cli.execute(["--workspace", str(self.root), *arguments])
        assert expect in (None, code), f"{arguments}: exit {code}\n{out.getvalue()}\n{err.getvalue()}"
        return Done(code, out.getvalue(), err.getvalue())


def near(folder_: Path, **settings: Any) -> Near:
    made = make_place(folder_, **settings)
    return Near(made.root, made.key)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return near(tmp_path)


def lay(place: Place, spec: dict) -> None:
    for name, data in folder(spec).items():
        path = place.root / "tool-exec" / "contracts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    place.run("contracts", "check", expect=0)


def state(place: Place) -> dict:
    """The sessions as the next process of this workspace has them."""
    context = open_context(Workspace(place.root))
    with context.trail.locked() as held:
        return context.contracts.view(held, context.policy).to_json()


def ask(place: Place, name: str, code: str = "{'n': 1}", expect: int = 0, **more: str) -> str:
    rid = request_id(name)
    place.approve(place.drop(monty_draft(rid, code, **more)), expect=expect)
    return rid


def test_a_limit_holds_over_runs_and_the_state_is_only_a_fold(place: Place) -> None:
    lay(
        place,
        {
            "threegate.monty": {
                "evidence_class": "local_transaction",
                "assertions": {"input_invariants": [], "output_invariants": [{"path": "$.n", "gte": 0}]},
                "binds": [{"name": "last", "source": "output", "path": "$.n"}],
                "timeouts": {"total_ms": 60000},
            },
            "session": {"session_limits": {"max_calls_per_tool": {"threegate.monty": 2}}},
        },
    )
    first, second, third = (ask(place, name, f"{{'n': {number}}}") for number, name in enumerate(("a", "b", "c")))
    place.once()
    texts = [place.result(rid) for rid in (first, second, third)]
    assert sum("status: succeeded" in text for text in texts) == 2
    assert sum("session_limit_exceeded" in text for text in texts) == 1
    [session] = state(place)["sessions"].values()
    assert session["state"]["tally"]["steps"] == 2
    assert "last" in session["state"]["binds"] and session["pending"] == {}
    finished = place.events("finished")
    assert [event["data"]["contract"]["status"] for event in finished] == ["committed", "committed"]
    claims = place.events("claimed")
    assert len({event["data"]["contract"]["session"] for event in claims}) == 1
    before = state(place)
    # a success sets the count of blocks back: the refusal counts if it came after both ends (lanes run beside each
    # other)
    [refused] = place.events("refused")
    blocks = int(refused["seq"] > max(event["seq"] for event in finished))
    assert [session["state"]["blocks"] for session in before["sessions"].values()] == [blocks]
    assert not (place.root / "tool-exec/contracts/.state").exists(), "so few events are folded again each time"
    shown = place.run("contracts", "sessions", *before["sessions"], expect=0).out
    assert "allowed_tools: []" in shown
    # without a run's record the session cannot be known any more
    ran = next(event["request_id"] for event in finished)
    (place.root / "tool-exec/runs" / ran / "record.json").unlink()
    assert "session_state_lost" in place.run("contracts", "sessions", expect=0).out


def test_an_output_that_breaks_its_invariant_moves_nothing(place: Place) -> None:
    lay(
        place,
        {
            "threegate.monty": {
                "evidence_class": "local_transaction",
                "assertions": {"input_invariants": [], "output_invariants": [{"path": "$.n", "gte": 5}]},
            },
            "session": {"session_limits": {"circuit_breaker": {"consecutive_errors": 1}}},
        },
    )
    ask(place, "low")
    place.once()
    [event] = place.events("finished")
    assert event["data"]["contract"]["status"] == "contract_violated"
    assert event["data"]["contract"]["codes"] == ["output_invariant"]
    assert "circuit_open" in place.run("contracts", "sessions", expect=0).out


def test_a_checkpoint_waits_for_a_signed_answer(place: Place) -> None:
    lay(
        place,
        {
            "threegate.monty": {
                "checkpoint": {
                    "when": "always",
                    "timeout_seconds": 600,
                    "context": [{"path": "$.limits.memory_mb", "label": "Memory"}],
                }
            }
        },
    )
    yes, no = ask(place, "yes"), ask(place, "no")
    place.once()
    assert place.results() == []
    listed = place.run("contracts", "checkpoints", "--json", expect=0).json()
    assert sorted(item["request_id"] for item in listed) == sorted([yes, no])
    assert listed[0]["checkpoints"][0]["context"] == [{"label": "Memory", "value": 128}]
    assert offered(Place(place.root, place.key), "contracts", "allow", "") == sorted([yes, no])
    sign = ("--as", "operator", "--key", str(place.key), "--yes")
    place.run("contracts", "allow", yes, *sign, expect=0)
    place.run("contracts", "deny", no, *sign, expect=0)
    place.once()
    assert "status: succeeded" in place.result(yes)
    assert "checkpoint_denied" in place.result(no)
    answers = place.events("checkpoint_answered")
    assert [event["data"]["approve"] for event in answers] == [True, False]
    assert all(event["actor"] == "operator:operator" for event in answers)
    place.run("contracts", "allow", yes, *sign, expect=2)
    place.run("audit", "verify", expect=0)


def test_contracts_that_do_not_compile_let_nothing_be_approved(place: Place) -> None:
    contracts = place.root / "tool-exec/contracts"
    (contracts / "broken.yaml").write_text("tool: [")
    rid = request_id("broken")
    done = place.run(
        "approve",
        str(place.drop(monty_draft(rid, "1"))),
        "--as",
        "operator",
        "--key",
        str(place.key),
        "--yes",
    )
    assert done.code == 2 and "contracts_do_not_compile" in done.out + done.err
    place.run("contracts", "sessions", expect=2)


def test_shadow_mode_records_and_blocks_nothing(tmp_path: Path) -> None:
    place = near(tmp_path, settings={"contracts.mode": "shadow"})
    lay(place, {"threegate.monty": {"gate": "block"}})
    rid = ask(place, "shadow")
    place.once()
    assert "status: succeeded" in place.result(rid)
    stranger = ask(place, "stranger", extra="session_id: nobody\n")
    place.once()
    assert "status: succeeded" in place.result(stranger)
    assert [event["data"]["contract"]["would_block"] for event in place.events("claimed")] == [
        "risk_blocked",
        "unknown_session",
    ]


def test_sessions_are_the_operators_and_the_named_tool_is_what_the_request_is(place: Place) -> None:
    lay(
        place,
        {
            "threegate.monty": {},
            "ledger": {"implements": {"code_sha256": "0" * 64}},
            "session": {"resources": {"r": {"type": "r", "extract_from": {"path": "$.id"}}}},
            "workflow": {
                "roles": [
                    {"name": "boss", "session_contract": "session.yaml"},
                    {"name": "hand", "session_contract": "session.yaml"},
                ],
                "handoffs": [{"from": "boss", "to": "hand"}],
            },
        },
    )
    sign = ("--as", "operator", "--key", str(place.key), "--yes")
    for extra, code in (
        ("session_id: mine\n", "unknown_session"),
        ("tool: ledger\n", "tool_mismatch"),
        ("workflow: w\n", "unknown_workflow"),
    ):
        rid = request_id(code.replace("_", "-"))
        done = place.run("approve", str(place.drop(monty_draft(rid, "1", extra=extra))), *sign)
        assert done.code == 2 and code in done.out + done.err, (extra, done.out, done.err)
    place.run("contracts", "open", "mine", "--workflow", "w", "--role", "boss", expect=0)
    place.run("contracts", "open", "child", "--workflow", "w", "--role", "hand", "--parent", "mine", expect=0)
    place.run("contracts", "open", "mine", expect=2)
    place.run("contracts", "open", "default:x", expect=2)
    place.run("contracts", "open", "bad", "--role", "nobody", expect=2)
    rid = ask(place, "named", extra="session_id: mine\nworkflow: w\nrole: boss\n")
    place.once()
    assert "status: succeeded" in place.result(rid)
    assert "hand" in place.run("contracts", "workflows", expect=0).out
    place.run("contracts", "kill", "workflow", "w", expect=2)
    place.run("contracts", "kill", "workflow", "w", *sign, expect=0)
    assert "session_killed" in place.run("contracts", "sessions", expect=0).out
    assert place.run("contracts", "workflows", "w", "--json", expect=0).json()[0]["killed"] is True
    place.run("contracts", "open", "late", "--workflow", "w", "--role", "boss", expect=2)
    place.run("contracts", "open", "plain", expect=0)
    place.run("contracts", "close", "plain", expect=0)
    place.run("contracts", "kill", "session", "nobody", expect=2)
    place.run("audit", "verify", expect=0)


def test_prune_leaves_what_an_open_session_is_folded_from(place: Place) -> None:
    lay(place, {"threegate.monty": {}})
    place.run("contracts", "open", "mine", expect=0)
    default = ask(place, "default")
    named = ask(place, "named", extra="session_id: mine\n")
    place.once()
    runs = place.root / "tool-exec/runs"

    def pruned() -> dict:
        ended = time.time()
        wait_until(lambda: time.time() > ended + 1, "what ended more than a second ago")
        return place.run("audit", "prune", "--older-than", "1s", "--json", expect=0).json()

    first = pruned()
    assert (first["runs"], sorted(first["kept"])) == ([], sorted([default, named]))
    assert "kept 2 runs" in place.run("audit", "prune", "--older-than", "1s", expect=0).out
    place.run("contracts", "close", "mine", expect=0)
    second = pruned()
    assert (second["runs"], second["kept"]) == ([named], [default])
    assert [path.name for path in runs.iterdir()] == [default]
    before = state(place)
    listed = place.run("contracts", "sessions", expect=0).out
    assert "session_state_lost" not in listed and "mine  session_closed" in listed
    after = state(place)
    assert after["sessions"]["mine"]["state"]["killed"] == "session_closed"
    [same] = (key for key in before["sessions"] if key != "mine")
    assert after["sessions"][same] == before["sessions"][same]
    place.run("audit", "verify", expect=0)
