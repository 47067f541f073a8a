"""An agent takes the names that a drill is likely to get, before it is placed and after: it is placed and shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.drills.practice import answer_drill
from threegate.acts.signing_key import Acting
from threegate.audit.audit_verify import verify_workspace
from threegate.daemon import run_daemon
from threegate.daemon.log import Log
from threegate.plugins.drills.drills import place_drill, set_drills, settle_drill
from threegate.plugins.drills.placed_drill import PLAN, drills_folder, read_drill
from threegate.request.render_draft import file_name
from threegate.review.reviewed_draft import read_draft


@pytest.fixture
def ran(tmp_path: Path) -> Bench:
    """A workspace in which a request ran, whose operator said yes to drills."""
    bench = make_bench(tmp_path)
    bench.approve(bench.draft("req-20260101-101010-abcdef"))
    assert run_daemon(bench.workspace, once=True, log=Log(quiet=True)) == 0
    set_drills(bench.context, Acting("alice", bench.keys["alice"]), on=True)
    return bench


def test_a_plan_whose_name_is_not_a_text_is_no_drill(ran: Bench) -> None:
    drill = place_drill(ran.context, chance=Random(7))
    assert drill is not None
    plan = drills_folder(ran.workspace) / PLAN
    plan.write_text(plan.read_text().replace(f'"{drill.name}"', "5"))
    assert read_drill(ran.workspace) is None
    assert settle_drill(ran.context) == "lost"


def test_names_that_were_taken_before_keep_no_drill_away(ran: Bench) -> None:
    now = datetime.now(UTC)
    for seconds in range(-5, 120):
        (ran.workspace.inbox / file_name(now + timedelta(seconds=seconds), "sum")).write_bytes(b"mine")
    drill = place_drill(ran.context, chance=Random(7))
    assert drill is not None and drill.name.endswith(".md") and "Z-sum-" in drill.name
    draft = read_draft(ran.workspace, drill.listed(ran.workspace))
    assert draft.placed is not None and settle_drill(ran.context) is None
    assert read_drill(ran.workspace) == drill


def test_a_name_that_is_taken_afterwards_hides_it_only_until_the_next_look(ran: Bench) -> None:
    drill = place_drill(ran.context, chance=Random(7))
    assert drill is not None and "Z-sum." in drill.name
    for _ in range(2):
        known = read_drill(ran.workspace)
        assert known is not None
        known.listed(ran.workspace).write_bytes(b"mine")
        assert read_draft(ran.workspace, known.listed(ran.workspace)).placed is None, "a file of the name is what it is"
        assert settle_drill(ran.context) is None
    named = read_drill(ran.workspace)
    assert named is not None and named.name != drill.name and named.commitment == drill.commitment
    assert sorted(path.name for path in drills_folder(ran.workspace).iterdir()) == sorted(["plan.json", named.name])
    draft = read_draft(ran.workspace, named.listed(ran.workspace))
    assert draft.placed == named
    assert "caught" in answer_drill(ran.context, draft, yes=False, actor="operator:alice").says
    for path in ran.workspace.inbox.glob("TR-*.md"):
        path.unlink()
    assert verify_workspace(ran.workspace).ok and not list(drills_folder(ran.workspace).iterdir())


def test_a_slug_of_full_length_stays_a_name(ran: Bench) -> None:
    slug = "s" * 64
    ran.approve(ran.draft("req-20260101-101010-abcdea", slug=slug))
    assert run_daemon(ran.workspace, once=True, log=Log(quiet=True)) == 0
    for path in ran.workspace.finished.glob("*-sum.md*"):
        path.unlink()
    now = datetime.now(UTC)
    for seconds in range(-5, 120):
        (ran.workspace.inbox / file_name(now + timedelta(seconds=seconds), slug)).write_bytes(b"mine")
    drill = place_drill(ran.context, chance=Random(7))
    assert drill is not None and len(drill.name) == len(file_name(now, slug))
