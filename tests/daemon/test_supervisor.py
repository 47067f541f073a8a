"""What systemd hears: ready, status, pings of the loop itself, reloading, stopping."""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

import pytest

from tests.daemon.listening import Manager
from tests.support import Place, make_place, monty_draft, request_id
from threegate.daemon.supervisor import Supervisor
from threegate.setup.settings_file import set_values


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def test_one_life_of_a_daemon(place: Place, tmp_path: Path) -> None:
    settings = place.root / "threegate.toml"
    good = settings.read_text()
    with Manager(place, tmp_path) as manager:
        manager.wait(lambda message: message.get("STATUS") == "0 running, 0 waiting")

        set_values(settings, {"results.release": "never"})
        manager.process.send_signal(signal.SIGHUP)
        told = manager.wait(lambda message: "RELOADING" in message)
        assert int(told["MONOTONIC_USEC"]) > 0
        manager.wait(lambda message: message.get("READY") == "1")
        [event] = place.events("settings_changed")
        assert event["actor"] == "daemon" and event["data"]["changed"] == ["results.release"]
        assert event["data"]["policy_sha256"] != event["data"]["before_sha256"]

        settings.write_text(good + "\n[approvals]\nttl = '2h'\n")
        manager.process.send_signal(signal.SIGHUP)
        manager.wait(lambda message: message.get("READY") == "1")
        told = manager.wait(lambda message: "nothing is started" in message.get("STATUS", ""))
        assert "approvals: unknown key" in told["STATUS"]
        assert len(place.events("settings_changed")) == 1
        rid = request_id("waits")
        (place.root / "threegate.toml").write_text(good)
        manager.wait(lambda message: message.get("STATUS", "").startswith("0 running"))
        assert place.events("settings_changed")[1]["data"]["changed"] == ["results.release"]

        place.approve(place.drop(monty_draft(rid, "1 + 1")))
        place.wait_for(f"results/TS-*-{rid}.md")
        manager.process.terminate()
        manager.wait(lambda message: message.get("STOPPING") == "1")
        assert manager.process.wait(60) == 0
    assert "status: succeeded" in place.result(rid)
    assert place.run("audit", "verify").code == 0


@pytest.mark.slow
def test_nothing_is_started_while_the_settings_do_not_hold(place: Place, tmp_path: Path) -> None:
    settings = place.root / "threegate.toml"
    good = settings.read_text()
    rid = request_id("between")
    draft = place.drop(monty_draft(rid, "1 + 1"))
    with Manager(place, tmp_path) as manager:
        settings.write_text(good + "\nnonsense = [")
        manager.wait(lambda message: "nothing is started" in message.get("STATUS", ""))
        settings.write_text(good)
        manager.process.send_signal(signal.SIGSTOP)
        place.approve(draft)
        settings.write_text(good + "\nnonsense = [")
        manager.process.send_signal(signal.SIGCONT)
        manager.process.send_signal(signal.SIGHUP)
        manager.receive(2.5)
        assert place.events("claimed") == []
        assert place.events("settings_changed") == []
        settings.write_text(good)
        place.wait_for(f"results/TS-*-{rid}.md")


@pytest.mark.slow
def test_other_runners_take_over_without_a_restart(place: Place, tmp_path: Path) -> None:
    settings = place.root / "threegate.toml"
    rid = request_id("large")
    place.approve(place.drop(monty_draft(rid, "1 + 1", memory_mb=64)))
    set_values(settings, {"runners.memory_budget_mb": 16})
    with Manager(place, tmp_path) as manager:
        manager.wait(lambda message: message.get("STATUS") == "0 running, 1 waiting")
        assert place.events("waiting")[-1]["data"]["reason"] == "no_backend"
        set_values(settings, {"runners.memory_budget_mb": 4096})
        manager.process.send_signal(signal.SIGHUP)
        manager.wait(lambda message: "RELOADING" in message)
        place.wait_for(f"results/TS-*-{rid}.md")


@pytest.mark.slow
def test_what_comes_next_starts_under_the_new_policy(place: Place, tmp_path: Path) -> None:
    with Manager(place, tmp_path) as manager:
        set_values(place.root / "threegate.toml", {"approval.ttl": "2h"})
        manager.process.send_signal(signal.SIGHUP)
        manager.wait(lambda message: "RELOADING" in message)
        rid = request_id("next")
        place.approve(place.drop(monty_draft(rid, "1 + 1")))
        place.wait_for(f"results/TS-*-{rid}.md")
    [changed], [claimed] = place.events("settings_changed"), place.events("claimed")
    assert claimed["data"]["policy_sha256"] == changed["data"]["policy_sha256"]
    assert "status: succeeded" in place.result(rid)


def test_a_loop_that_hangs_stops_the_pings(place: Place, tmp_path: Path) -> None:
    with Manager(place, tmp_path, watchdog=2.0) as manager:
        assert sum("WATCHDOG" in message for message in manager.receive(2.2)) >= 2
        lock = os.open(place.root / "tool-exec" / "audit" / "lock", os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            place.drop(monty_draft(request_id("hangs"), "1"))
            manager.receive(1.5)
            assert not any("WATCHDOG" in message for message in manager.receive(2.5))
            assert manager.process.poll() is None
        finally:
            os.close(lock)
        manager.wait(lambda message: "WATCHDOG" in message)


def test_no_ping_before_ready_and_none_too_often() -> None:
    now = [100.0]
    said: list[str] = []
    supervisor = Supervisor("@nobody-listens", 8.0, clock=lambda: now[0])
    supervisor._send = said.append  # type: ignore[method-assign]
    supervisor.turned()
    assert said == []
    supervisor.ready()
    for _ in range(10):
        supervisor.turned()
        now[0] += 1.0
    assert said.count("WATCHDOG=1") == 5
    assert supervisor.turn_seconds == 1.0


def test_the_variables_are_for_this_process_only() -> None:
    environment = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1", "HOME": "/"}
    supervisor = Supervisor.of(environment)
    assert environment == {"HOME": "/"}
    assert supervisor.turn_seconds == 1.0, "a watchdog of another process"
    assert Supervisor.of({"WATCHDOG_USEC": "1000000"}).turn_seconds == 0.25
    Supervisor.of({"NOTIFY_SOCKET": "relative"}).ready()
    Supervisor("/nothing/here").ready()
