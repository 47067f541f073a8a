"""An agent goes for a host that nobody signed: with drafts of its own, with another run's signature, with names that
are none, and with many calls. Nothing opens.

The launcher's watch and its proxy are the real ones, and so are the door, the gates, the daemon and the signatures.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.agents.agent_runs import drop, end_run, make_run
from tests.support import Place, make_place, wait_until
from threegate.core import limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.core.workspace import AgentRun, Workspace
from threegate.launch.context import open_context
from threegate.plugins.agents import host_watch
from threegate.plugins.agents.call_ledger import CallLedger, replaced
from threegate.plugins.agents.door import Door
from threegate.plugins.agents.door_answers import DoorAnswer
from threegate.plugins.agents.host_watch import HostWatch
from threegate.plugins.agents.reach.asked_hosts import OpenHosts, close_host, host_call, read_open_hosts
from threegate.plugins.agents.reach.host_action import HasRead, HostAccess
from threegate.plugins.agents.runs import RunFacts, run_lock
from threegate.plugins.grants.grant import opened
from threegate.runners.jail.jail import Account
from threegate.runners.jail.side_process import listen, start_host_proxy
from threegate.trail.trail import Trail

HOST = "api.example.com"


async def _nobody(waited: float, seconds: float, what: str) -> None:
    """Who is told of progress."""


class Running:
    """A run that is alive as far as hosts go: its door, and its launcher's watch with the proxy."""

    def __init__(self, place: Place, held: ExitStack, allowed: tuple[str, ...] = ()) -> None:
        self.place, self.workspace = place, Workspace(place.root)
        self.run: AgentRun = make_run(place)
        RunFacts(
            profile="codex", started_utc="", root=str(place.root.parent), project="default", hosts=allowed
        ).write(self.run)  # fmt: skip
        held.enter_context(run_lock(self.run))
        listener = held.enter_context(listen(self.run.hosts, Account.own()))
        targets = [f"{host}:443" for host in allowed]
        self.proxy, log = start_host_proxy(listener, targets, hint="ask with request_host")
        held.callback(os.close, log)
        held.callback(self.proxy.end)
        held.enter_context(HostWatch(self.workspace, self.run, self.proxy, allowed))

    def call(self, name: str, **arguments: Any) -> DoorAnswer:
        door = Door(self.workspace, self.run, 0)
        answer = asyncio.run(door.call(name, arguments, _nobody))
        if answer.completes is not None:
            door.delivered(answer.completes)
        return answer

    def ask(self, host: str = HOST, why: str = "To fetch the rates.") -> dict[str, Any]:
        return self.call("request_host", host=host, why=why, wait_sec=0).value

    def draft(self, request_id: str) -> Path:
        return self.run.inbox / f"{request_id}.md"

    def open(self, host: str = HOST) -> str:
        """Ask, sign, and wait for the end; the id of the request."""
        request_id = str(self.ask(host)["request_id"])
        self.place.once()
        self.place.approve(self.draft(request_id))
        self.place.once()
        return request_id

    def answer(self, host: str = HOST) -> bytes:
        """What the proxy says to a CONNECT: 502 for a name that is listed and leads nowhere."""
        with socket.socket(socket.AF_UNIX) as there:
            there.settimeout(30)
            held = os.open(self.run.folder, os.O_RDONLY)
            try:
                there.connect(f"/proc/self/fd/{held}/hosts.sock")
            finally:
                os.close(held)
            there.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            return there.recv(12)

    def is_open(self, host: str = HOST) -> bool:
        """Whether the proxy lets it through, and the launcher says so."""
        said = self.answer(host)[9:]
        assert (said != b"403") == (host in read_open_hosts(self.run)), (said, read_open_hosts(self.run))
        return said != b"403"

    def verdict(self, name: str) -> str:
        return (self.run.verdicts / f"{name}.json").read_text()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@pytest.fixture
def running(place: Place) -> Iterator[Running]:
    with ExitStack() as held:
        yield Running(place, held)


def test_what_was_signed_opens_and_nothing_else(running: Running) -> None:
    """So that the rest of this page can fail."""
    asked = running.ask()
    assert asked["status"] == "pending" and not running.is_open()
    running.place.once()
    assert not running.is_open()
    running.place.approve(running.draft(asked["request_id"]))
    assert not running.is_open()
    running.place.once()
    assert running.is_open() and not running.is_open(f"www.{HOST}")
    answer = running.call("wait", request_id=asked["request_id"], wait_sec=0)
    assert answer.value["status"] == "succeeded" and f"{HOST}:443 is open for this run" in answer.value["stdout"]


def test_a_draft_of_the_agents_own_is_not_signed(running: Running) -> None:
    """It may write into its inbox: a draft for another host, a copy, another host under the door's id."""
    asked = running.ask()
    text = running.draft(asked["request_id"]).read_text()
    own = drop(running.run.inbox, text.replace(asked["request_id"], "TR-20260101-000000Z-mine"))
    evil = drop(
        running.run.inbox, text.replace(asked["request_id"], "TR-20260101-000000Z-evil").replace(HOST, "evil.example")
    )
    running.place.once()
    for draft in own, evil:
        assert "TG916" in running.verdict(draft.name) and '"state": "invalid"' in running.verdict(draft.name)
        done = running.place.approve(draft, expect=2)
        assert "not what the run asked for" in done.err and "request_host" in done.err
    replaced_ = drop(running.run.inbox, text.replace(HOST, "evil.example"), f"{asked['request_id']}.md")
    running.place.once()
    assert "TG916" in running.verdict(replaced_.name)
    running.place.approve(replaced_, expect=2)
    running.place.once()
    assert not running.is_open() and not running.is_open("evil.example")


def test_a_draft_from_elsewhere_is_not_signed(running: Running) -> None:
    """In the workspace's inbox, and in that of another run that asked for the same host."""
    asked = running.ask()
    text = running.draft(asked["request_id"]).read_text()
    other = make_run(running.place)
    outside = running.place.drop(text.replace(asked["request_id"], "TR-20260101-000000Z-out"))
    theirs = drop(other.inbox, text.replace(asked["request_id"], "TR-20260101-000000Z-other"))
    running.place.once()
    assert "only a run of an agent" in running.place.approve(outside, expect=2).err
    assert "not what the run asked for" in running.place.approve(theirs, expect=2).err
    assert not running.is_open()


def test_a_signature_opens_nothing_for_a_run_that_comes_later(running: Running) -> None:
    """Nor for one beside it; and a host is not signed for a run that has ended."""
    running.open()
    with ExitStack() as held:
        beside = Running(running.place, held)
        assert not beside.is_open()
        late = beside.ask()
        beside.place.once()
        end_run(beside.place, beside.run)
        assert "has ended" in beside.place.approve(beside.draft(late["request_id"]), expect=2).err
        assert not beside.is_open()
    assert running.is_open()


def test_a_run_that_ends_before_the_launch_gets_nothing(running: Running) -> None:
    asked = running.ask()
    running.place.once()
    running.place.approve(running.draft(asked["request_id"]))
    end_run(running.place, running.run)
    running.place.once()
    assert "host_closed" in running.place.result(asked["request_id"]) and not running.is_open()


@pytest.mark.parametrize(
    "host",
    ["93.184.216.34", "2130706433", "0x7f.0.0.1", "[::1]", "::1", "*.example.com", "*", "localhost", "a.internal"]
    + ["api.example.com.", "API.example.com", "api.example.com:22", "https://api.example.com", "a.example.com/x"]
    + ["a@b.example.com", "127.0.0.1.nip.io", "a..example.com", "-a.example.com", "a b.example.com", "ápi.example.com"],
)
def test_what_is_not_the_name_of_one_host_makes_no_request(place: Place, host: str) -> None:
    run = make_run(place)
    door = Door(Workspace(place.root), run, 0)
    with pytest.raises(InvalidInput, match=r"^host: ") as error:
        asyncio.run(door.call("request_host", {"host": host, "why": "Because."}, _nobody))
    assert host not in str(error.value) or len(host) < 3
    assert list(run.inbox.glob("TR-*")) == []


def test_no_other_port_and_no_run_no_host(running: Running) -> None:
    for port in 80, 22, 8443:
        with pytest.raises(InvalidInput, match=r"^port: only 443"):
            running.call("request_host", host=HOST, why="Because.", port=port)
    with pytest.raises(InvalidInput, match="only a run of an agent"):
        asyncio.run(Door(running.workspace, None, 0).call("request_host", {"host": HOST, "why": "x"}, _nobody))
    with pytest.raises(InvalidInput, match=r"^why: is refused by TG"):
        running.ask(why="\u202e reversed")
    assert running.ask(why="To pip install requests.")["status"] == "pending"


def test_eight_are_open_and_one_more_is_refused(running: Running) -> None:
    asked = [running.ask(f"h{number}.example.com") for number in range(limits.AGENT_HOST_ASKS)]
    with pytest.raises(InvalidInput, match="8 hosts are asked for"):
        running.ask("more.example.com")
    assert running.ask("h3.example.com")["request_id"] == asked[3]["request_id"], "the same call finds it"
    running.call("cancel", request_id=asked[0]["request_id"])
    assert running.ask("more.example.com")["status"] == "pending"
    running.draft(asked[1]["request_id"]).unlink()  # by the agent's own hand: it does not make room
    with pytest.raises(InvalidInput, match="8 hosts are asked for"):
        running.ask("another.example.com")


def test_withdrawing_makes_no_room_for_ever(running: Running) -> None:
    """Each host was a question to a person, and may be a connection."""
    for number in range(limits.ALLOWLIST_ENTRIES):
        asked = running.ask(f"h{number}.example.com")
        running.call("cancel", request_id=asked["request_id"])
    with pytest.raises(InvalidInput, match="may ask for no more"):
        running.ask("more.example.com")


@pytest.mark.slow
def test_a_refusal_outlives_a_thousand_calls(running: Running) -> None:
    """The record of calls forgets the oldest answered ones, and no host."""
    asked = running.ask()
    running.place.once()
    running.place.run("reject", str(running.draft(asked["request_id"])), "--reason", "no", expect=0)
    assert running.ask(why="Please.")["status"] == "refused"
    ledger = CallLedger(running.workspace, running.run)
    made = ledger.last(host_call(HOST))
    assert made is not None and made.kept
    with ledger.locked() as held:
        for number in range(limits.DOOR_CALLS + 5):
            file = f"TR-20990101-000000Z-{number}.md"
            held.put(f"{number:064x}", replaced(made, request_id=f"r{number}", file=file, kept=False, delivered=True))
    assert running.ask(why="Please, please.")["status"] == "refused"
    with pytest.raises(InvalidInput, match="stands for this run"):
        running.call("wait", request_id=asked["request_id"], again=True)
    with pytest.raises(InvalidInput, match="no argument 'again'"):
        running.call("request_host", host=HOST, why="Please.", again=True)


def test_words_of_a_person_are_a_no_too(running: Running) -> None:
    asked = running.ask()
    running.place.once()
    running.place.run("request-changes", str(running.draft(asked["request_id"])), "--words", "Why?", expect=0)
    said = running.ask(why="To fetch the rates, once.")
    assert said["status"] == "changes_requested" and "stands for this run" in said["next"]


def test_a_refusal_counts_before_its_result_is_there(running: Running) -> None:
    """The verdict comes first, and an agent may ask without a pause."""
    asked = running.ask()
    running.place.once()
    running.place.run("reject", str(running.draft(asked["request_id"])), "--reason", "no", expect=0)
    [result] = running.run.results.glob("TS-*")
    aside = result.rename(running.run.folder / "aside")
    assert running.ask(why="Please.")["request_id"] == asked["request_id"]
    assert len(CallLedger(running.workspace, running.run).all()) == 1
    aside.rename(result)
    assert running.ask(why="Please.")["status"] == "refused"


def test_what_is_taken_back_stays_closed_for_gates_and_door(running: Running) -> None:
    opened_id = running.open()
    running.place.run("agent", "close", running.run.run_id, HOST, expect=0)
    assert not running.is_open() and "taken back" in running.ask()["why"]
    running.place.run("agent", "close", running.run.run_id, HOST, expect=0)
    assert len(running.place.events("agents.host_closed")) == 1
    waiting = running.ask("b.example.com")
    running.place.once()
    running.place.run("agent", "close", running.run.run_id, "b.example.com", expect=0)
    assert "was taken back" in running.place.approve(running.draft(waiting["request_id"]), expect=2).err
    assert not running.is_open("b.example.com") and running.place.result(opened_id)


def test_a_host_of_the_start_is_taken_back_and_needs_no_request(place: Place) -> None:
    with ExitStack() as held:
        running = Running(place, held, ("first.example.com",))
        wait_until(lambda: read_open_hosts(running.run), "the launcher's note")
        assert running.ask("first.example.com")["status"] == "succeeded" and running.is_open("first.example.com")
        running.place.run("agent", "close", running.run.run_id, "first.example.com", expect=0)
        assert not running.is_open("first.example.com")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for a launcher."""
    monkeypatch.setattr("threegate.core.limits.AGENT_HOST_OPEN_SECONDS", 3)


@pytest.mark.usefixtures("impatient")
def test_a_full_disk_keeps_no_host_open(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher's note comes as soon as there is room, and whoever closes a host can rely on it."""
    running.open()
    left, write = [3], host_watch.write_open_hosts

    def full(run: AgentRun, hosts: Iterable[str]) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(run, hosts)

    monkeypatch.setattr(host_watch, "write_open_hosts", full)
    facts = RunFacts.read(running.run)
    close_host(open_context(running.workspace), running.run, facts, HOST, actor="operator")
    assert left[0] < 0 and not running.is_open()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("note", [None, b"", b"{}", b"[]"])
def test_a_host_is_not_said_to_be_closed_before_it_is(
    running: Running, monkeypatch: pytest.MonkeyPatch, note: bytes | None
) -> None:
    """The proxy does not answer, and there is no note of what it lets through, or one that cannot be read."""
    running.open()
    monkeypatch.setattr(host_watch, "allow_hosts", lambda proxy, targets: False)
    running.run.open_hosts.unlink()
    if note is not None:
        running.run.open_hosts.write_bytes(note)
    facts = RunFacts.read(running.run)
    with pytest.raises(Unavailable, match="threegate agent stop"):
        close_host(open_context(running.workspace), running.run, facts, HOST, actor="operator")


def test_a_launcher_that_was_killed_has_no_open_hosts(place: Place) -> None:
    """Its proxy has gone with it, and so has what it noted."""
    with ExitStack() as held:
        running = Running(place, held)
        running.open()
        said = running.place.run("agent", "show", running.run.run_id, expect=0).out
        assert f"hosts     {HOST}" in said
    said = place.run("agent", "show", running.run.run_id, expect=0).out
    assert HOST not in said and running.run.open_hosts.exists()
    place.run("agent", "list", expect=0)
    assert not running.run.open_hosts.exists() and not running.run.hosts.exists()
    assert json.loads(place.run("agent", "show", running.run.run_id, "--json", expect=0).out)["open_hosts"] == []


def test_bytes_that_the_claim_does_not_name_open_nothing(running: Running) -> None:
    """Whoever can write there changes the host of a request that was claimed."""
    request_id = running.open()
    trail = Trail(running.workspace)
    with trail.locked() as held:
        assert OpenHosts(running.workspace, running.run, ()).now(held.index) == (HOST,)
        history = held.index.history(request_id)
    assert history is not None and history.file is not None and history.state is not None
    file = running.workspace.state_folder(history.state) / history.file
    data = file.read_bytes()
    file.chmod(0o600)
    for other in (data.replace(HOST.encode(), b"evi.example.com"), b"", data + b"\n"):
        file.write_bytes(other)
        with trail.locked() as held:
            hosts = OpenHosts(running.workspace, running.run, ())
            assert hosts.now(held.index) == () and hosts.on_their_way
    file.unlink()
    with trail.locked() as held:
        assert OpenHosts(running.workspace, running.run, ()).now(held.index) == ()


def test_a_trail_that_cannot_be_read_closes_what_was_asked_for(running: Running) -> None:
    running.open()
    assert running.is_open()
    path = running.workspace.trail_file
    path.rename(path.with_name("aside"))
    wait_until(lambda: running.answer()[9:] == b"403", "it is closed")
    path.with_name("aside").rename(path)
    wait_until(lambda: running.answer()[9:] != b"403", "it is open again")


@pytest.mark.slow
def test_a_proxy_that_died_opens_nothing(running: Running) -> None:
    """The request ends as unavailable, and the host may be asked for again."""
    running.proxy.end()
    asked = running.ask()
    running.place.once()
    running.place.approve(running.draft(asked["request_id"]))
    running.place.once()
    assert "status: unavailable" in running.place.result(asked["request_id"]) and read_open_hosts(running.run) == ()
    assert running.ask()["request_id"] != asked["request_id"]


def test_no_grant_covers_a_host() -> None:
    from tests.engine_fixtures import era_job

    action = HostAccess(HOST, "Because.").bound("ar-1", HasRead("/srv/app"))
    job = replace(era_job("true"), action=action, network=(), effective_risk="low")
    with pytest.raises(Refused, match="a grant never covers a host for an agent's run"):
        opened(job, [])
