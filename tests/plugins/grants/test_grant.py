"""Standing grants, whole: given, used, counted down, stretched in each dimension, revoked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.acts.bench_workspace import Bench, once
from tests.acts.test_names_and_words import signed
from threegate.cli import execute as run
from threegate.core.errors import InvalidInput, Refused
from threegate.plugins.grants.giving import finished_request, new_grant, revoke_grant
from threegate.plugins.grants.grant import Grant
from threegate.plugins.grants.promotion import use_grants
from threegate.plugins.grants.standing_grants import find_grant, list_grants
from threegate.plugins.grants.widened import read_widened
from threegate.review.countersign import countersign, open_waiting, verify_approval
from threegate.trail.trail import Trail


def give(bench: Bench, **changes: Any) -> Grant:
    values: dict[str, Any] = {
        "widened": ["inputs.data.csv gte 0 lte 100"], "max_uses": 2, "seconds": 3600, "name": "alice", "key": bench.keys["alice"],  # noqa: E501
        **changes,
    }  # fmt: skip
    approved = finished_request(bench.context, "req-1")
    return new_grant(bench.context, approved, **{**values, "widened": read_widened(approved.job, values["widened"])})


@pytest.fixture
def ran(bench: Bench) -> Bench:
    """A workspace with grants on, in which req-1 ran."""
    bench.settings(grants__allow=True)
    bench.approve(bench.draft())
    once(bench)
    return bench


def results(bench: Bench) -> str:
    return "\n".join(path.read_text() for path in sorted(bench.workspace.results.iterdir()))


@pytest.mark.slow
def test_a_grant_runs_the_same_job_so_often_and_no_more(ran: Bench) -> None:
    grant = give(ran)
    ran.draft("req-2", slug="two", data=b"5\n")
    once(ran)
    ran.draft("req-3", slug="three", data=b"6\n", purpose="Another purpose.")
    once(ran)
    ran.draft("req-4", slug="four", data=b"7\n")
    once(ran)
    claimed = [event for event in Trail(ran.workspace).events() if event.type == "claimed"]
    assert [event.request_id for event in claimed] == ["req-1", "req-2", "req-3"]
    assert [event.data.get("grant") for event in claimed] == [None, grant.id, grant.id]
    assert results(ran).count(f"ran under grant {grant.id}, given by alice; not signed individually") == 2
    assert find_grant(ran.context.workspace, ran.context.trail, grant.id[:8]).uses == 2
    assert [path.name.endswith("four.md") for path in ran.workspace.inbox.glob("*.md")] == [True]


DIFFERENT: list[dict[str, Any]] = [
    {"code": "print(1)"},
    {"data": None},
    {"risk": "high"},
    {"risk": "medium"},
    {"requested_by": "somebody"},
    {"requested_by": "alice"},
    {"extra": "tool: t\n"},
    {"extra": "session_id: s\n"},
    {"extra": "workdir: /out\n"},
]


@pytest.mark.slow
def test_a_draft_that_differs_is_not_covered(ran: Bench) -> None:
    grant = give(ran)
    for number, changes in enumerate(DIFFERENT):
        path = ran.draft(f"differs-{number}", slug=f"differs-{number}", **changes)
        assert use_grants(ran.context) == [], changes
        assert not list(ran.workspace.approved.glob("*.md"))
        path.unlink()
    revoke_grant(ran.context, grant.id, actor="test")
    give(ran, widened=[])
    path = ran.draft("other-bytes", slug="other-bytes", data=b"8\n")
    assert use_grants(ran.context) == []
    path.unlink()
    ran.draft("same", slug="same")
    assert len(use_grants(ran.context)) == 1


def test_a_grant_is_off_unless_it_is_on(bench: Bench) -> None:
    bench.approve(bench.draft())
    once(bench)
    with pytest.raises(Refused) as caught:
        give(bench)
    assert caught.value.code == "grants_off"
    assert use_grants(bench.context) == []


@pytest.mark.slow
def test_a_revoked_grant_and_one_whose_signer_was_revoked(ran: Bench) -> None:
    grant = give(ran)
    ran.draft("req-2", slug="two")
    (promoted,) = use_grants(ran.context)
    assert all(check.ok for check in verify_approval(ran.context, promoted.path))
    waiting, _ = open_waiting(ran.context, promoted.path)
    with pytest.raises(Refused) as caught:
        countersign(ran.context, waiting, "bob", ran.keys["alice"])
    assert caught.value.code == "signature_missing"
    revoke_grant(ran.context, grant.id, actor="test")
    failed = [check.code for check in verify_approval(ran.context, promoted.path) if check.ok is False]
    assert failed == ["grant_missing"]
    once(ran)
    assert 'reason: "grant_missing"' in results(ran)
    assert list_grants(ran.context.workspace, ran.context.trail)[0].uses is None


@pytest.mark.slow
def test_who_gives_what_waits_and_what_the_policy_ends(ran: Bench) -> None:
    for wrong in ("req-9", ""):
        with pytest.raises(InvalidInput):
            finished_request(ran.context, wrong or "req-404")
    with pytest.raises(Refused) as caught:
        give(ran, widened=["inputs.other.csv gte 0 lte 9"])
    assert caught.value.code == "grant_mismatch"
    with pytest.raises(InvalidInput):
        find_grant(ran.context.workspace, ran.context.trail, "0000")
    give(ran, max_uses=1)
    paths = [ran.draft("req-2", slug="two"), ran.draft("req-3", slug="three")]
    assert len(use_grants(ran.context)) == 1, "what waits counts as promised"
    assert [path.exists() for path in paths].count(True) == 1
    give(ran)
    ran.settings(results__release="never")
    assert use_grants(ran.context) == [], "another policy"


def test_the_commands(ran: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    root = ["--workspace", str(ran.workspace.root), "--json", "grant"]
    key = ["--key", str(ran.keys["alice"]), "--yes"]
    assert (
        run(
            [
                *root,
                "new",
                "req-1",
                "--widen",
                "inputs.data.csv gte 0 lte 1024",
                "--max-uses",
                "3",
                "--expires",
                "7d",
                *key,
            ]
        )
        == 0
    )
    made = json.loads(capfd.readouterr().out)
    assert made["max_uses"] == 3 and made["uses"] == 0
    assert run([*root, "list"]) == 0
    assert run([*root, "show", made["grant"][:10]]) == 0
    assert run([*root[:2], "grant", "show", made["grant"][:10]]) == 0
    assert run([*root[:2], "grant", "list"]) == 0
    assert run([*root, "revoke", made["grant"][:10]]) == 0
    assert run([*root, "new", "req-1", "--max-uses", "3", "--expires", "soon", *key]) == 2


@pytest.mark.slow
def test_grant_new_shows_what_it_lets_run(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.settings(grants__allow=True)
    bench.approve(bench.draft())
    once(bench)
    capfd.readouterr()
    assert signed(bench, "grant", "new", "req-1", "--max-uses", "2", "--expires", "1h") == 0
    shown = capfd.readouterr().out
    assert "print(sum(int(x) for x in open(" in shown and "== WHAT RUNS" in shown
    assert "== WALLS" not in shown
