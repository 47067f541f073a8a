"""Drills: consent, placing, the answer, and what is counted; whose screens they are is in
test_drill_screens.py.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from tests.acts.bench_workspace import Bench
from tests.conftest import few
from tests.plugins.drills.practice import answer_drill, drill_watch
from tests.support import Place, offered, wait_until
from threegate.acts.signing_key import Acting
from threegate.approval.shown.time_read import Reading
from threegate.audit.audit_verify import verify_workspace
from threegate.audit.practice import practice_lines, practice_of
from threegate.cli import execute
from threegate.core.errors import Refused
from threegate.core.settings import RequestSettings, parse_settings
from threegate.daemon import run_daemon
from threegate.daemon.log import Log
from threegate.plugins.drills import drills
from threegate.plugins.drills.drill_plants import PLANTS, Planted
from threegate.plugins.drills.drills import due_utc, place_drill, set_drills, settle_drill
from threegate.plugins.drills.kinds import DrillEnded, DrillPlaced, DrillSet
from threegate.plugins.drills.placed_drill import PLAN, Drill, drills_folder, read_drill
from threegate.plugins.drills.section import DrillSettings
from threegate.request.action import Command, Script
from threegate.request.model import InputFile, NetworkTarget, OutputFile, Request
from threegate.request.reader import read_request
from threegate.review.draft_sources import drafts_of
from threegate.review.named_request import find_draft
from threegate.review.reviewed_draft import read_draft
from threegate.review.show import open_input, show_request
from threegate.review.status import status_lines
from threegate.trail.event import Event
from threegate.trail.index import TrailIndex
from threegate.trail.trail import Trail


@pytest.fixture
def ran(bench: Bench, capsys: pytest.CaptureFixture[str]) -> Bench:
    """A workspace in which a request ran, whose operator said yes to drills."""
    bench.approve(bench.draft("req-20260101-101010-abcdef", data=b"1\n2\n"))
    assert run_daemon(bench.workspace, once=True, log=Log()) == 0
    switch(bench, on=True)
    capsys.readouterr()
    return bench


def switch(bench: Bench, *, on: bool) -> None:
    set_drills(bench.context, Acting("alice", bench.keys["alice"]), on=on)


def placed(bench: Bench) -> Drill:
    drill = place_drill(bench.context, chance=Random(7))
    assert drill is not None
    return drill


def events(bench: Bench, kind: type) -> list[Event]:
    return [event for event in Trail(bench.workspace).events() if isinstance(event.payload, kind)]


def ended(bench: Bench) -> DrillEnded:
    payload = events(bench, DrillEnded)[-1].payload
    assert isinstance(payload, DrillEnded)
    return payload


def verified(bench: Bench) -> list[str]:
    return [str(problem) for problem in verify_workspace(bench.workspace).problems]


def index(bench: Bench) -> TrailIndex:
    with Trail(bench.workspace).locked() as held:
        return held.index


def test_consent_is_a_signed_act(ran: Bench) -> None:
    (event,) = events(ran, DrillSet)
    assert event.actor == "operator:alice" and event.payload.sentence() == "switched drills on"
    assert isinstance(event.payload, DrillSet) and event.payload.key is not None
    with Trail(ran.workspace).locked() as held:
        assert held.index.drills.on and held.index.nonce_used(event.payload.nonce or "")
    switch(ran, on=False)
    assert not index(ran).drills.on and due_utc(index(ran), 3600) is None
    assert place_drill(ran.context) is None, "nothing is placed without consent"


def test_nothing_comes_without_consent(bench: Bench) -> None:
    bench.approve(bench.draft())
    assert run_daemon(bench.workspace, once=True, log=Log()) == 0
    told: list[Any] = []
    assert drill_watch(bench.context, told).turn(bench.context, off=False) == 0
    assert not drills_folder(bench.workspace).exists() and told == []


def test_when_it_is_due_hangs_on_the_trail_alone(ran: Bench) -> None:
    known = index(ran)
    last = datetime.fromisoformat(known.drills.last_time)
    due = due_utc(known, 7200)
    assert due is not None and last + timedelta(hours=1) <= due <= last + timedelta(hours=3)
    assert due_utc(index(ran), 7200) == due
    placed(ran)
    assert due_utc(index(ran), 7200) is None, "one is open"
    assert place_drill(ran.context) is None


def test_it_is_committed_spent_and_hidden_from_the_agent(ran: Bench) -> None:
    before = sorted(map(str, ran.workspace.root.rglob("*")))
    drill = placed(ran)
    (event,) = events(ran, DrillPlaced)
    assert event.request_id is None and event.actor == "daemon"
    assert isinstance(event.payload, DrillPlaced) and event.payload.commitment == drill.commitment
    assert drill.request_id not in str(event.data) and drill.name not in str(event.data)
    assert index(ran).id_used(drill.request_id) and index(ran).history(drill.request_id) is None
    assert stat.S_IMODE(drills_folder(ran.workspace).stat().st_mode) == 0o700
    new = {
        path.relative_to(ran.workspace.root).parts[:2]
        for path in ran.workspace.root.rglob("*")
        if str(path) not in before
    }
    assert new == {("tool-exec", "drills")}, "nothing is where an agent reads"
    assert verified(ran) == []


def test_the_id_stays_spent_in_a_kept_index(ran: Bench) -> None:
    drill = placed(ran)
    known = index(ran)
    again = TrailIndex()
    again.begin_from(known.to_header())
    assert again.is_spent(drill.request_id) and again.drills == known.drills
    assert not again.is_spent("another")


def test_it_is_listed_and_found_like_any_draft(ran: Bench) -> None:
    drill = placed(ran)
    (line,) = [line for line in status_lines(ran.workspace) if line.state == "draft"]
    assert (line.entry.folder, line.file, line.request_id) == ("inbox", drill.name, drill.request_id)
    assert line.for_whom == "operator: threegate approve" and line.reason is None
    assert line.asked is not None and line.asked.requester == "core"
    listed = ran.workspace.inbox / drill.name
    for which in (drill.name, drill.request_id, str(listed)):
        assert find_draft(ran.workspace, which) == listed
        assert show_request(ran.workspace, which).path == listed
    shown = show_request(ran.workspace, drill.name)
    with open_input(ran.workspace, shown, "data.csv") as (_, copy), copy.open() as stream:
        assert stream.read() == b"1\n2\n"
    place = Place(ran.workspace.root, ran.keys["alice"])
    assert offered(place, "approve", "TR-") == [drill.name.removesuffix(".md")]  # Tab does not give it away
    assert drafts_of(ran.workspace) == [] and drafts_of(ran.workspace, placed=True) == [listed]


def test_a_file_of_the_same_name_is_what_it_is(ran: Bench) -> None:
    drill = placed(ran)
    path = ran.draft("req-mine").rename(ran.workspace.inbox / drill.name)
    assert read_draft(ran.workspace, path).placed is None


def test_a_yes_is_a_miss(ran: Bench) -> None:
    drill = placed(ran)
    draft = read_draft(ran.workspace, ran.workspace.inbox / drill.name)
    answer_drill(ran.context, draft, yes=True, actor="operator:alice", reading=Reading(9, True))
    said = ended(ran)
    assert (said.outcome, said.planted, said.line) == ("missed", drill.planted, drill.line)
    assert said.opens == drill.commitment and said.source == "req-20260101-101010-abcdef"
    assert list(drills_folder(ran.workspace).iterdir()) == [] and read_drill(ran.workspace) is None
    with pytest.raises(Refused) as error:
        answer_drill(ran.context, draft, yes=False, actor="operator:bob")
    assert error.value.code == "drill_over" and len(events(ran, DrillEnded)) == 1
    assert verified(ran) == []


def test_stats_have_rate_time_and_kinds(ran: Bench) -> None:
    for outcome in ("missed", "caught", "caught"):
        drill = placed(ran)
        draft = read_draft(ran.workspace, ran.workspace.inbox / drill.name)
        answer_drill(ran.context, draft, yes=outcome == "missed", actor="operator:alice", reading=Reading(8, True))
    placed(ran)
    switch(ran, on=False)
    practice = practice_of(Trail(ran.workspace).events())
    assert practice.operators["alice"].rejected == 0 and practice.operators["alice"].approved == 1
    assert practice.to_json()["drills"] == {
        "caught": 2, "missed": 1, "undecided": 1, "catch_rate": 0.667, "median_seconds": 8,
        "missed_kinds": {drill.planted: 1}, "operators": {"alice": {"caught": 2, "missed": 1}},
    }  # fmt: skip
    lines = practice_lines(practice)
    assert ("drills", "2 of 3 caught (67%); 8 s (median)") in lines
    assert ("missed in a drill", f"{drill.planted} (1)") in lines
    assert ("drills left", "1 ended without a decision") in lines


def test_switching_off_withdraws_it(ran: Bench) -> None:
    placed(ran)
    switch(ran, on=False)
    assert ended(ran).outcome == "withdrawn" and read_drill(ran.workspace) is None
    assert settle_drill(ran.context) is None and verified(ran) == []


def test_it_expires_as_any_draft(ran: Bench) -> None:
    placed(ran)
    assert settle_drill(ran.context) is None
    ran.settings(approval__draft_ttl="1s")
    assert wait_until(lambda: settle_drill(ran.context), "the end of its time", 5) == "expired"
    assert ended(ran).outcome == "expired"
    assert verified(ran) == []


@pytest.mark.parametrize("harm", few(["changed", "plan gone", "draft gone", "another plan"], 2))
def test_what_is_not_as_placed_is_lost(ran: Bench, harm: str) -> None:
    drill = placed(ran)
    draft = read_draft(ran.workspace, ran.workspace.inbox / drill.name)
    file, plan = drill.file(ran.workspace), drills_folder(ran.workspace) / PLAN
    if harm == "changed":
        file.write_bytes(file.read_bytes().replace(b"limit", b"limiT"))
        draft = read_draft(ran.workspace, ran.workspace.inbox / drill.name)
    elif harm == "another plan":
        plan.write_text(json.dumps({**json.loads(plan.read_bytes()), "line": "nothing"}))
        draft = read_draft(ran.workspace, ran.workspace.inbox / drill.name)
    else:
        (plan if harm == "plan gone" else file).unlink()
    if harm in ("changed", "another plan"):
        with pytest.raises(Refused, match="drill"):
            answer_drill(ran.context, draft, yes=False, actor="operator:alice")
    assert settle_drill(ran.context) == "lost"
    assert ended(ran).outcome == "lost" and list(drills_folder(ran.workspace).iterdir()) == []


def test_what_a_crash_left_is_cleared(ran: Bench) -> None:
    drill = placed(ran)
    data, plan = drill.file(ran.workspace).read_bytes(), drill.to_bytes()
    draft = read_draft(ran.workspace, ran.workspace.inbox / drill.name)
    answer_drill(ran.context, draft, yes=False, actor="operator:alice")
    drill.file(ran.workspace).write_bytes(data)
    (drills_folder(ran.workspace) / PLAN).write_bytes(plan)
    assert settle_drill(ran.context) is None and list(drills_folder(ran.workspace).iterdir()) == []


def test_a_reveal_that_does_not_open_the_commitment_is_found(ran: Bench) -> None:
    drill = placed(ran)
    with Trail(ran.workspace).locked() as held:
        lie = DrillEnded(commitment=drill.commitment, outcome="caught", salt=drill.salt, line="something else")
        held.append(lie, actor="operator:alice")
        held.sync()
    assert any("does not open what was committed to" in problem for problem in verified(ran))


def test_the_daemon_places_one_when_it_is_due_and_tells_operators_only(
    ran: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    watch = drill_watch(ran.context, told)
    assert watch.turn(ran.context, off=False) == 0, "not due yet"
    monkeypatch.setattr("threegate.core.limits.DRILLS_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(
        "threegate.plugins.drills.drill_watch.due_utc",
        lambda index, every: datetime.min.replace(tzinfo=datetime.now().astimezone().tzinfo),
    )
    assert watch.turn(ran.context, off=False) == 1
    drill = read_drill(ran.workspace)
    assert drill is not None and [draft[0] for draft in told] == [drill.name]
    assert told[0][3] == os.getuid()
    assert not list(ran.workspace.verdicts.glob(f"*{drill.name}*"))
    (drills_folder(ran.workspace) / PLAN).unlink()
    assert watch.turn(ran.context, off=False) == 1 and ended(ran).outcome == "lost"
    assert len(told) == 1
    for path in ran.workspace.finished.iterdir():
        path.unlink()
    assert watch.turn(ran.context, off=False) == 0, "there is nothing to make one of"


def test_the_command(ran: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-w", str(ran.workspace.root), "operator", "drills"]
    key = ["--key", str(ran.keys["alice"])]
    assert execute([*words, "off", *key]) == 0
    assert execute([*words, "on", *key]) == 0
    assert "drills are off\ndrills are on: about every 3 days" in capsys.readouterr().out
    assert execute([*words, "status"]) == 0
    assert "drills are on since" in capsys.readouterr().out
    assert execute([*words, "status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["on"], told["by"], told["every"], told["caught"]) == (True, "alice", 259200, 0)
    assert execute([*words, "off", "--json", *key]) == 0
    assert json.loads(capsys.readouterr().out) == {"drills": False, "by": "alice"}


def test_never_on(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["-w", str(bench.workspace.root), "operator", "drills", "status"]) == 0
    assert "were never on" in capsys.readouterr().out


def test_reject_catches_it_and_asks_no_key(
    ran: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drill = placed(ran)
    monkeypatch.setattr("threegate.acts.signed_acts.sign_statement", lambda *given, **more: pytest.fail("a key"))
    words = ["-w", str(ran.workspace.root), "reject", drill.name, "--reason", "why?", "--json"]
    assert execute(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["drill"], told["planted"]) == ("caught", drill.planted)
    said = ended(ran)
    assert (said.outcome, said.reason) == ("caught", "why?")
    assert not list(ran.workspace.results.glob(f"*{drill.request_id}*"))


def test_the_setting_is_no_part_of_the_policy() -> None:
    changed = parse_settings(b'[drills]\nevery = "1h"\n')
    assert changed.section(DrillSettings).every == 3600 and changed.deciding() == parse_settings(b"").deciding()


def request_of(bench: Bench, **given: str) -> Request:
    data = bench.draft("plain", data=None, **given).read_bytes()  # type: ignore[arg-type]
    settings = bench.context.policy.settings.request
    report = read_request(data, path="TR-x.md", settings=settings, now=datetime.now(UTC), stage="draft")
    assert report.request is not None
    return report.request


def planted(kind: str, request: Request, others: Sequence[InputFile] = ()) -> Planted | None:
    return PLANTS[kind](request, Random(1), others, RequestSettings())


def test_a_plant_that_does_not_fit_is_not_made(bench: Bench) -> None:
    request = request_of(bench, code="# nothing\nif 1:\n    pass")
    assert [planted(kind, request) for kind in ("host", "input", "path")] == [None] * 3
    assert planted("hidden", replace(request, action=Script("# only this\n"))) is None
    assert planted("network", replace(request, action=Script("x = ("))) is None
    assert planted("network", replace(request, action=Script("x = (\n"))) is None
    assert planted("network", replace(request, action=Command(("cat", "/in/a")))) is None
    most = replace(request, time_limit_sec=3600, memory_limit_mb=4096)
    assert planted("limit", most) is None
    there = replace(request, outputs=(OutputFile("/out/a"), OutputFile("/out/.config/a")))
    assert PLANTS["path"](there, First(), (), RequestSettings()) is None
    short = replace(request, network_allowlist=(NetworkTarget("x.y", 1),))
    assert planted("host", short) is None, "no name is long enough"
    taken = replace(request, network_allowlist=(NetworkTarget("bbbb", 1), NetworkTarget("dbbb", 1)))
    assert PLANTS["host"](taken, First(), (), RequestSettings()) is None


class First(Random):
    """Takes the first of everything."""

    def choice(self, seq: Any) -> Any:
        return seq[0]


def test_ids_look_like_those_of_their_source() -> None:
    now = datetime.fromisoformat("2026-11-23T14:00:00+00:00")
    assert drills.fresh_id("TR-20260101-101010Z-0badcafe", now).startswith("TR-20261123-140000Z-")
    assert drills.fresh_id("weekly-report", now).startswith("weekly-report-")
    assert len(drills.fresh_id("x" * 128, now)) <= 128
    assert drills.fresh_id("run-abcdef12", now) != "run-abcdef12"
