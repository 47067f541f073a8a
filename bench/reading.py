"""How long a change of many files is on the screen: presses of space until every changed line and the card were there,
beside those that `git diff | less` needs on a terminal of the same size for the lines of the diff alone.

    python -m bench.reading [--files 1 10 100]

Both are the real programs on a screen. Runs as root (the project belongs to another account) or as the account that
owns the temporary folder; needs `less`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import tempfile
from pathlib import Path

from tests.plugins.changes.branches import Branching
from tests.plugins.tui.changes_to_read import EDITS, SCATTERED, ManyFiles, read_whole
from tests.plugins.tui.pseudo_terminal import PseudoTerminal

SIZES = ((200, 50), (120, 40), (80, 24))
"""Columns and rows."""


def git_diff(here: Branching, change: ManyFiles) -> str:
    """What git prints of the change, made in the project itself."""
    change.edit(here.project)
    text = here.git("diff")
    here.git("checkout", "-q", ".")
    return text


def less_presses(text: str, size: tuple[int, int]) -> int:
    """Presses of space until `less`, as it is without options, is at the end of this text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "diff")
        path.write_text(text)
        words = ["sh", "-c", f"cat {shlex.quote(str(path))} | less"]
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8", "LESSHISTFILE": "-"}
        terminal = PseudoTerminal(words, size, environment)
        before = ""

        def page() -> bool:
            return terminal.text() != before and terminal.screen.display[-1].rstrip() in (":", "(END)")

        presses = 0
        terminal.wait_until(page, "the first page")
        while terminal.screen.display[-1].rstrip() != "(END)":
            before = terminal.text()
            terminal.type(" ")
            presses += 1
            terminal.wait_until(page, "the next page")
        terminal.type("q")
        terminal.end()
        return presses


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1, 10, 100])
    files = parser.parse_args().files
    print("files  edits      changed    size     rows  space   git diff  less")
    for count in files:
        for kind, edits in (("together", EDITS), ("scattered", SCATTERED)):
            change = ManyFiles(count, edits)
            with change.drafted() as here:
                plain = git_diff(here, change)
                for columns, rows in SIZES:
                    read = read_whole(here, (columns, rows))
                    print(
                        f"{count:5}  {kind:9}  {change.changed:9}  {columns:3}x{rows}  {read.rows:6} {read.presses:6}"
                        f" {plain.count(chr(10)):10} {less_presses(plain, (columns, rows)):5}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
