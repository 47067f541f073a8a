"""How long a change of many files is on the screen: presses of space until every changed line and the card were there,
beside the lines that `git diff` prints and the presses that `less` needs for these.

    python -m bench.reading [--files 1 10 100]

Runs as root (the project belongs to another account) or as the account that owns the temporary folder.
"""

from __future__ import annotations

import argparse
import textwrap

from tests.plugins.changes.branches import Branching
from tests.plugins.tui.changes_to_read import EDITS, SCATTERED, ManyFiles, read_whole

SIZES = ((200, 50), (120, 40), (80, 24))
"""Columns and rows."""


def git_diff(here: Branching, change: ManyFiles) -> list[str]:
    """What git prints of the change, made in the project itself."""
    change.edit(here.project)
    lines = here.git("diff").splitlines()
    here.git("checkout", "-q", ".")
    return lines


def less_presses(lines: list[str], columns: int, rows: int) -> int:
    """Presses of space: `less` keeps one row for its prompt and wraps what is too long."""
    drawn = sum(len(textwrap.wrap(line, columns, drop_whitespace=False)) or 1 for line in lines)
    return max(0, -(-drawn // (rows - 1)) - 1)


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
                        f" {len(plain):10} {less_presses(plain, columns, rows):5}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
