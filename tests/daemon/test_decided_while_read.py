"""A draft that is decided between the daemon's reading it and recording what it found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from threegate.acts.reject import reject_draft
from threegate.acts.signed_acts import OperatorDecision
from threegate.daemon import drafts
from threegate.daemon.drafts import Inbox
from threegate.daemon.log import Log


def _approve(bench: Bench, draft: Path) -> None:
    bench.approve(draft)


def _reject(bench: Bench, draft: Path) -> None:
    reject_draft(bench.context, draft, reason="no", by=OperatorDecision("operator"))


@pytest.mark.parametrize(("decide", "state"), [(_approve, "approved"), (_reject, "refused")])
def test_its_status_stays_what_the_decision_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decide: Callable[[Bench, Path], None], state: str
) -> None:
    """Not `invalid: the id was used before`, by which an agent would take it for refused while it runs."""
    bench = make_bench(tmp_path)
    draft = bench.draft()
    real = drafts.propose_fixes

    def meanwhile(data: bytes, *words: object, **more: object) -> object:
        monkeypatch.setattr(drafts, "propose_fixes", real)
        decide(bench, draft)
        return real(data, *words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(drafts, "propose_fixes", meanwhile)
    inbox = Inbox(bench.workspace, bench.context.trail, Log(quiet=True))
    try:
        while inbox.scan(bench.context.policy) or inbox.unfinished:
            pass
        verdict = bench.workspace.verdicts / f"{draft.name}.json"
        assert json.loads(verdict.read_text())["state"] == state
    finally:
        inbox.close()
