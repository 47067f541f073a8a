"""`threegate doctor` measures each wall of the jail in a jail, and says what is missing."""

from __future__ import annotations

import os
import sys

import pytest

from tests.plugins.agents.people import ACCOUNT, Person
from threegate.core.errors import Unavailable
from threegate.core.settings import Settings
from threegate.plugins.agents import jail_doctor
from threegate.runners.jail import jail, jail_trial
from threegate.runners.jail.jail_trial import WALLS


def test_there_is_a_line_for_each_wall(somebody: Person) -> None:
    done = somebody.threegate("doctor", "--json")
    assert done.stderr == ""
    import json

    lines = {line["name"]: line for line in json.loads(done.stdout)["lines"]}
    for wall in WALLS:
        assert lines[f"agents: {wall}"]["state"] == "ok" and "measured in a jail" in lines[f"agents: {wall}"]["seen"]
    assert lines["agents: work copy"]["seen"].startswith("a plain copy" if somebody.agent else "an overlay")
    assert lines["agents: libraries"]["state"] == "ok"
    assert lines["agents: packages"]["state"] == "ok" and "bubblewrap, socat" in lines["agents: packages"]["seen"]
    assert ("only root" in lines["agents: limits"]["seen"]) is not bool(somebody.agent)


def test_what_is_measured_is_what_is_required() -> None:
    from tests.plugins.agents.conftest import jail_programs

    jail_programs()
    # No limit on processes holds for root, who runs no agent.
    account = jail.Account(ACCOUNT, 65534, 65534) if os.geteuid() == 0 else jail.Account.own()
    measured = jail_trial.measure_walls(account)
    assert tuple(measured) == WALLS and all(measured.values())


@pytest.mark.jail
def test_a_jail_that_cannot_be_made_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(account: jail.Account) -> dict[str, bool]:
        raise Unavailable("no jail is possible here")

    monkeypatch.setattr(jail_doctor, "measure_walls", fails)
    [line] = [line for line in jail_doctor.agent_lines(None, Settings(), True) if line.name == "agents: jail"]
    assert (line.state, line.seen) == ("warning", "no jail is possible here")


def test_missing_packages_and_libraries_are_named_with_what_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jail, "PACKAGES", {"/nowhere/bwrap": "bubblewrap", "/nowhere/unshare": "util-linux"})
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.setattr(jail_doctor, "measure_walls", lambda account: pytest.fail("there is nothing to measure"))
    lines = {line.name: line for line in jail_doctor.agent_lines(None, Settings(), True)}
    assert (lines["agents: packages"].state, lines["agents: packages"].fix) == (
        "warning",
        "on Debian: apt-get install bubblewrap util-linux",
    )
    assert lines["agents: libraries"].seen == "missing uvicorn: no agent is started"
    assert lines["agents: libraries"].fix == "pip install 'threegate[agents,mcp]'"
    with pytest.raises(Unavailable, match="apt-get install bubblewrap util-linux$"):
        jail_trial.measure_walls(jail.Account.own())


@pytest.mark.jail
def test_a_wall_that_does_not_hold_is_a_failure_and_stops_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jail_doctor, "measure_walls", lambda account: {"seccomp": False})
    monkeypatch.setattr(jail_trial, "measure_walls", lambda account: {"seccomp": False, "net namespace": True})
    [line] = [line for line in jail_doctor.agent_lines(None, Settings(), True) if line.name == "agents: seccomp"]
    assert line.state == "failure"
    with pytest.raises(Unavailable, match="is incomplete here: seccomp;"):
        jail_trial.check_walls(jail.Account.own())


def test_without_probes_no_jail_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jail_doctor, "measure_walls", lambda account: pytest.fail("a jail was made"))
    assert not [line for line in jail_doctor.agent_lines(None, Settings(), False) if "namespace" in line.name]
