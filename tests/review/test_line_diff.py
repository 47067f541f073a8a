"""The diff turns one text into the other, is as small as it can be, and never much longer than git's."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import few
from threegate.core import limits
from threegate.core.file_diff import Piece, TextChange
from threegate.review import line_diff
from threegate.review.line_diff import differing

LINES = st.lists(st.sampled_from("abcd"), max_size=30)


def turned(old: Sequence[str], new: Sequence[str]) -> tuple[list[str], int]:
    """The old text with the pieces of the new one in it, and how many lines were removed and added."""
    made: list[str] = []
    at = size = 0
    for piece in differing(old, new):
        assert piece.old_start > at or not made, "two pieces with nothing between them are one"
        made += old[at : piece.old_start]
        assert len(made) == piece.new_start
        made += new[piece.new_start : piece.new_end]
        at = piece.old_end
        size += piece.old_end - piece.old_start + piece.new_end - piece.new_start
    return [*made, *old[at:]], size


def on_screen(old: Sequence[str], new: Sequence[str]) -> int:
    """The rows of the diff on a screen."""
    return len(list(TextChange(tuple(old), tuple(new), tuple(differing(old, new))).rows()))


def least(old: Sequence[str], new: Sequence[str]) -> int:
    """The fewest lines that have to be removed and added, by the book."""
    row = list(range(len(new) + 1))
    for number, line in enumerate(old, 1):
        before, row = row, [number]
        for column, other in enumerate(new, 1):
            row.append(before[column - 1] if line == other else 1 + min(before[column], row[-1]))
    return row[-1]


def of_git(folder: Path, old: Sequence[str], new: Sequence[str]) -> int:
    """The lines of git's own diff, from its first hunk on."""
    names = []
    for name, lines in (("old", old), ("new", new)):
        names.append(folder / name)
        names[-1].write_text("".join(f"{line}\n" for line in lines), newline="")
    command = ["git", "diff", "--histogram", "--no-index", "--text", *map(str, names)]
    done = subprocess.run(command, cwd=folder, env={"PATH": "/usr/bin:/bin", "HOME": str(folder)}, capture_output=True)
    return done.stdout.count(b"\n") - done.stdout.partition(b"\n@@")[0].count(b"\n") - 1 if done.stdout else 0


@given(LINES, LINES)
def test_it_turns_one_into_the_other_with_the_fewest_lines(old: list[str], new: list[str]) -> None:
    made, size = turned(old, new)
    assert made == new
    numbers = {line: number for number, line in enumerate("abcd")}
    pairs = list(line_diff._step_by_step([numbers[line] for line in old], [numbers[line] for line in new]))
    assert len(old) + len(new) - 2 * len(pairs) == least(old, new)
    assert least(old, new) <= size <= on_screen(old, new)
    if len(old) <= 7:  # all of it is on the screen, so that only the lines that differ count
        assert size == least(old, new)


@given(LINES, LINES, st.integers(1, 40))
def test_whatever_the_bounds_are_it_turns_one_into_the_other(old: list[str], new: list[str], cells: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "DIFF_CELLS", cells)
        patch.setattr(limits, "DIFF_DEPTH", cells % 3)
        assert turned(old, new)[0] == new


def test_equal_lines_gather_what_differs() -> None:
    """Of all smallest diffs the one with the fewest pieces: three equal lines that are gone are gone in one place."""
    assert differing(["a"] * 40, ["a"] * 37) == [Piece(37, 40, 37, 37)]
    old = "f {|a|}||g {|b|}||h {|c|}".split("|")
    new = "f {|a|}||n {|x|}||g {|b|}||h {|c|}".split("|")
    assert differing(old, new) == [Piece(4, 4, 4, 8)]


def test_at_the_ends() -> None:
    assert differing([], []) == differing(["a"], ["a"]) == []
    assert differing([], ["a"]) == [Piece(0, 0, 0, 1)]
    assert differing(["a"], []) == [Piece(0, 1, 0, 0)]
    assert differing(["a", "b"], ["c", "b"]) == [Piece(0, 1, 0, 1)]


def _rows(count: int) -> list[str]:
    return [json.dumps({"id": number, "name": f"n{number % 7}"}) for number in range(count)]


def _two(lines: list[str], _: random.Random) -> None:
    lines[10] += "x"
    lines[-10] += "x"


def _moved(lines: list[str], chance: random.Random) -> None:
    for _ in range(3):
        start, size = chance.randrange(len(lines)), len(lines) // 5
        block = lines[start : start + size]
        del lines[start : start + size]
        at = chance.randrange(len(lines))
        lines[at:at] = block


def _blocks(lines: list[str], chance: random.Random) -> None:
    size = len(lines) // 12
    blocks = [lines[start : start + size] for start in range(0, len(lines), size)]
    chance.shuffle(blocks)
    lines[:] = [line for block in blocks for line in block]


def _everywhere(lines: list[str], chance: random.Random) -> None:
    for _ in range(len(lines) // 20):
        lines[chance.randrange(len(lines))] += "x"
        del lines[chance.randrange(len(lines))]
        lines.insert(chance.randrange(len(lines)), chance.choice(["", "}", "x"]))


def _sorted(lines: list[str], _: random.Random) -> None:
    lines.sort()


EDITS = (_two, _moved, _blocks, _everywhere, _sorted)
TEXTS = {
    "code": lambda: Path(json.__file__).with_name("decoder.py").read_text().split("\n"),
    "rows": lambda: _rows(8_000),
    "few lines": lambda: [random.Random(number // 3).choice("{}ab") for number in range(8_000)],
    "period": lambda: list("abcdefghij") * 800,
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("text", few(TEXTS, 2))
def test_never_more_than_a_fifth_longer_than_gits(
    text: str, edit: Callable[[list[str], random.Random], None], tmp_path: Path
) -> None:
    old = TEXTS[text]()
    new = list(old)
    edit(new, random.Random(4))
    assert turned(old, new)[0] == new
    assert on_screen(old, new) <= 1.2 * of_git(tmp_path, old, new)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_real_files_edited_in_many_ways(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    files = sorted(path for path in Path(json.__file__).parents[1].glob("**/*.py") if path.stat().st_size > 40_000)
    old = chance.choice(files).read_text("utf-8", "replace").split("\n")
    for edit in EDITS:
        new = list(old)
        edit(new, chance)
        assert on_screen(old, new) <= 1.2 * of_git(tmp_path, old, new), (seed, edit)


def test_texts_that_only_look_alike_by_chance(tmp_path: Path) -> None:
    """Long equal runs of two random texts of two lines are no anchors: they would keep a third of what can be kept."""
    chance = random.Random(1)
    old, new = ([chance.choice("ab") for _ in range(9_000)] for _ in range(2))
    made, size = turned(old, new)
    assert made == new and size < len(old)
    assert on_screen(old, new) <= 1.2 * of_git(tmp_path, old, new)


def test_a_large_region_without_anchors_is_compared_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_diff, "_anchors", lambda *_: [])
    monkeypatch.setattr(limits, "DIFF_CELLS", 1 << 12)
    old = [str(number % 9) for number in range(2_000)]
    new = list(old)
    for place in (1_900, 1_500, 700, 300, 20):
        del new[place]
    made, size = turned(old, new)
    assert made == new and size == 5
    few = ["1", "2", "1", "x"] * 3
    made, size = turned(few, old)
    assert made == old and size < len(old)


def test_what_matches_is_at_least_what_difflib_finds() -> None:
    old = TEXTS["code"]()
    new = list(old)
    _everywhere(new, random.Random(2))
    kept = sum(block.size for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks())
    assert turned(old, new)[1] <= len(old) + len(new) - 2 * kept
