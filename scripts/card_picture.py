"""Writes the pictures of docs/: what `threegate review` shows of the draft in docs/first-request.md, and of a change of
files on terminals of three sizes; with --page what the operator's page shows of the same change in Chromium.

The card is Textual's own export of the screen; a change is what a terminal shows of the real command. Both are without
web fonts, and are written only when their text has changed; tests/whole/docs/test_card_picture.py compares the two.

Usage: python scripts/card_picture.py [--check] [--page]; needs the extras `tui` and `dev`; exit 1 with --check when a
picture is not current.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import unescape
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.type_tour import ROOT, tour

if TYPE_CHECKING:
    from pyte import Screen
    from pyte.screens import Char

PICTURE = ROOT / "docs" / "review-card.svg"
SIZE = (80, 42)
"""Columns and rows of the terminal: the whole card fits."""
CHANGE_SIZES = ((80, 24), (120, 40), (200, 50))
PAGE_SIZES = ((1280, 580), (390, 844))
_KEYWORD = "a8ccff"
"""The colour of keywords in the application."""
_TO_THE_FILE = """
    const edge = element => element.getBoundingClientRect().top
    const file = edge(document.getElementById('file-3'))
    scrollTo(0, Math.min(...[...document.querySelectorAll('.content tr, .file')].map(edge).filter(y => y >= file - 56)))
"""
"""The third file, with the rows above it that fit whole."""
_SECONDS = 30.0
_DIFFERS = re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}Z|\d{8}-\d{6}Z|\d{14}-[0-9a-f]{8}|(?<=   )[a-z]+: .*(?=   trail:)")


def change_picture(size: tuple[int, int]) -> Path:
    """Where the picture of a change on a terminal of this size is."""
    return ROOT / "docs" / f"review-change-{size[0]}x{size[1]}.svg"


def page_picture(width: int, look: str) -> Path:
    """Where the picture of the page is, on a screen of this width, `light` or `dark`."""
    return ROOT / "docs" / f"page-change-{width}-{look}.png"


def screen() -> str:
    """The SVG of the card of a fresh draft, in a workspace that is gone afterwards."""
    from threegate.core.workspace import Workspace
    from threegate.plugins.tui.lines import Lines
    from threegate.plugins.tui.operator_app import OperatorApp

    async def card(app: OperatorApp) -> str:
        async with app.run_test(size=SIZE) as pilot:
            await pilot.press("enter")
            end = time.monotonic() + _SECONDS
            lines = app.screen.query_one(Lines)
            while not lines.lines or lines.unseen:
                if time.monotonic() > end:
                    raise RuntimeError("the card did not fit on the screen in time")
                await pilot.pause(0.05)
            await pilot.pause()
            return app.export_screenshot(title="threegate review")

    with tempfile.TemporaryDirectory(prefix="threegate-card-") as folder:
        home = Path(folder)
        key = home / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice", "-f", key], check=True)
        drafting = tour().partition("threegate validate")[0].replace("/tmp/", f"{home}/")
        drafting = drafting.replace("init ws", f"init ws --operator alice --key {key}.pub")
        environment = {
            **os.environ,
            "HOME": folder,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "XDG_STATE_HOME": f"{folder}/state",
        }
        subprocess.run(["bash", "-e", "-c", drafting], cwd=home, env=environment, check=True, capture_output=True)
        with _at_home(folder):
            app = OperatorApp(Workspace(home / "ws"), undecided=True, key=key)
            try:
                return asyncio.run(card(app))
            finally:
                app.held.close()


@contextmanager
def _at_home(folder: str) -> Iterator[None]:
    """With nothing of who draws: no keys, no state, no wish for fewer colours."""
    before = os.environ.copy()
    os.environ.update(HOME=folder, XDG_STATE_HOME=f"{folder}/state")
    os.environ.pop("NO_COLOR", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def change_screens(sizes: Sequence[tuple[int, int]] = CHANGE_SIZES) -> dict[Path, str]:
    """The SVG of a change of files on each size of a terminal, in its colours, by path of the picture."""
    from scripts.changed_shop import changed_shop
    from tests.adversarial.approval.test_terminal import terminal_environment
    from tests.plugins.tui.pseudo_terminal import PseudoTerminal

    found = {}
    with tempfile.TemporaryDirectory(prefix="threegate-card-") as folder, _at_home(folder), changed_shop() as here:
        for columns, rows in sizes:
            where = ["-w", str(here.place.root), "review", "--key", str(here.place.key)]
            words = [sys.executable, "-m", "threegate", *where]
            terminal = PseudoTerminal(words, (columns, rows), terminal_environment(COLORTERM="truecolor"))
            terminal.wait("UNDECIDED: 1")
            end = time.monotonic() + _SECONDS
            while True:
                terminal.type("\r")
                terminal.wait("FILES +")
                terminal.page_to_the_end()  # so that it does not depend on what was on the screen between two keys
                terminal.type("\x1b[H")
                terminal.wait("short: 1-")
                terminal.type("nnn")
                terminal.wait("file 3 of ")
                terminal.settle()
                if _KEYWORD in {cell.fg for row in terminal.screen.buffer.values() for cell in row.values()}:
                    break
                if time.monotonic() > end:  # the lexer had too little time: it is asked again
                    raise RuntimeError("the code had no colours in time")
                terminal.type("\x1b")
                terminal.wait("UNDECIDED: 1")
            found[change_picture((columns, rows))] = svg_of(terminal.screen)
            terminal.type("q")
            terminal.end()
    return found


def svg_of(screen: Screen) -> str:
    """What a terminal shows."""
    from rich.console import Console
    from rich.segment import Segment, Segments
    from rich.style import Style

    def style(cell: Char) -> Style:
        fg, bg = (f"#{color}" if re.fullmatch("[0-9a-f]{6}", color) else color for color in (cell.fg, cell.bg))
        return Style(
            color=fg, bgcolor=bg, bold=cell.bold, italic=cell.italics, underline=cell.underscore, reverse=cell.reverse
        )

    console = Console(
        width=screen.columns, height=screen.lines, file=StringIO(), force_terminal=True, color_system="truecolor",
        record=True, legacy_windows=False,
    )  # fmt: skip
    for row in range(screen.lines):
        cells = [screen.buffer[row][column] for column in range(screen.columns)]
        made = [Segment("".join(cell.data for cell in group), look) for look, group in groupby(cells, key=style)]
        console.print(Segments([*made, Segment.line()]), end="")
    return console.export_svg(title="threegate review", unique_id=f"review-{screen.columns}")


def page_pictures() -> None:
    """Pictures of the page of the same change, wide and narrow, light and dark."""
    from scripts.changed_shop import changed_shop
    from tests.chromium import Chromium

    threegate = [sys.executable, "-m", "threegate"]
    with tempfile.TemporaryDirectory(prefix="threegate-card-") as folder, _at_home(folder), changed_shop() as here:
        os.environ["THREEGATE_WORKSPACE"] = str(here.place.root)
        server = subprocess.Popen([*threegate, "serve", "page"], stdout=subprocess.PIPE, text=True)
        browser = Chromium(Path(folder) / "profile")
        try:
            assert server.stdout is not None and server.stdout.readline().startswith("listening on ")
            link = subprocess.run([*threegate, "serve", "page"], stdout=subprocess.PIPE, text=True, check=True).stdout
            browser.open(link.strip())
            browser.open(browser.js("location.href") + "list/drafts")
            draft = browser.js("document.querySelector('.request a').href")
            for width, height in PAGE_SIZES:
                for look in ("light", "dark"):
                    browser.size(width, height, dark=look == "dark")
                    browser.open(draft)
                    browser.js(_TO_THE_FILE)
                    browser.picture(page_picture(width, look))
        finally:
            browser.close()
            server.terminate()
            server.communicate(timeout=20)


def offline(svg: str) -> str:
    """Without the fonts that the export would have a browser fetch."""
    svg = re.sub(r"@font-face \{.*?\}\n*", "", svg, flags=re.S)
    return re.sub(r"font-family: ?[^;]*;", "font-family: monospace;", svg)


def text_of(svg: str) -> list[str]:
    """The rows of the terminal in the picture. `~` is what differs at each run or machine: times, ids, what runs it."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for attributes, text in re.findall(r"<text ([^>]*)>([^<]*)</text>", svg.partition('-matrix">')[2]):
        x, y = (float(value) for value in re.findall(r'\b[xy]="([\d.]+)"', attributes))
        rows.setdefault(y, []).append((x, unescape(text).replace("\xa0", " ")))
    lines = ("".join(text for _, text in sorted(row)).rstrip() for _, row in sorted(rows.items()))
    return [_DIFFERS.sub("~", line) for line in lines]


def main() -> int:
    """Write the pictures whose text is not what the program shows today."""
    check = "--check" in sys.argv
    stale = False
    for path, svg in {PICTURE: screen(), **change_screens()}.items():
        made = offline(svg)
        if path.is_file() and text_of(path.read_text("utf-8")) == text_of(made):
            continue
        print(f"{path.relative_to(ROOT)}: {'not current' if check else 'written'}")
        stale = True
        if not check:
            path.write_text(made, "utf-8")
    if "--page" in sys.argv and not check:
        page_pictures()
    return int(stale and check)


if __name__ == "__main__":
    sys.exit(main())
