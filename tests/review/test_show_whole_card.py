"""`threegate show ID` has the whole card of a request until it has run or is refused; after that, how to get it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench, once
from tests.support import monty_draft
from threegate import cli
from threegate.acts.reject import reject_draft
from threegate.acts.signed_acts import OperatorDecision
from threegate.core.errors import InvalidInput

CARD = ("== REQUEST", "== WHAT RUNS", "== WALLS", "== WHAT THE REQUEST SAYS ABOUT ITSELF")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def shown(bench: Bench, capsys: pytest.CaptureFixture[str], which: str = "req-1") -> str:
    capsys.readouterr()
    assert cli.execute(["-w", str(bench.workspace.root), "show", which]) == 0
    return capsys.readouterr().out


def has_card(said: str, code: str = "print(sum(int(x)") -> bool:
    return all(f"\n{title}\n" in said for title in CARD) and f"  1 | {code}" in said


def test_each_state_before_the_end_has_the_whole_card(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.settings(approval__quorum__low=2)
    bench.operator("bob")
    path = bench.draft()
    assert has_card(shown(bench, capsys))
    bench.approve(path)
    waiting = shown(bench, capsys)
    assert has_card(waiting) and "quorum_missing" in waiting, "waiting for a quorum"
    bench.settings(approval__quorum__low=1)
    assert has_card(shown(bench, capsys)), "waiting for a daemon"


def test_a_member_of_a_group_and_an_agents_draft_have_it_too(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(2):
        text = monty_draft(f"m-{number}", "print(n)", variables=json.dumps({"n": number}))
        (bench.workspace.inbox / f"TR-2026112{number}-000000Z-month-{number}.md").write_text(text)
    assert all(has_card(shown(bench, capsys, f"month-{number}"), "print(n)") for number in range(2))


def test_after_the_end_it_is_short_and_names_the_way(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    by = OperatorDecision("account:x")
    reject_draft(bench.context, bench.draft("req-2", slug="no", data=None), reason="no", by=by)
    assert "== REQUEST" not in shown(bench, capsys, "req-2") and "--as-approved" not in shown(bench, capsys, "req-2")
    bench.approve(bench.draft())
    once(bench)
    said = shown(bench, capsys)
    assert "== REQUEST" not in said
    way = re.search(r"^card +threegate (--workspace \S+ )?show req-1 --as-approved$", said, re.MULTILINE)
    assert way is not None, said
    capsys.readouterr()
    assert cli.execute(["-w", str(bench.workspace.root), "show", "req-1", "--as-approved"]) == 0
    assert "print(sum(int(x)" in capsys.readouterr().out


def test_what_cannot_be_read_costs_the_card_alone(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def moved(*_: object) -> None:
        raise InvalidInput("it moved")

    bench.draft()
    monkeypatch.setattr("threegate.review.request_view.view_request", moved)
    capsys.readouterr()
    assert cli.execute(["-w", str(bench.workspace.root), "show", "req-1"]) == 0
    said = capsys.readouterr()
    assert "purpose   Sum a column." in said.out and "the card of req-1 cannot be shown: it moved" in said.err


def test_a_draft_is_told_that_no_daemon_runs(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    code = bench.workspace.root / "code.py"
    code.write_text("print(1)\n")
    words = ["-w", str(bench.workspace.root), "draft", "--backend", "monty", "--purpose", "Print."]
    words += ["--code", str(code)]
    capsys.readouterr()
    assert cli.execute(words) == 0
    assert "daemon not running, so nothing is started: threegate run" in capsys.readouterr().err
    with bench.workspace.daemon_lock():
        assert cli.execute([*words, "--slug", "other"]) == 0
        assert "daemon" not in capsys.readouterr().err
