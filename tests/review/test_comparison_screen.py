"""The screen of two requests beside each other: the lines, numbers and marks of every diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from threegate.approval.shown.escaped_lines import Cut, FoldRow
from threegate.review.compare import Comparison, RequestDifference
from threegate.review.screen import render_comparison

END = "  > the file ends here, without a line end"


def lines_of(before: str, after: str, **options: bool) -> list[str]:
    """The screen of one difference, without the names of the requests."""
    found = Comparison(Path("a/b"), Path("a/c"), (RequestDifference("code", before, after),))
    return render_comparison(found, **options)[3:]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("x", "y", ["  code        | +1 -1 lines", "  1   - | x", "    1 + | y"]),
        ("x\n", "y\n", ["  code        | +1 -1 lines", "  1   - | x", "    1 + | y"]),
        ("", "y", ["  code        | +1 -0 lines", "    1 + | y"]),
        ("x", "", ["  code        | +0 -1 lines", "  1   - | x"]),
        ("x\n", "x", ["  code        | +1 -1 lines", "  1   - | x", "    1 + | x", END]),
        ("\tx", "+x", ["  code        | +1 -1 lines", "  1   - | \u2192   x", "    1 + | +x"]),
        ("1", "1", ["  code        | the same text, of another type"]),
        ("a\x1b[2K", "b\ud800", ["  code        | +1 -1 lines", "  1   - | a\\x1b[2K", "    1 + | b\\ud800"]),
    ],
)
def test_a_difference(before: str, after: str, shown: list[str]) -> None:
    assert lines_of(before, after) == shown


def test_equal_lines_fold_and_a_long_difference_is_cut_unless_all_is_asked_for() -> None:
    old = [f"line {number}" for number in range(400)]
    new = [line if 20 <= number < 380 else f"other {number}" for number, line in enumerate(old)]
    lines = lines_of("\n".join(old), "\n".join(new))
    assert [line for line in lines if isinstance(line, FoldRow)] == ["  > 354 equal lines"]
    everything = [f"n{number}" for number in range(400)]
    cut = lines_of("\n".join(old), "\n".join(everything))
    assert isinstance(cut[-1], Cut) and cut[-1].left == 600 and len(cut) == 202
    assert len(lines_of("\n".join(old), "\n".join(everything), full=True)) == 801
