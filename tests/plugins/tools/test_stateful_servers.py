"""One process for each requester: what it keeps, for whom, and when it ends."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.tools.stateful_bench import Bench, in_thread, stateful_bench
from tests.support import wait_until
from threegate.core import limits
from threegate.core.errors import Refused, Unavailable
from threegate.plugins.tools import kept_servers
from threegate.plugins.tools.action import EarlierCall, ServerState
from threegate.plugins.tools.manifest import Place, parse_manifest
from threegate.plugins.tools.process_states import FRESH, read_state
from threegate.plugins.tools.server_process import ServerError


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_servers, "_LOOK_SECONDS", 0.05)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with stateful_bench() as made:
        yield made


@pytest.mark.parametrize("place", ["jail", "host"])
def test_what_a_call_leaves_meets_the_next_one_of_the_same_requester(place: Place) -> None:
    with stateful_bench(place=place) as bench:
        assert bench.state() == FRESH
        assert bench.seen({"a": 1}) == [{"a": 1}]
        assert bench.seen({"a": 2}, owner=0) == [{"a": 2}], "another requester has another process"
        assert bench.seen({"a": 3}) == [{"a": 1}, {"a": 3}]
        state = bench.state()
        assert state.count == 2 and state.process != bench.state(0).process
        assert state.calls == (
            EarlierCall("TR-7", "echo", '{"a":1}', "succeeded"),
            EarlierCall("TR-7", "echo", '{"a":3}', "succeeded"),
        )
        bench.servers.close()
        assert bench.processes == 0 and bench.state() == FRESH and not bench.workspace.servers_file.exists()
        with pytest.raises(Unavailable):
            bench.call()


def test_a_signed_call_is_made_in_the_signed_state_only(bench: Bench) -> None:
    bench.call({"a": 1}, signed=FRESH)
    for signed in (FRESH, ServerState("p", 1, bench.state().calls)):
        with pytest.raises(Refused) as other:
            bench.call({"a": 2}, signed=signed)
        assert other.value.code == "state_changed"
    shown = bench.state()
    assert bench.seen({"a": 3}, signed=shown) == [{"a": 1}, {"a": 3}], "what was refused was not sent"
    with pytest.raises(Refused, match="was called"):
        bench.call({"a": 4}, signed=shown)
    bench.call({"a": 5})  # under a grant


def test_two_that_were_signed_for_one_state_are_not_both_made(bench: Bench) -> None:
    works = [in_thread(lambda: bench.seen({"sleep": 0.2}, signed=FRESH)) for _ in range(3)]
    for thread, _ in works:
        thread.join()
    ends = [type(given[0]) for _, given in works]
    assert sorted(ends, key=str) == sorted([list, Refused, Refused], key=str)


def test_a_call_that_runs_is_in_the_state(bench: Bench) -> None:
    bench.call()
    thread, _ = in_thread(lambda: bench.call({"sleep": 0.5}))
    wait_until(lambda: bench.state().count == 2)
    assert [call.status for call in bench.state().calls] == ["succeeded", "running"]
    thread.join()
    assert [call.status for call in bench.state().calls] == ["succeeded", "succeeded"]


def test_it_ends_when_nobody_calls_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOOLS_IDLE_SECONDS", 0.3)
    bench.call({"a": 1})
    shown = bench.state()
    assert bench.processes == 1 and shown != FRESH
    wait_until(lambda: bench.processes == 0 and bench.state() == FRESH)
    with pytest.raises(Refused) as gone:
        bench.call({"a": 2}, signed=shown)
    assert gone.value.code == "state_changed" and bench.processes == 0
    assert bench.seen({"a": 3}, signed=FRESH) == [{"a": 3}]


def test_it_ends_with_the_run(bench: Bench) -> None:
    over, looks = threading.Event(), itertools.count()
    bench.call(run_ended=lambda: next(looks) > 0 and over.is_set())
    wait_until(lambda: next(looks) > 5)
    assert bench.processes == 1
    over.set()
    wait_until(lambda: bench.processes == 0 and bench.state() == FRESH)


def test_it_ends_with_its_manifest(bench: Bench) -> None:
    bench.call()
    (bench.workspace.tools / "little.json").unlink()
    wait_until(lambda: bench.processes == 0 and bench.state() == FRESH)


def test_it_ends_when_it_is_signed_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_servers, "_LOOK_SECONDS", 60)  # nobody looks before the call
    bench.call({"a": 1})
    bench.pin(env={"MODE": "other"})
    assert bench.seen({"a": 2}) == [{"a": 2}] and bench.processes == 1


def test_it_is_gone_when_it_ended_by_itself() -> None:
    with stateful_bench(
        "def call(id, name, arguments):\n    say({'id': id, 'result': text('x')})\n    os._exit(0)"
    ) as bench:
        bench.call()
        wait_until(lambda: bench.state() == FRESH)
        bench.call(signed=FRESH)


def test_there_are_so_many_and_no_more(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOOLS_KEPT", 2)
    for owner in (1, 2, 1):
        bench.call(owner=owner)
    with pytest.raises(Unavailable, match="2 processes of stateful servers are already running"):
        bench.call(owner=3)
    assert bench.processes == 2 and bench.state(1).count == 2


def test_a_cancelled_call_ends_it_and_one_that_waits_is_not_sent(bench: Bench) -> None:
    stop = threading.Event()
    bench.call({"a": 1})
    first, given = in_thread(lambda: bench.call({"sleep": 60}, stopped=stop.is_set))
    wait_until(lambda: bench.state().count == 2)
    looks = Counter[str]()

    def looked(who: str, found: bool) -> bool:
        looks[who] += 1
        return found

    second, waited = in_thread(lambda: bench.call({"b": 1}, stopped=lambda: looked("second", stop.is_set())))
    granted, made = in_thread(lambda: bench.seen({"c": 1}, stopped=lambda: looked("granted", False)))
    wait_until(lambda: looks["second"] > 1 and looks["granted"] > 1)
    stop.set()
    for thread in (first, second, granted):
        thread.join(20)
    assert isinstance(given[0], ServerError) and (given[0].code, given[0].reached) == ("cancelled", True)
    assert isinstance(waited[0], ServerError) and (waited[0].code, waited[0].reached) == ("cancelled", False)
    assert made == [[{"c": 1}]], "it waited for its turn, and got a fresh process"
    assert bench.state().count == 1


def test_the_list_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOOLS_EARLIER_CALLS", 2)
    for text in ("a", "b", "x" * 900):
        bench.call({"t": text})
    state = bench.state()
    assert state.count == 3 and [call.arguments[:7] for call in state.calls] == ['{"t":"b', '{"t":"x']
    assert state.calls[1].arguments.endswith("… (908 characters)") and len(state.calls[1].arguments) < 230


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"[]",
        b'{"daemon": 1, "processes": []}',
        b'{"daemon": PID, "processes": 7}',
        b'{"daemon": PID, "processes": [7, {"owner": "AG-1"}]}',
        b'{"daemon": PID, "processes": [{"owner": "AG-1", "manifest_sha256": "DIGEST", "process": "p", "count": 1, "calls": [7]}]}',  # noqa: E501
        b'{"daemon": PID, "processes": [{"owner": "AG-1", "manifest_sha256": "DIGEST"}]}',
        b'{"daemon": PID, "processes": [{"owner": "AG-1", "manifest_sha256": "DIGEST", "process": 7, "count": 1, "calls": []}]}',  # noqa: E501
    ],
)
def test_a_list_that_is_none_tells_nothing(bench: Bench, wrong: bytes) -> None:
    pid = (bench.workspace.tool_exec / ".daemon.lock").read_bytes().strip()
    data = wrong.replace(b"PID", pid).replace(b"DIGEST", bench.manifest.digest.encode())
    bench.workspace.servers_file.write_bytes(data)
    assert bench.state() == FRESH


def test_what_a_daemon_that_died_left_is_not_told(tmp_path: Path) -> None:
    with stateful_bench() as bench:
        bench.call()
        kept = bench.workspace.servers_file.read_bytes()
        digest, workspace = bench.manifest.digest, bench.workspace
        assert read_state(workspace, "AG-1", digest) != FRESH
        workspace.servers_file.write_bytes(kept.replace(b'"daemon": ', b'"daemon": 9'))
        assert read_state(workspace, "AG-1", digest) == FRESH


def test_a_manifest_that_says_nothing_of_it_keeps_its_digest(bench: Bench) -> None:
    assert parse_manifest(bench.manifest.to_bytes()).stateful
    bench.pin(stateful=False)
    assert b"stateful" not in bench.manifest.to_bytes() and not parse_manifest(bench.manifest.to_bytes()).stateful


def test_a_call_that_shall_end_before_it_began_starts_nothing(bench: Bench) -> None:
    with pytest.raises(ServerError) as cancelled:
        bench.call(stopped=lambda: True)
    assert (cancelled.value.code, cancelled.value.reached) == ("cancelled", False)
    assert bench.processes == 0 and bench.state() == FRESH
