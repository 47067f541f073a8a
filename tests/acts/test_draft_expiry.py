"""A draft that nobody decides on is refused after `approval.draft_ttl`, once, and never against a decision."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from tests.support import wait_until
from threegate.acts.approve import promote, seal, sign
from threegate.acts.reject import expire_draft
from threegate.audit.practice import practice_lines, practice_of
from threegate.core.errors import InvalidInput, Refused
from threegate.core.screen_parts import Fact
from threegate.core.settings import parse_settings
from threegate.daemon import run_daemon
from threegate.daemon.draft_expiry import DraftExpiry
from threegate.daemon.log import Log
from threegate.launch.context import Context
from threegate.launch.results.verdict import read_verdict
from threegate.review.review_sections import review_sections
from threegate.review.reviewed_draft import Draft, open_reviewed_draft, read_draft
from threegate.trail.payloads import Rejected
from threegate.trail.trail import Trail

WEEK = 7 * 86400


def aged(draft: Draft, seconds: float) -> Draft:
    """The draft as if its file had changed so long ago."""
    return replace(draft, identity=(*draft.identity[:-1], draft.identity[-1] - int(seconds * 1e9)))


def ended(bench: Bench) -> list[Rejected]:
    return [item.payload for item in Trail(bench.workspace).events() if isinstance(item.payload, Rejected)]


def test_it_ends_as_a_rejection_does(bench: Bench) -> None:
    told: list[tuple[str, str]] = []
    context = replace(bench.context, on_end=lambda *end: told.append(end))
    path = bench.draft()
    draft = read_draft(bench.workspace, path)
    done = expire_draft(context, aged(draft, WEEK + 1))
    assert done is not None and done.path.parent == bench.workspace.refused
    assert done.path.read_bytes() == draft.data
    assert not done.draft_removed, "the file that was read is another one: it is left to the next look"
    verdict = read_verdict(bench.workspace, path.name)
    assert verdict is not None and (verdict.state, verdict.reason) == ("refused", "draft_expired")
    assert len(list(bench.workspace.results.glob("TS-*-req-1*.md"))) == 1
    assert told == [("req-1", "refused")]
    (event,) = ended(bench)
    assert event.reason == "draft_expired" and "approval.draft_ttl" in (event.message or "")
    assert "refused the draft" in event.sentence()


def test_the_id_is_spent_and_approve_says_why(bench: Bench) -> None:
    path = bench.draft()
    context = bench.context
    draft = read_draft(bench.workspace, path)
    with open_reviewed_draft(context, draft) as reviewed:
        sealed = seal(context, reviewed, "alice")
        assert expire_draft(context, aged(draft, WEEK + 1)) is not None
        with pytest.raises(Refused) as error:
            promote(context, reviewed, sealed, sign(sealed, bench.keys["alice"]), actor="operator:alice")
    assert error.value.code == "draft_expired" and "threegate draft --again" in str(error.value)
    assert not list(bench.workspace.approved.iterdir())
    assert expire_draft(context, aged(draft, WEEK + 1)) is None, "it ends once"
    assert len(ended(bench)) == 1


def test_an_approval_that_was_announced_is_not_undone(bench: Bench) -> None:
    path = bench.draft()
    draft = read_draft(bench.workspace, path)
    bench.approve(path)
    assert expire_draft(bench.context, aged(draft, WEEK + 1)) is None
    assert ended(bench) == [] and len(list(bench.workspace.approved.glob("TR-*.md"))) == 1


def test_what_is_not_due_or_not_to_be_decided_on_stays(bench: Bench) -> None:
    draft = read_draft(bench.workspace, bench.draft())
    assert expire_draft(bench.context, aged(draft, WEEK - 60)) is None
    broken = bench.workspace.inbox / "TR-20260101-000000Z-broken.md"
    broken.write_text("no request")
    assert expire_draft(bench.context, aged(read_draft(bench.workspace, broken), WEEK + 1)) is None
    bench.settings(approval__draft_ttl="never")
    assert expire_draft(bench.context, aged(draft, 400 * WEEK)) is None
    assert ended(bench) == []


def test_not_under_a_clock_that_went_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from threegate.trail.trail import LockedTrail

    draft = read_draft(bench.workspace, bench.draft())
    monkeypatch.setattr(LockedTrail, "clock_behind_seconds", 3600.0)
    assert expire_draft(bench.context, aged(draft, WEEK + 1)) is None


def test_the_daemon_does_it_and_leaves_what_it_cannot(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.settings(approval__draft_ttl="1s")
    path = bench.draft()
    broken = bench.workspace.inbox / "TR-20260101-000000Z-broken.md"
    broken.write_text("no request")
    (bench.workspace.inbox / "TR-20260101-000000Z-closed.md").write_text("x")
    began = time.time()
    wait_until(lambda: time.time() > began + 1, "the end of the time to live")
    assert run_daemon(bench.workspace, once=True, log=Log()) == 0
    assert not path.exists() and broken.exists()
    assert len(ended(bench)) == 1
    practice = practice_of(Trail(bench.workspace).events())
    assert practice.expired == 1 and practice.operators == {}
    assert ("decided by nobody", "1 drafts, refused after approval.draft_ttl") in practice_lines(practice)
    assert practice.to_json()["drafts_expired"] == 1
    assert "expired" in capsys.readouterr().err


def test_what_cannot_be_decided_on_is_read_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.settings(approval__draft_ttl="1s")
    (bench.workspace.inbox / "TR-20260101-000000Z-broken.md").write_text("no request")
    began = time.time()
    wait_until(lambda: time.time() > began + 1, "the end of the time to live")
    looked: list[Path] = []

    def gone(workspace: object, path: Path) -> Draft:
        looked.append(path)
        raise InvalidInput("gone")

    monkeypatch.setattr("threegate.daemon.draft_expiry.read_draft", gone)
    monkeypatch.setattr("threegate.core.limits.DRAFTS_LOOK_SECONDS", 0.0)
    expiry = DraftExpiry(Log())
    assert [expiry.turn(bench.context), expiry.turn(bench.context), len(looked)] == [0, 0, 1]
    bench.workspace.inbox.rename(bench.workspace.root / "away")
    assert expiry.turn(bench.context) == 0, "a folder that cannot be read stops nothing"


def card(context: Context, draft: Draft) -> list[str]:
    with open_reviewed_draft(context, draft) as reviewed:
        items = review_sections(reviewed, context.policy.settings, operator="alice")[0].items
    return [item.value for item in items if isinstance(item, Fact) and item.label == "undecided"]


def test_the_card_says_until_when(bench: Bench) -> None:
    draft = read_draft(bench.workspace, bench.draft())
    expires = draft.expires_utc(WEEK)
    assert abs((expires - timedelta(seconds=WEEK)).timestamp() - time.time()) < 60
    assert card(bench.context, draft) == [f"refused at {expires:%Y-%m-%dT%H:%M:%SZ}, if nobody decides before"]
    bench.settings(approval__draft_ttl=0)
    assert card(bench.context, draft) == []


def test_the_setting(bench: Bench) -> None:
    for text, seconds in (('"never"', 0), ("0", 0), ('"12h"', 12 * 3600), ("90", 90)):
        settings = parse_settings(f"[approval]\ndraft_ttl = {text}\n".encode())
        assert settings.approval.draft_ttl == seconds
        assert settings.deciding() == parse_settings(b"").deciding(), "an approval does not hang on it"
    for text in ("false", '"soon"', "-1"):
        with pytest.raises(InvalidInput):
            parse_settings(f"[approval]\ndraft_ttl = {text}\n".encode())
