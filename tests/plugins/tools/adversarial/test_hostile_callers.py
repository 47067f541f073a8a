"""Attacks on a decision for a function: changed arguments, a second process, a killed one, a daemon that goes."""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.tools.own_functions import SENT, Functions, functions
from tests.plugins.tools.tool_bench import CONTRACT
from tests.support import wait_until
from threegate.client import Decision, Refused, Unavailable
from threegate.core import limits


@pytest.fixture(scope="module")
def pay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Functions]:
    """One workspace and one daemon; each test asks in a run of its own."""
    with functions(tmp_path_factory.mktemp("pay")) as made:
        yield made


@pytest.fixture(autouse=True)
def _fresh(request: pytest.FixtureRequest) -> None:
    if "pay" in request.fixturenames:
        pay: Functions = request.getfixturevalue("pay")
        pay.calls.unlink(missing_ok=True)
        pay.until.unlink(missing_ok=True)


def stored(folder: Path, decision: Decision) -> Path:
    """The decision as another process gets it."""
    path = folder / "decision"
    path.write_bytes(pickle.dumps(decision))
    return path


def test_arguments_that_change_in_between_change_nothing(pay: Functions) -> None:
    """What was asked for is what was given then, and the function gets what was signed."""
    given: dict[str, Any] = {**SENT}
    pay.approve(pay.ask(arguments=given, run="mutated"))
    decision = pay.ask(arguments=given, run="mutated", wait=30)
    given["cents"] = 99_999
    with decision.use() as arguments:
        assert arguments == SENT and arguments is not given
    changed = pay.ask(arguments=given, run="mutated")
    assert changed.request_id != decision.request_id and changed.state == "pending", "other arguments, another request"


@pytest.mark.parametrize("field", ["arguments_json", "tool"])
def test_a_decision_with_other_arguments_calls_nothing(pay: Functions, field: str) -> None:
    """Not even the signed ones, because its program thinks that it calls something else."""
    forged = replace(pay.approved(f"forged {field}"), **{field: '{"cents":99999,"to":"eve"}'})
    with pytest.raises(Refused, match="something else was signed") as caught, forged.use():
        pytest.fail("called")
    assert caught.value.code == "request_changed" and pay.status(forged) == "tool_error"


def test_a_made_up_decision_calls_nothing(pay: Functions) -> None:
    """Every word of a decision can be written by anyone; `ready` too."""
    pending = replace(pay.ask(run="made up"), state="ready", reason="")
    with pytest.raises(Refused) as caught, pending.use():
        pytest.fail("called")
    assert caught.value.code == "not_approved"
    unknown = replace(pending, request_id="TR-20260101-000000Z-none")
    with pytest.raises(Refused) as caught, unknown.use():
        pytest.fail("called")
    assert caught.value.code == "not_approved"


def test_a_decision_of_another_workspace_calls_nothing(pay: Functions, tmp_path: Path) -> None:
    """Who writes a decision's words could have a workspace of his own, in which he signs what he likes."""
    (tmp_path / "his").mkdir()
    with functions(tmp_path / "his") as his:
        decision = his.approved("his own")
        program = pay.program(stored(tmp_path, decision))
        assert "Refused workspace_mismatch" in program.communicate(timeout=60)[1]
        assert pay.called() == [] and not his.ended(decision)
        with decision.use(workspace=his.place.root) as arguments:
            assert arguments == SENT
        with pytest.raises(Refused, match="names another workspace"), decision.use(workspace=pay.place.root):
            pytest.fail("called")


def test_an_id_that_leads_out_of_the_inbox_touches_nothing(pay: Functions) -> None:
    """Somebody who may write there made a folder for it: the file would be emptied, and opened to everybody."""
    victim = pay.place.root / "victim"
    victim.write_text("kept")
    victim.chmod(0o600)
    (pay.place.root / "inbox" / ".use-a").mkdir()
    forged = replace(pay.ask(run="leads out"), request_id="a/../../victim")
    with pytest.raises(Refused), forged.use():
        pytest.fail("called")
    assert victim.read_text() == "kept" and victim.stat().st_mode & 0o777 == 0o600
    (pay.place.root / "inbox" / ".use-a").rmdir()


def test_a_program_that_was_stopped_while_it_asked_stops_no_other(
    pay: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it keeps locked: who asks after it is told, and does not wait for ever."""
    pay.ask(run="before")
    monkeypatch.setattr(limits, "CALLER_GO_SECONDS", 0.2)
    with (pay.place.root / "inbox" / f".asks-{os.geteuid()}").open("r+") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="another program is asking there and does not go on"):
            pay.ask(run="behind it")
    assert pay.ask(run="behind it").state == "pending"


def test_of_many_processes_one_wins(pay: Functions, tmp_path: Path) -> None:
    """All begin at once; the one that wins is in its function until the others have given up."""
    decision = pay.approved("many")
    programs = [pay.program(stored(tmp_path, decision), waits=True) for _ in range(4)]
    wait_until(lambda: sum(program.poll() is not None for program in programs) == 3, "three that lost", 120)
    pay.until.touch()
    said = [program.communicate(timeout=120)[1] for program in programs]
    assert sorted(program.returncode for program in programs) == [0, 1, 1, 1], said
    assert sum("Refused in_use" in text for text in said) == 3, said
    assert len(pay.called()) == 1 and pay.status(decision) == "succeeded"
    assert pay.kinds(decision).count("claimed") == 1


def test_of_many_threads_one_wins(pay: Functions) -> None:
    """The kernel's lock is the process's, and its threads share it."""
    decision = pay.approved("threads")
    lost = threading.Semaphore(0)

    def use(_: int) -> str:
        try:
            with decision.use() as arguments:
                assert all(lost.acquire(timeout=60) for _ in range(3))
                return str(arguments["cents"])
        except Refused as error:
            lost.release()
            return error.code

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(use, range(4))) == ["1200", "in_use", "in_use", "in_use"]


def test_a_child_of_the_caller_says_nothing_for_it(pay: Functions) -> None:
    decision = pay.approved("forked")
    with decision.use():
        child = os.fork()
        if child == 0:
            try:
                with decision.use():
                    os._exit(1)
            except Refused as error:
                os._exit(7 if error.code == "in_use" else 2)
            finally:
                os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert pay.status(decision) == "succeeded"


def test_a_child_that_leaves_the_block_ends_nothing(pay: Functions) -> None:
    """A fork in the middle of the function: only the process that asked ends the call."""
    decision = pay.approved("left")
    child = -1
    try:
        with decision.use():
            child = os.fork()
            if child:
                os.waitpid(child, 0)
                assert not pay.ended(decision), "the child said how it ended"
    except Refused:
        if child:
            raise
    finally:
        if child == 0:
            os._exit(0)
    assert pay.status(decision) == "succeeded"


def test_a_killed_caller_is_an_interruption_and_nobody_calls_again(pay: Functions, tmp_path: Path) -> None:
    decision = pay.approved("killed")
    program = pay.program(stored(tmp_path, decision), waits=True)
    wait_until(pay.called, "the call")
    program.send_signal(signal.SIGKILL)
    program.communicate(timeout=30)
    assert pay.status(decision) == "interrupted"
    assert "let go of the call without saying how it ended" in pay.place.result(decision.request_id)
    again = pay.program(stored(tmp_path, decision))
    assert "interrupted" in again.communicate(timeout=60)[1] and again.returncode == 1
    assert len(pay.called()) == 1
    after = pay.ask(run="killed", wait=30)
    assert (after.request_id, after.state) == (decision.request_id, "refused"), "a step that is repeated asks nobody"


def test_a_caller_that_dies_before_it_may_begin_leaves_the_approval(pay: Functions, tmp_path: Path) -> None:
    decision = pay.ask(run="early")
    left = pay.place.root / "inbox" / f".use-{decision.request_id}"
    left.write_text(
        '{"schema":"threegate.use/1","request_id":"' + decision.request_id + '","token":"' + "0" * 32 + '"}\n'
    )
    pay.approve(decision)
    decision = pay.ask(run="early", wait=30)
    assert decision.state == "ready" and "claimed" not in pay.kinds(decision)
    with decision.use() as arguments:
        assert arguments == SENT


def test_a_cancelled_call_is_an_interruption(pay: Functions, tmp_path: Path) -> None:
    decision = pay.approved("cancelled")
    program = pay.program(stored(tmp_path, decision), waits=True)
    wait_until(pay.called, "the call")
    pay.place.run("cancel", decision.request_id)
    assert pay.status(decision) == "interrupted"
    pay.until.touch()
    said = program.communicate(timeout=60)[1]
    assert program.returncode == 1 and "the function returned, and the record says interrupted" in said


def test_what_changed_since_the_approval_refuses(tmp_path: Path) -> None:
    with functions(tmp_path) as pay:
        first, second = pay.approved("first"), pay.approved("second")
        pay.pin([{"name": "send", "inputSchema": {"type": "object"}}], "refresh")
        with pytest.raises(Refused) as caught, first.use():
            pytest.fail("called")
        assert caught.value.code == "tools_changed" and "claimed" not in pay.kinds(first)
        third = pay.approved("third")
        contract = pay.place.root / "tool-exec/contracts/pay.send.yaml"
        contract.write_text(CONTRACT.format(tool="pay.send", effect="write"))
        with pytest.raises(Refused) as caught, third.use():
            pytest.fail("called")
        assert caught.value.code == "policy_changed" and "claimed" not in pay.kinds(third)
        assert pay.status(second) == "refused", "nobody has to use it for that"


@pytest.mark.slow
def test_an_approval_that_expired_refuses(tmp_path: Path) -> None:
    with functions(tmp_path, {"approval.ttl": "4s"}) as pay:
        decision = pay.ask()
        pay.approve(decision)
        wait_until(lambda: pay.ended(decision), "the end of the approval", 60)
        with pytest.raises(Refused) as caught, decision.use():
            pytest.fail("called")
        assert caught.value.code == "expired" and "claimed" not in pay.kinds(decision)


@pytest.mark.parametrize("sign", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_a_daemon_that_is_restarted_in_the_middle(tmp_path: Path, sign: signal.Signals) -> None:
    pay = Functions(tmp_path)
    with pay.daemon() as first:
        decision = pay.approved()
        program = pay.program(stored(tmp_path, decision), waits=True)
        wait_until(pay.called, "the call")
        first.send_signal(sign)
        first.wait(timeout=60)
    with pay.daemon():
        assert pay.status(decision) == "interrupted"
        pay.until.touch()
        said = program.communicate(timeout=60)[1]
        assert program.returncode == 1 and "the record says interrupted" in said
        assert len(pay.called()) == 1 and pay.kinds(decision).count("claimed") == 1
        assert not list((pay.place.root / "tool-exec/verdicts").glob("use-*"))
