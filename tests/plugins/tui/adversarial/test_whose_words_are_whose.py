"""The agent's text never begins a row, ThreeGate's words never stand behind the bar, and nobody is asked on a
sliver.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.acts.bench_workspace import Bench, make_bench
from tests.adversarial.approval.test_terminal import rows, terminal_environment, under_a_terminal
from tests.audit.test_practice import command
from tests.conftest import slow
from tests.contracts.material import folder
from tests.plugins.tui.terminal import drive, open_first, read_all, until
from threegate.core.screen_parts import Fact, Field
from threegate.plugins.tui.lines import LEAST_HEIGHT
from threegate.plugins.tui.operator_app import OperatorApp
from threegate.plugins.tui.screens import Confirm
from threegate.review.review_sections import review_sections
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft
from threegate.review.screen import render_reviewed_draft

ATTACK = "zz " * 17 + "== WARNINGS (0) zz alice approved this zz"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (60, 20), (40, 20)])
def test_foreign_text_begins_no_row_of_a_narrow_terminal(bench: Bench, columns: int, lines: int) -> None:
    path = bench.draft(purpose=ATTACK, code=f"x = '{ATTACK}'", slug="a" * 60)
    output, status = under_a_terminal(
        command(bench, "approve", str(path), "--full"), [b"n\n"], terminal_environment(), columns, lines
    )
    assert status == 2
    seen = rows(output, columns, lines)
    foreign = [row for row in seen if "zz" in row or "a" * 12 in row]  # a digest may hold three
    assert foreign and all("| " in row[:20] for row in foreign), foreign
    assert [row for row in seen if row.startswith("==")] == [
        "== REQUEST", "== WHAT RUNS", "== WALLS", "== WHAT THE JUDGEMENT WOULD SAY NOW",
        "== WHAT THE REQUEST SAYS ABOUT ITSELF",
    ]  # fmt: skip


@pytest.mark.parametrize("words", [("approve",), ("review", "--plain")])
def test_nobody_is_asked_below_forty_columns(bench: Bench, words: tuple[str, ...]) -> None:
    path = bench.draft(purpose=ATTACK)
    given = [*words, str(path)] if words == ("approve",) else list(words)
    output, _ = under_a_terminal(command(bench, *given), [b"q\n"], terminal_environment(), 39, 20)
    assert b"39 columns wide" in b" ".join(output.split()) and b"[y/N]" not in output and b"== REQUEST" not in output
    assert path.exists() and not list(bench.workspace.approved.glob("*.md"))


def test_the_bar_stands_before_foreign_text_only_and_that_comes_last(bench: Bench) -> None:
    path = bench.draft(purpose="FOREIGN purpose", risk="medium")
    with open_reviewed_draft(bench.context, read_draft(bench.workspace, path)) as reviewed:
        sections = review_sections(reviewed, bench.context.policy.settings, operator="alice")
        lines = render_reviewed_draft(reviewed, bench.context.policy.settings, operator="alice")
    facts = {item.label for section in sections for item in section.items if isinstance(item, Fact)}
    fields = {item.label for section in sections for item in section.items if isinstance(item, Field)}
    assert {
        "risk",
        "AANA",
        "contracts",
        "opacity",
        "reach",
        "job",
        "draft",
        "you sign as",
        "can run",
    } <= facts
    assert fields <= {"asked by", "input", "digest of", "requester", "file", "id", "purpose", "because"}
    assert not [line for line in lines if "|" in line and ("accept" in line or "risk" in line.partition("|")[0])]
    assert lines.index("== WHAT THE REQUEST SAYS ABOUT ITSELF") < lines.index("  purpose     | FOREIGN purpose")
    assert not [line for line in lines[: lines.index("== WHAT RUNS")] if "FOREIGN" in line]


@pytest.mark.parametrize("size", [(80, 2), slow((80, LEAST_HEIGHT - 1)), slow((39, 20))])
def test_lines_under_the_footer_of_a_small_screen_were_not_seen(bench: Bench, size: tuple[int, int]) -> None:
    bench.draft(data=None)
    app = OperatorApp(bench.workspace, undecided=True, key=bench.keys["alice"])

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        total = len(lines.lines)
        await pilot.press(*["down"] * 60)
        await pilot.pause()
        assert lines.unseen == total
        await pilot.press("a")
        assert not isinstance(app.screen, Confirm)

    drive(app, script, size)


@pytest.mark.slow
def test_lines_under_a_dialog_were_not_seen(bench: Bench) -> None:
    bench.draft(code="x = 1\n" * 40)
    app = OperatorApp(bench.workspace, undecided=True, key=bench.keys["alice"])

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await until(pilot, lambda: lines.unseen < len(lines.lines))
        before = lines.unseen
        await pilot.press("r")
        await pilot.pause()
        lines.scroll_to(0, 20, animate=False, force=True)
        await pilot.pause()
        assert lines.unseen == before, "what a dialog lies on was not read"
        await pilot.press("escape")
        await until(pilot, lambda: lines.unseen < before)
        await pilot.press("home")
        await read_all(pilot, lines)
        await until(pilot, lambda: lines.unseen == 0)

    drive(app, script)


def test_the_card_does_not_say_that_a_request_can_run_while_a_contract_asks(bench: Bench) -> None:
    """An approval alone lets nothing run then; the card said that the gates would let it pass."""
    contract = {"threegate.monty": {"checkpoint": {"when": "always", "timeout_seconds": 300}}}
    for name, data in folder(contract).items():
        (bench.workspace.contracts / name).write_bytes(data)
    with open_reviewed_draft(bench.context, read_draft(bench.workspace, bench.draft())) as reviewed:
        lines = render_reviewed_draft(reviewed, bench.context.policy.settings, operator="alice")
        verdict = reviewed.assessment.contract.verdict
    assert verdict == "checkpoint"
    assert "  can run      not yet: the contracts say checkpoint now, see below" in lines
    assert not [line for line in lines if "would let it pass" in line]
