"""A change of files in the application: how many presses it takes, the tree, jumps, search, and what is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.text import Text
from textual.pilot import Pilot
from textual.widgets import Static

from tests.conftest import slow, soak
from tests.plugins.changes.branches import Branching, branching
from tests.plugins.tui.changes_to_read import SCATTERED, ManyFiles, app_of, read_whole, space_to_the_end
from tests.plugins.tui.terminal import drive, open_first, rows, until
from threegate.approval.shown.escaped_lines import DiffRow, FoldRow, render_sections
from threegate.core.file_diff import Mark, Piece, TextChange
from threegate.core.screen_parts import FileDiff, Section
from threegate.plugins.tui.file_tree import tree_rows
from threegate.plugins.tui.lines import Lines, segments_of
from threegate.plugins.tui.operator_app import OperatorApp
from threegate.plugins.tui.request_rows import FilePlace, Key, Progress, RequestRows, request_rows
from threegate.plugins.tui.screens import Confirm, TextScreen
from threegate.plugins.tui.side_by_side import PairRow
from threegate.plugins.tui.typed_ahead import TypedAhead

TEN = ManyFiles(10)


@pytest.fixture(scope="module")
def ten() -> Iterator[Branching]:
    """Ten files, +260 and -252 lines."""
    with TEN.drafted() as here:
        yield here


def said(app: OperatorApp) -> str:
    content = app.screen.query_one("#say", Static).content
    return content.plain if isinstance(content, Text) else str(content)


def bar(app: OperatorApp) -> str:
    content = app.screen.query_one("#place", Static).content
    return content.plain if isinstance(content, Text) else str(content)


@pytest.mark.parametrize(
    ("size", "most"), [((200, 50), 12), slow((120, 40), 20), ((80, 24), 30)], ids=["200x50", "120x40", "80x24"]
)
def test_ten_files_are_read_whole_in_few_presses(ten: Branching, size: tuple[int, int], most: int) -> None:
    """`python -m bench.reading` prints the figures, also for other changes."""
    assert TEN.changed == "+260/-252"
    read = read_whole(ten, size)
    assert 0 < read.presses <= most
    assert read.shown == set(TEN.differing(ten.project))


@pytest.mark.slow
@pytest.mark.parametrize(("size", "most"), [soak((200, 50), 12), soak((120, 40), 20), ((80, 24), 30)])
def test_as_many_edits_far_from_each_other(size: tuple[int, int], most: int) -> None:
    change = ManyFiles(10, SCATTERED)
    with change.drafted() as here:
        read = read_whole(here, size)
        assert 0 < read.presses <= most
        assert read.shown == set(change.differing(here.project))


def test_jumps_go_by_file_and_mark_nothing_that_was_not_painted(ten: Branching) -> None:
    app = app_of(ten)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await until(pilot, lambda: "10 FILES +260 -252" in bar(app))
        assert not any("|   part_" in row for row in rows(app)), "no tree on 80 columns"
        painted: set[int] = set(range(lines.size.height))
        for number in range(1, 11):
            await pilot.press("n")
            await until(pilot, lambda: f"file {number} of 10 | " in bar(app))  # noqa: B023 - waited for here
            painted |= set(range(lines.scroll_offset.y, lines.scroll_offset.y + lines.size.height))
            await until(pilot, lambda: lines.unseen <= len(lines.lines) - len(painted))
        assert lines.unseen >= len(lines.lines) - len(painted) - sum(isinstance(line, FoldRow) for line in lines.lines)
        await pilot.press("n")
        await until(pilot, lambda: said(app) == "there is no file below")
        await pilot.press("p")
        await until(pilot, lambda: "file 9 of 10" in bar(app))
        await pilot.press("a")
        assert "have not been on the screen" in said(app) and not isinstance(app.screen, Confirm)
        before = lines.unseen
        await pilot.press("space")
        await until(pilot, lambda: lines.unseen < before)
        assert "file 1 of 10" not in bar(app), "it goes on from where one is"
        await pilot.press("t")
        await until(pilot, lambda: isinstance(app.screen, TextScreen) and "part_9.md" in "\n".join(rows(app)))
        shown = rows(app)
        assert shown[1].startswith("10 FILES +260 -252; * read") and any("~+26 -25 |" in row for row in shown)
        await pilot.press("escape")

    drive(app, script)
    app.held.close()


def test_the_tree_is_beside_the_lines_from_100_columns_on(ten: Branching) -> None:
    app = app_of(ten)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await until(pilot, lambda: any("|   part_1.py" in row for row in rows(app)))
        text = [row.partition("▕")[0].rstrip() for row in rows(app)]
        assert text[1].strip() == "10 FILES +260 -252" and "  +52 -50 | src/store/i..." in text
        assert "  +26 -25 |   part_6.py" in text
        await pilot.press("n")
        first = next(row for row in range(len(lines.lines)) if lines.lines[row].startswith("  MODIFIED"))
        await until(pilot, lambda: lines.at == first)
        end = lines.unseen
        while not any(row.startswith(" *+26 -25 |   part_") for row in rows(app)):
            await pilot.press("space")
            await until(pilot, lambda: lines.unseen < end)  # noqa: B023 - waited for here
            end = lines.unseen
            await pilot.pause()
        assert not any(isinstance(line, PairRow) for line in lines.lines), "not wide enough for two in a row"
        await pilot.click("#tree", offset=(15, 2))
        await until(pilot, lambda: "file 2 of 10" in bar(app))

    drive(app, script, (100, 40))
    app.held.close()


def test_search_goes_from_hit_to_hit(ten: Branching) -> None:
    """Also where the words are in two rows, and in any case; what is folded can be shown."""
    app = app_of(ten)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await pilot.press("slash", *"NONE OF THOSE THAT WERE REMOVED: N", "enter")
        await until(pilot, lambda: said(app).startswith("1 of "))
        at = lines.at
        assert "none of those" in lines.lines[at] and lines.has_focus
        count = int(said(app).split()[2])
        await pilot.press("enter")
        await until(pilot, lambda: said(app).startswith(f"2 of {count} lines"))
        assert lines.at > at
        await pilot.press("slash", *"when_11", "enter")
        await until(pilot, lambda: "v unfolds equal lines" in said(app))
        await pilot.press("v")
        await until(pilot, lambda: not any(isinstance(line, FoldRow) for line in lines.lines))
        await pilot.press("enter")
        await until(pilot, lambda: "lines that have it" in said(app))
        assert "when_11" in lines.lines[lines.at]
        await pilot.press("slash", "x", "escape")
        assert lines.has_focus and app.screen.has_class("opened"), "Esc leaves the search, not the request"

    drive(app, script)
    app.held.close()


def test_v_unfolds_at_the_same_line_and_keeps_what_was_seen(ten: Branching) -> None:
    app = app_of(ten)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        for _ in range(6):
            left = lines.unseen
            await pilot.press("space")
            await until(pilot, lambda: lines.unseen < left)  # noqa: B023 - waited for here
        here = next(str(line) for line in lines.lines[lines.at :] if isinstance(line, DiffRow))
        left, folded = lines.unseen, len(lines.lines)
        await pilot.press("v")
        await until(pilot, lambda: len(lines.lines) > 10 * 300)
        page = [str(line) for line in lines.lines[lines.at : lines.at + lines.size.height]]
        assert any(line[5:] == here[5:] for line in page)
        assert lines.unseen <= left, "equal lines need not be read"
        await pilot.press("v")
        await until(pilot, lambda: len(lines.lines) == folded)

    drive(app, script)
    app.held.close()


def test_what_was_seen_is_kept_and_another_size_keeps_the_files(ten: Branching) -> None:
    """Esc loses nothing; other lines are read anew at another width, those of files are not."""
    app = app_of(ten)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await space_to_the_end(pilot, lines)
        await pilot.press("escape")
        lines = await open_first(pilot)
        assert lines.unseen == 0
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("n")
        await pilot.resize_terminal(70, 60)
        await until(pilot, lambda: 0 < lines.unseen < 150)
        await pilot.press("a")
        assert "have not been on the screen" in said(app)

    drive(app, script, (80, 60))
    app.held.close()


def _rows_of(*items: FileDiff, request: str = "1", width: int = 80, columns: int = 80) -> RequestRows:
    return request_rows(
        lambda files: render_sections([Section("WHAT RUNS", items)], width=width, files=files),
        request=request, width=width, columns=columns, height=24,
    )  # fmt: skip


def _change(path: str, new: str, before: str = "a") -> FileDiff:
    text = TextChange(("same", "x"), ("same", new), (Piece(1, 2, 1, 2),))
    return FileDiff("MODIFIED", path, text=text, before=before and f"100644 {before}", after=before and f"100644 {new}")


def test_only_the_very_same_change_of_a_file_counts_in_another_request() -> None:
    seen: set[Key] = set()
    first = _rows_of(_change("a.py", "y"), _change("b.py", "y"))
    progress = Progress(first, seen)
    for row in sorted(progress.unseen):
        progress.painted(row)
    assert Progress(first, seen).unseen == set() and not progress.unread[0]

    def left(rows: RequestRows) -> list[str]:
        return [str(rows.lines[row]) for row in sorted(Progress(rows, seen).unseen) if "| " in rows.lines[row]]

    again = (_change("a.py", "y"), _change("b.py", "z"))
    assert left(_rows_of(*again)) == ["  2 - | x", "  2 + | z"], "the heads were on the screen in this request"
    heads = [f"  MODIFIED    | {name}.py" for name in "ab"]
    assert left(_rows_of(*again, request="2")) == [*heads, "  2 - | x", "  2 + | z"]
    assert left(_rows_of(_change("a.py", "y"), columns=160)) == [], "side by side they are the same lines"
    assert left(_rows_of(_change("a.py", "y"), width=60, columns=60)) == [heads[0]]
    assert left(_rows_of(_change("c.py", "y"))) == ["  MODIFIED    | c.py", "  2 - | x", "  2 + | y"]
    nameless = _change("a.py", "y", before="")
    assert len(left(_rows_of(nameless))) == 2, "without digests nothing says that it is the same"


def test_a_line_of_several_rows_is_read_once_all_of_them_were_painted() -> None:
    seen: set[Key] = set()
    rows = _rows_of(_change("a.py", "w" * 100))
    progress = Progress(rows, seen)
    *others, last = sorted(progress.unseen)
    for row in others:
        progress.painted(row)
    wide = _rows_of(_change("a.py", "w" * 100), columns=140)
    assert any("w" * 100 in wide.lines[row] for row in Progress(wide, seen).unseen)
    progress.painted(last)
    assert not any("w" in wide.lines[row].partition("| ")[2] for row in Progress(wide, seen).unseen)


def test_what_terminals_draw_wider_has_a_row_of_its_own() -> None:
    """Otherwise it would move the right half, and its end out of the screen."""
    text = TextChange(("a\u00b7b", "c"), ("d", "e"), (Piece(0, 2, 0, 2),))
    pairs = [
        line for line in _rows_of(FileDiff("MODIFIED", "a", text=text), columns=160).lines if isinstance(line, PairRow)
    ]
    assert [(line.left is None, line.right is None) for line in pairs] == [(False, True), (True, False), (False, False)]
    assert {line.index("+ |") for line in pairs if line.right is not None} == {84}


def test_two_lines_that_replace_each_other_stand_in_the_same_rows() -> None:
    """Whatever rows each of them needs; our line about the end of the text stands below its half."""
    text = TextChange(("w" * 100, "x"), ("y", "z"), (Piece(0, 2, 0, 2),), old_ends=False)
    pairs = [
        line for line in _rows_of(FileDiff("MODIFIED", "a", text=text), columns=160).lines if isinstance(line, PairRow)
    ]
    found = [(str(line.left or "")[:11], str(line.right or "")[:9]) for line in pairs]
    assert found == [
        ("  1 - | www", "  1 + | y"),
        ("    - | www", ""),
        ("  2 - | x", "  2 + | z"),
        ("  > the fil", ""),
    ]


@pytest.mark.parametrize("columns", [70, 120, 180])
def test_colors_hide_and_dim_nothing_of_the_file(columns: int) -> None:
    """The segments of a row are the row; no part behind the gutter is dim, whatever was changed or marked."""
    text = TextChange(
        ("same", "def f(x): pass"), ("same", "def g(x): pass"), (Piece(1, 2, 1, 2),),
        old_changed={1: ((4, 5),)}, new_changed={1: ((4, 5),)},
    )  # fmt: skip
    item = FileDiff("MODIFIED", "a", text=text, marks=(Mark(2, "starts a process"),))
    rows = _rows_of(item, columns=columns)
    assert rows.marks
    for line in rows.lines:
        for here in (False, True):
            segments = segments_of(line, here=here)
            assert "".join(segment.text for segment in segments) == line
            assert all(not (segment.style and segment.style.dim) for segment in segments if "def" in segment.text)
    changed = [segment for line in rows.lines for segment in segments_of(line) if segment.text in ("f", "g")]
    assert len(changed) == 2 and all(segment.style and segment.style.underline for segment in changed)


def test_folders_are_rows_of_their_own_and_names_stay_behind_the_gutter() -> None:
    files = [_change(path, "y") for path in ("src/a/one.py", "src/a/two\n| x.py", "src/a/b/c/d.py", "top.py")]
    rows = tree_rows(
        [FilePlace(item, 0, 0) for item in files], Counter({0: 2, 1: 1}), Counter({0: 2, 1: 2, 2: 2, 3: 2})
    )
    assert [str(row) for row in rows] == [
        "  +3 -3 | src/a/",
        "  +1 -1 |   one.py",
        " ~+1 -1 |   two\\x0a| x.py",
        "  +1 -1 |   b/c/",
        " *+1 -1 |     d.py",
        " *+1 -1 | top.py",
    ]
    assert [row.number for row in rows] == [-1, 0, 1, -1, 2, 3]


def test_keys_typed_ahead_decide_nothing() -> None:
    """Until the lines are painted, and for a while after each key; a key that is held down never does."""
    ahead = TypedAhead()
    ahead.key(0.0)
    assert not ahead.waits
    ahead.opened(itself=True)
    ahead.key(5.0)
    assert ahead.waits and ahead.painted(10.0) and not ahead.painted(11.0)
    for when in (9.9, 10.1, 10.3, 10.5, 10.7):
        ahead.key(when)
        assert ahead.waits
    ahead.opened(itself=False)
    ahead.key(12.0)
    assert ahead.waits and ahead.painted(12.5), "what a key typed ahead chose waits as well"
    ahead.key(12.81)
    assert not ahead.waits
    ahead.opened(itself=False)
    ahead.key(12.9)
    assert not ahead.waits


def test_both_halves_of_a_row_are_whole_and_apart(ten: Branching) -> None:
    """On 200 columns: what was removed on the left and what was added on the right, each line once."""
    app = app_of(ten)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        pairs = [line for line in lines.lines if isinstance(line, PairRow)]
        assert pairs and max(map(len, pairs)) <= lines.size.width
        assert all(half.mark != "+" for line in pairs if isinstance(half := line.left, DiffRow))
        assert all(half.mark != "-" for line in pairs if isinstance(half := line.right, DiffRow))

    drive(app, script, (200, 50))
    app.held.close()


def test_marks_are_jumped_to(tmp_path: Path) -> None:
    with branching({"a.py": "x = 1\n" * 80, "b.py": "x = 1\n"}, deliver="tree") as here:

        def edit(work: Path) -> None:
            (work / "a.py").write_text("x = 1\n" * 60 + 'import subprocess\nsubprocess.run(["sh", "-c", url])\n')
            (work / "b.py").unlink()

        here.propose(edit)
        app = app_of(here)

        async def script(pilot: Pilot[None]) -> None:
            lines = await open_first(pilot)
            found = []
            await pilot.press("home")
            while said(app) != "there is no mark below":
                await pilot.press("right_square_bracket")
                await pilot.pause()
                found.append(str(lines.lines[lines.at]))
            assert found[0].startswith("  DELETED") and any(
                line.startswith("! ") and "subprocess.run(" in line for line in found
            )
            await pilot.press("left_square_bracket")
            await until(pilot, lambda: said(app) == "")

        drive(app, script)
        app.held.close()


def test_a_request_without_files_has_none_to_jump_to(ten: Branching, tmp_path: Path) -> None:
    from tests.acts.bench_workspace import make_bench

    bench = make_bench(tmp_path)
    bench.draft(data=None)
    app = OperatorApp(bench.workspace, undecided=True, key=bench.keys["alice"])

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        at = lines.scroll_offset
        await pilot.press("n", "p", "right_square_bracket", "v", "t", "enter")
        await pilot.pause()
        assert said(app) == "" and lines.scroll_offset == at and app.screen.query_one(Lines) is lines
        assert "n File" not in rows(app)[-1]

    drive(app, script)
    app.held.close()
