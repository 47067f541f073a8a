"""`threegate grant suggest` with real requests, a real daemon and the command that it ends with."""

from __future__ import annotations

import json
import os
import shlex
import signal
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench, once
from tests.plugins.grants.granting_bench import GrantingBench
from tests.support import Place, make_place, monty_draft, request_id
from threegate.core import limits
from threegate.core.errors import InvalidInput
from threegate.plugins.grants.past_requests import past_requests, waiting_jobs
from threegate.plugins.grants.suggestion import Suggestion, suggest
from threegate.plugins.grants.suggestion_bounds import bounds_here

CODE = "print(100 // most, month)"
NOTHING = "no grant to suggest: no job was signed by itself and succeeded 3 times"


def drop(place: Place, slug: str, most: int, month: str = "2026-01") -> Path:
    return place.drop(monty_draft(request_id(slug), CODE, variables=json.dumps({"month": month, "most": most})))


@pytest.fixture
def granting(tmp_path: Path) -> Place:
    return make_place(tmp_path, settings={"grants.allow": True})


def test_what_it_ends_with_gives_a_grant_that_covers_what_was_seen_and_no_near_miss(granting: Place) -> None:
    place = granting
    assert place.run("grant", "suggest", expect=0).out == f"{NOTHING} (0 such requests in all)\n"
    signed = [drop(place, f"job-{most}", most, f"2026-0{most % 2 + 1}") for most in (5, 6, 7, 8, 9)]
    for draft in signed:
        place.approve(draft)
    failed = drop(place, "failed", 0)
    place.approve(failed)
    place.once()
    assert "failed" in place.result(failed.stem)
    waiting = [drop(place, "waits", 7), drop(place, "over", 10), drop(place, "month", 7, "2026-03")]
    before = place.events()
    shown = place.run("grant", "suggest", expect=0).out
    assert place.events() == before, "nothing is granted, and nothing is written"
    assert failed.stem not in shown
    for line in (
        "== SUGGESTION 1: 5 REQUESTS, NOTHING IS GRANTED YET",
        '  widened     | vars.month is one of ["2026-01", "2026-02"]',
        "  widened     | vars.most is from 5 to 9",
        "  for          5 uses, 1h: as often, and as long, as it was seen",
        "  waiting      drafts that it would let run, which are no reason for it: 1",
        '  new at worst| vars.month is "2026-01", vars.most is 9',
        "  would wait  | vars.most is 10",
    ):
        assert line in shown, (line, shown)
    assert shown.count("  would wait  |") == 3
    (found,) = place.run("grant", "suggest", "--json", expect=0).json()
    assert sorted(found["requests"]) == [draft.stem for draft in signed] and found["waiting"] == 1
    words = shlex.split(shown.splitlines()[-1])
    assert words == found["suggested"]["command"] and words[:3] == ["threegate", "grant", "new"]
    place.run(*words[1:], "--as", "operator", "--key", str(place.key), "--yes", expect=0)
    again = place.run("grant", "suggest", expect=0).out
    assert "the grant " in again and "covers it" in again and again.endswith("threegate grant new ID\n")
    daemon = place.daemon()
    try:
        place.wait_for(f"finished/{waiting[0].name}")
        for draft in waiting[1:]:
            place.wait_for(f"verdicts/{draft.name}.json")
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=30)
    finally:
        daemon.kill()
    assert all(draft.exists() for draft in waiting[1:])
    grant = place.events("granted")[0]["data"]["grant"]
    place.run("grant", "revoke", grant, expect=0)
    (found,) = place.run("grant", "suggest", "--json", expect=0).json()
    assert sorted(found["requests"]) == [draft.stem for draft in signed], "what ran under a grant is no reason for one"


def test_grants_that_are_off_are_not_suggested(tmp_path: Path) -> None:
    done = make_place(tmp_path).run("grant", "suggest", expect=2)
    assert "grants.allow = true" in done.err and done.out == ""


@pytest.fixture
def ran(tmp_path: Path) -> Bench:
    """Three requests of one shape that were signed one by one, and succeeded."""
    bench = make_bench(tmp_path)
    bench.settings(grants__allow=True)
    for number in range(3):
        bench.approve(bench.draft(f"one-{number}", slug=f"one-{number}", data=b"%d\n" % 10**number))
    once(bench)
    return bench


def test_an_input_has_the_range_of_its_sizes_and_other_bytes_are_new(
    ran: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = suggest(past_requests(ran.context), bounds_here(ran.context))
    assert isinstance(found, Suggestion)
    assert found.rules == ("inputs.data.csv one_of [2, 3, 4]",)
    assert found.worst == "inputs.data.csv is any content of 4 bytes"
    ran.draft("waits", slug="waits", data=b"77\n")
    assert [found.covers(*item) for item in waiting_jobs(ran.context)] == [True]
    ran.draft("broken", slug="broken", code="def (")
    assert len(waiting_jobs(ran.context)) == 1
    monkeypatch.setattr(limits, "SUGGESTION_REQUESTS", 2)
    assert len(past_requests(ran.context)) == 2, "the newest"
    projects_are_too_wide(ran, tmp_path)


def projects_are_too_wide(ran: Bench, tmp_path: Path) -> None:
    ran.settings(project__root=str(tmp_path / "a"))
    ran.workspace.projects_file.write_text(json.dumps({"projects": [{"name": "b", "path": str(tmp_path / "b")}]}))
    bounds = bounds_here(ran.context)
    assert bounds.why_wide(str(tmp_path / "a")) == bounds.why_wide(str(tmp_path / "b")) == "the root of a project"
    assert bounds.why_wide(str(ran.workspace.root)) == "the workspace"
    assert bounds.why_wide(str(tmp_path / "a" / "docs")) is None
    ran.workspace.projects_file.write_text("[]")
    with pytest.raises(InvalidInput, match=r"projects\.json: cannot be read"):
        bounds_here(ran.context)


def test_a_batch_is_not_signed_one_by_one(ran: Bench) -> None:
    from threegate.cli import execute

    for number in range(3):
        ran.draft(f"batch-{number}", slug=f"batch-{number}", data=None, code=f"print({number // 9})")
    lead = next(iter(sorted(ran.workspace.inbox.glob("*-batch-0.md"))))
    words = ["--workspace", str(ran.workspace.root), "approve", "--group", str(lead), "--key", str(ran.keys["alice"])]
    assert execute([*words, "--yes"]) == 0
    once(ran)
    assert len(list(ran.workspace.finished.iterdir())) > 6
    assert sorted(past.request_id for past in past_requests(ran.context)) == ["one-0", "one-1", "one-2"]


def test_a_file_that_is_not_the_one_that_ran_does_not_count(ran: Bench) -> None:
    first, second, third = sorted(ran.workspace.finished.glob("TR-*-one-*.md"))
    first.write_text(first.read_text().replace("Sum a column.", "Sum two columns."))
    second.unlink()
    assert [past.request_id for past in past_requests(ran.context)] == ["one-2"]
    (ran.workspace.finished / first.name.replace("one-0", "more")).write_bytes(third.read_bytes())
    assert [past.request_id for past in past_requests(ran.context)] == ["one-2"]
    for pinned in ran.workspace.inputs.iterdir():
        pinned.unlink()
    assert past_requests(ran.context) == []


def test_calls_of_a_tool_that_wait_are_counted(tmp_path: Path) -> None:
    tools = GrantingBench(tmp_path)
    tools.draft({}, tool="now")
    tools.draft({}, tool="now", run=(run := tools.run()))
    asked = [(owner, job.tool) for owner, job in waiting_jobs(tools.bench.context)]
    assert sorted(asked, key=str) == sorted([(os.getuid(), "hub.now"), (run.run_id, "hub.now")], key=str)
    assert bounds_here(tools.bench.context).why_over(run.run_id) is None
