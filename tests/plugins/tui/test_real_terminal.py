"""The applications under a pseudo-terminal, with a key whose passphrase is asked for there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.adversarial.approval.test_terminal import terminal_environment
from tests.conftest import slow
from tests.plugins.tui.pseudo_terminal import PseudoTerminal
from threegate.review.countersign import verify_approval


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


class Terminal(PseudoTerminal):
    """A command of ThreeGate on a terminal."""

    def __init__(self, bench: Bench, *arguments: str, size: tuple[int, int] = (80, 24), **environment: str) -> None:
        words = [sys.executable, "-m", "threegate", "-w", str(bench.workspace.root), *arguments]
        super().__init__(words, size, terminal_environment(**environment))


@pytest.mark.slow
def test_the_passphrase_is_asked_for_once(bench: Bench) -> None:
    key = bench.keys["alice"]
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", str(key)], check=True)
    bench.draft()
    bench.draft("req-2", slug="two", code="print(2)")
    terminal = Terminal(bench, "review", "--key", str(key))
    terminal.wait("UNDECIDED: 2")

    def approve() -> None:
        terminal.type("\r")
        terminal.wait("not seen yet")
        terminal.press_until("all seen", " ")
        again()

    def again() -> None:
        terminal.press_until("[y/n]", "a")
        terminal.type("y")

    approve()
    terminal.wait("Enter passphrase")
    terminal.type("\n")
    terminal.wait("was not unlocked")
    again()
    terminal.wait("Enter passphrase")
    terminal.type("wrong\n")
    terminal.wait("Bad passphrase")
    terminal.type("open sesame\n")
    terminal.wait("approved TR-")  # and the next one opens by itself
    terminal.wait("not seen yet")
    terminal.press_until("all seen", " ")
    again()
    terminal.wait("UNDECIDED: 0")
    terminal.type("q")
    assert terminal.end() == 0
    assert terminal.wrote.count(b"Enter passphrase") == 2
    assert "2 approved, 0 rejected, 0 left" in terminal.text() and "approval " in terminal.text()
    for approved in bench.workspace.approved.glob("*.md"):
        assert all(check.ok for check in verify_approval(bench.context, approved))


def test_watching_ends_with_a_key_and_leaves_the_terminal_as_it_was(bench: Bench) -> None:
    bench.draft(data=None)
    terminal = Terminal(bench, "status", "--watch")
    terminal.wait("REQUESTS: 1")
    terminal.type("q")
    assert terminal.end() == 0
    assert terminal.wrote.rstrip().rfind(b"\x1b[?1049l") > terminal.wrote.rfind(b"\x1b[?1049h")


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), slow((60, 20)), slow((200, 50))])
def test_list_and_request_at_every_size(bench: Bench, size: tuple[int, int]) -> None:
    """What the agent wrote is behind the gutter in every row; the list stays beside the request where there is room."""
    purpose = "Needs you (7) approved by alice, risk low -> daemon " * 4
    bench.draft(data=None, purpose=purpose, risk="medium")
    terminal = Terminal(bench, "status", "--watch", size=size)
    terminal.wait("REQUESTS: 1")
    terminal.wait("risk medium, monty, reaches nothing")
    terminal.wait("-> operator: threegate approve")
    for row in terminal.text().splitlines():
        assert "approved by alice" not in row.partition("| ")[0]
    terminal.type("\r")
    terminal.wait("DRAFT, short: lines 1-")
    terminal.wait("== REQUEST")
    listed = [row.find("| core: Needs you") for row in terminal.text().splitlines()]
    assert (max(listed) == 10) is (size[0] >= 120)
    assert "? Help" in terminal.text()
    terminal.type("x")  # a draft is not cancelled: nothing asks
    terminal.type("?")
    terminal.wait("== KEYS")
    terminal.type("q")
    assert terminal.end() == 0


def test_a_dumb_terminal_gets_lines(bench: Bench) -> None:
    bench.draft(data=None)
    terminal = Terminal(bench, "review", "--key", str(bench.keys["alice"]), TERM="dumb")
    terminal.wait("[q]uit >")
    terminal.type("q\n")
    assert terminal.end() == 0 and b"\x1b[?1049h" not in terminal.wrote


@pytest.mark.slow
def test_without_colours_a_draft_is_shown_all_the_same(bench: Bench) -> None:
    bench.draft(data=None)
    terminal = Terminal(bench, "review", "--key", str(bench.keys["alice"]), NO_COLOR="1")
    terminal.wait("UNDECIDED: 1")
    terminal.type("\r")
    terminal.wait("== WHAT RUNS")
    terminal.type("q")
    assert terminal.end() == 0


@pytest.mark.slow
def test_a_mistake_of_ours_is_one_line_without_values(bench: Bench) -> None:
    """Textual prints all variables of each frame, requests and settings among them."""
    bench.draft(data=None, code="print('words of the request')")
    broken = "import threegate.plugins.tui.lines as lines; lines.segments_of = lambda line, **how: 1 / 0"
    (bench.workspace.root / "sitecustomize.py").write_text(broken)
    terminal = Terminal(bench, "review", "--key", str(bench.keys["alice"]), PYTHONPATH=str(bench.workspace.root))
    terminal.wait("UNDECIDED: 1")
    terminal.type("\r")
    assert terminal.end() not in (0, None)
    said = terminal.text()
    # Where the cursor was in the middle of drawing, the screen has it in two rows.
    assert b"internal error: ZeroDivisionError at" in terminal.wrote and b"please report" in terminal.wrote
    assert "Traceback" not in said and b"words of the request" not in terminal.wrote
