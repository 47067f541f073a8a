"""A size of the terminal that is only claimed: what lies beyond the screen's edge would count as seen."""

from __future__ import annotations

from pathlib import Path

from tests.acts.bench_workspace import make_bench
from tests.plugins.tui.test_real_terminal import Terminal


def test_the_terminal_has_its_own_size_whatever_the_environment_says(tmp_path: Path) -> None:
    """Shells export COLUMNS and LINES now and then, and keep the old ones."""
    bench = make_bench(tmp_path)
    bench.draft(data=None, purpose="a word of it " * 30)
    key = str(bench.keys["alice"])
    terminal = Terminal(bench, "review", "--key", key, COLUMNS="200", LINES="90")
    terminal.wait("UNDECIDED: 1")
    terminal.wait("? Help")  # the last row is on the screen
    terminal.type("\r")
    terminal.wait("not seen yet")
    assert "\n== REQUEST" in terminal.text(), "there is no room for a list beside it"
    terminal.type("q")
    assert terminal.end() == 0
