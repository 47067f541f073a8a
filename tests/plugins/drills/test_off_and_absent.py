"""Drills that are off or absent: none is listed or placed, the open one is withdrawn as soon as a daemon runs, and what
is left of one can still not be run.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.acts.bench_workspace import Bench
from threegate.acts.signing_key import Acting
from threegate.audit.audit_verify import verify_workspace
from threegate.cli import execute
from threegate.core import plugins
from threegate.core.plugins import PLUGINS, Plugin
from threegate.daemon import run_daemon
from threegate.daemon.log import Log
from threegate.plugins.drills.drills import place_drill, set_drills
from threegate.plugins.drills.kinds import DrillEnded, DrillPlaced
from threegate.plugins.drills.placed_drill import Drill, drills_folder
from threegate.review.draft_sources import drafts_of, placed_at
from threegate.review.status import status_lines
from threegate.trail.trail import Trail


@pytest.fixture
def ran(bench: Bench) -> Bench:
    """A workspace in which a request ran, whose operator said yes to drills."""
    bench.approve(bench.draft("req-20260101-101010-abcdef", data=b"1\n2\n"))
    assert run_daemon(bench.workspace, once=True, log=Log()) == 0
    set_drills(bench.context, Acting("alice", bench.keys["alice"]), on=True)
    return bench


def placed(bench: Bench) -> Drill:
    drill = place_drill(bench.context, chance=Random(7))
    assert drill is not None
    return drill


def outcomes(bench: Bench) -> list[str | None]:
    payloads = [event.payload for event in Trail(bench.workspace).events()]
    return [payload.outcome for payload in payloads if isinstance(payload, DrillEnded)]


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is deleted: its entry of the list is still there."""
    entry = next(plugin for plugin in PLUGINS if plugin.name == "drills")
    others = tuple(plugin for plugin in PLUGINS if plugin is not entry)
    gone = type("Gone", (Plugin,), {"has_code": lambda self: False, "__slots__": ()})
    deleted = gone(entry.name, entry.says, folders=entry.folders, offers=entry.offers)
    monkeypatch.setattr(plugins, "PLUGINS", (*others, deleted))


def test_off_lists_none_and_the_daemon_withdraws_the_open_one(ran: Bench) -> None:
    drill = placed(ran)
    ran.settings(plugins__off=("drills",))
    assert placed_at(ran.workspace, drill.listed(ran.workspace)) is None
    assert drafts_of(ran.workspace, placed=True) == []
    assert not [line for line in status_lines(ran.workspace, ended=0) if line.request_id == drill.request_id]
    assert execute(["-w", str(ran.workspace.root), "reject", drill.name]) == 2
    assert outcomes(ran) == []
    assert run_daemon(ran.workspace, once=True, log=Log(quiet=True)) == 0
    assert outcomes(ran) == ["withdrawn"] and list(drills_folder(ran.workspace).iterdir()) == []
    assert verify_workspace(ran.workspace).ok
    assert run_daemon(ran.workspace, once=True, log=Log(quiet=True)) == 0
    assert outcomes(ran) == ["withdrawn"]


def test_off_places_none(ran: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threegate.plugins.drills.drill_watch.due_utc", lambda index, every: pytest.fail("looked"))
    monkeypatch.setattr("threegate.plugins.drills.drill_watch.place_drill", lambda context: pytest.fail("placed"))
    ran.settings(plugins__off=("drills",))
    assert run_daemon(ran.workspace, once=True, log=Log(quiet=True)) == 0


def test_what_settings_cannot_be_read_turns_nothing_off(ran: Bench) -> None:
    drill = placed(ran)
    ran.workspace.settings_file.write_text("[")
    assert placed_at(ran.workspace, drill.listed(ran.workspace)) == drill


@pytest.mark.usefixtures("absent")
def test_absent_leaves_it_alone_and_the_audit_too(ran: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "PLUGINS", PLUGINS)
        drill = placed(ran)
    data = drill.file(ran.workspace).read_bytes()
    assert placed_at(ran.workspace, drill.listed(ran.workspace)) is None
    assert run_daemon(ran.workspace, once=True, log=Log(quiet=True)) == 0
    assert outcomes(ran) == [] and drill.file(ran.workspace).read_bytes() == data
    assert verify_workspace(ran.workspace).ok
    assert execute(["-w", str(ran.workspace.root), "operator", "drills", "status"]) == 3
    assert "the plugin drills is not part of this installation" in capsys.readouterr().err
    # its id is used up for ever: a copy cannot be signed
    copy = ran.workspace.inbox / drill.name
    copy.write_bytes(data)
    assert execute(["-w", str(ran.workspace.root), "approve", str(copy), "--as", "alice", "--yes"]) == 2
    assert "was used before" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["on", "off"])
def test_it_is_no_part_of_the_policy(ran: Bench, how: str) -> None:
    before = ran.context.policy.digest
    ran.settings(drills__every=3600, **({"plugins__off": ("drills",)} if how == "off" else {}))
    assert ran.context.policy.digest == before


def test_a_placed_event_is_all_that_the_trail_has_of_it(ran: Bench) -> None:
    placed(ran)
    events = [event for event in Trail(ran.workspace).events() if isinstance(event.payload, DrillPlaced)]
    assert len(events) == 1 and events[0].request_id is None
