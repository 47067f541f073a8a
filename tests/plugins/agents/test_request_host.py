"""`request_host`: a host in the middle of a run, from the call to its bytes in the trail and to its end.

Real: the jail, the proxy, the name server, TLS, the daemon, the signature. Only root can make the internet.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.plugins.agents.online import ASKS, HOST, OTHER, Online, output
from tests.plugins.agents.people import Person
from tests.plugins.agents.signing_desk import SigningDesk, refuse, sign
from tests.runners.own_internet import Internet
from tests.support import wait_until

pytestmark = pytest.mark.root
ASK = "ask for this host with the tool request_host"


@pytest.fixture
def online(user: Person, internet: Internet) -> Online:
    return Online(user, internet)


def test_a_host_is_opened_by_a_signature_and_for_this_run_only(online: Online) -> None:
    who, before = online.who, len(online.internet.asked())
    cards: list[str] = []

    def read_and_sign(desk: SigningDesk, draft: Path) -> None:
        cards.append(who.threegate("show", str(draft)).stdout)
        sign(desk, draft)

    program = f"""
print(fetch())
print(json.dumps(ask_for()))
print(fetch())
print(fetch({OTHER!r}))
print(json.dumps(ask_for()))
print(sorted(os.listdir("/run")))
"""
    first, opened, got, other, again, sockets = online.run(program, read_and_sign)
    assert "Tunnel connection failed: 403" in first and ASK in first
    assert json.loads(opened)["status"] == json.loads(again)["status"] == "succeeded", opened
    assert json.loads(opened)["request_id"] == json.loads(again)["request_id"]
    assert got == "200 1000" and ASK in other and "hosts.json" not in sockets

    assert set(online.internet.asked()[before:]) == {HOST}  # a name that was not allowed is asked of nobody
    [ended] = who.events("agent_ended")
    assert ended["reached"] == [HOST] and ended["refused"] == [HOST, OTHER]
    assert 1000 < ended["reached_bytes"][0] < 10_000
    [card] = cards
    assert "may send     everything that this run has read" in card
    assert f"the project | {who.project}, without" in card and "its requests, 0 so far" in card
    assert "risk         high" in card and f"threegate agent close {who.facts()['run']}" in card
    assert who.threegate("audit", "verify").returncode == 0

    words = ["agent", "continue", who.facts()["run"], "--propose", "never", "--", "/usr/bin/python3", "-uc"]
    [continued] = output(online.begin(*words, ASKS + "print(fetch())"))
    assert ASK in continued


@pytest.mark.slow
def test_what_is_taken_back_is_broken_off_and_stays_closed(online: Online) -> None:
    """One host that was asked for, and one that the run was started with."""
    who = online.who
    program = f"""
print(ask_for()["status"])
there = opened(path="/hold")
print(len(there.read(2000)))
open("holding", "w").close()
try:
    while there.read(1): pass
    print("broken")
except OSError as error:
    print("broken")
print(fetch())
print(json.dumps(ask_for(why="Once more.")))
print(ask_for({OTHER!r})["status"])
open("other", "w").close()
wait_for("closed")
print(fetch({OTHER!r}))
"""
    options = ["--allow", OTHER, "--key", str(who.key), "--operator", "operator"]
    with online.running(program, sign, options=options) as process:
        copy = who.wait_for_file("holding").parent
        run = who.facts()["run"]
        assert f"hosts     {OTHER}, {HOST}; close one: threegate agent close {run} HOST" in (
            who.threegate("agent", "show", run).stdout
        )
        done = who.threegate("agent", "close", run, HOST)
        assert (done.returncode, done.stdout) == (0, f"closed {HOST} for {run}\n"), done
        wait_until(lambda: (copy / "other").exists(), "the agent goes on")
        assert who.threegate("agent", "close", run, OTHER, "--json").stdout.strip()
        (copy / "closed").touch()
        said = output(process)
    assert [line for line in said if not line.startswith("{")][:3] == ["succeeded", "2000", "broken"], said
    assert ASK in said[3] and ASK in said[6]
    again = json.loads(said[4])
    assert again["status"] == "refused" and "was taken back from this run" in again["why"]
    assert said[5] == "succeeded"
    assert [event["host"] for event in who.events("agents.host_closed")] == [HOST, OTHER]
    [ended] = who.events("agent_ended")
    assert ended["reached"] == [HOST] and ended["reached_bytes"][0] > 2000

    again = who.threegate("agent", "close", run, HOST)
    assert again.returncode == 2 and "has ended" in again.stderr
    stranger = who.threegate("agent", "close", run, "stranger.example")
    assert stranger.returncode == 2 and "nor asked for it" in stranger.stderr


def test_what_nobody_decided_about_is_withdrawn_with_the_run(user: Person) -> None:
    done = user.run("/usr/bin/python3", "-c", f"{ASKS}\nprint(ask_for(wait_sec=0)['status'])")
    assert done.stdout == "pending\n" and done.returncode == 0, done
    assert list(user.workspace.glob("tool-exec/agents/*/inbox/TR-*")) == [] and "daemon" not in done.stderr


def test_a_draft_that_cannot_be_withdrawn_keeps_no_change_from_the_person(user: Person) -> None:
    """The inbox is the agent's own: it may put a folder where the draft was."""
    program = f"""{ASKS}
asked = ask_for(wait_sec=0)["request_id"]
os.unlink(f"/run/inbox/{{asked}}.md")
os.mkdir(f"/run/inbox/{{asked}}.md")
open("new.txt", "w").close()
"""
    done = user.run("/usr/bin/python3", "-c", program, options=["--propose", "always"])
    assert done.returncode == 0 and "1 added (new.txt)" in done.stderr and "drafted TR-" in done.stderr, done


@pytest.mark.slow
def test_a_refusal_stands_for_the_run(online: Online) -> None:
    program = """
first = ask_for()
print(json.dumps(first))
print(json.dumps(ask_for(why="It is really needed.")))
print(call("wait", request_id=first["request_id"], again=True))
print(json.dumps(ask_for(host="Allowed.example")))
print(json.dumps(ask_for(why="It is really needed.")))
print(fetch())
"""
    first, second, again, other, third, got = online.run(program, refuse("no host today"))
    for said in map(json.loads, (first, second, third)):
        assert said["status"] == "refused" and "no host today" in said["why"]
        assert said["next"] == "a person's no to a host stands for this run: do without it, or tell your user"
    assert "stands for this run" in json.loads(again)["why"]
    assert "lower-case" in json.loads(other)["why"] and ASK in got
    [rejected] = online.who.events("rejected")
    assert "host-allowed-example" in str(rejected)
