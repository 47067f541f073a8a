"""The pictures in the docs show what the program shows today, and load nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.card_picture import (
    CHANGE_SIZES,
    PAGE_SIZES,
    PICTURE,
    ROOT,
    change_picture,
    change_screens,
    offline,
    page_picture,
    screen,
    text_of,
)

CHANGES = [change_picture(size) for size in CHANGE_SIZES]
PAGES = [page_picture(width, look) for width, _ in PAGE_SIZES for look in ("light", "dark")]


def test_the_picture_shows_what_the_program_shows_today() -> None:
    pytest.importorskip("textual", reason="the tui extra is not installed")
    rows = text_of(PICTURE.read_text("utf-8"))
    assert any("numbers = json.loads(open('/in/numbers.json').read())" in row for row in rows)
    assert any("a Approve" in row for row in rows)
    assert rows == text_of(screen()), "write it again: python scripts/card_picture.py"


def test_a_picture_of_a_change_is_what_a_terminal_shows_today() -> None:
    pytest.importorskip("textual", reason="the tui extra is not installed")
    [(path, svg)] = change_screens(CHANGE_SIZES[1:2]).items()
    assert text_of(path.read_text("utf-8")) == text_of(svg), "write it again: python scripts/card_picture.py"


@pytest.mark.slow
def test_the_pictures_of_a_change_are_the_same_to_the_last_byte() -> None:
    """Nothing on them is of the day, of this machine or of the workspace; their text is today's at each size."""
    pytest.importorskip("textual", reason="the tui extra is not installed")
    drawn = change_screens()
    assert list(drawn) == CHANGES and drawn == change_screens()
    for path, svg in drawn.items():
        assert text_of(path.read_text("utf-8")) == text_of(offline(svg)), path


@pytest.mark.parametrize("path", CHANGES, ids=lambda path: path.name)
def test_a_change_is_shown_with_its_mark_its_words_and_its_colours(path: Path) -> None:
    svg = path.read_text("utf-8")
    rows = "\n".join(text_of(svg))
    assert "shop/orders.py" in rows and "starts a process" in rows and re.search(r"! +5 \+ \|", rows)
    assert "fill: #a8ccff" in svg, "keywords"
    assert "text-decoration: underline" in svg, "words that changed"


@pytest.mark.parametrize("path", [PICTURE, *CHANGES], ids=lambda path: path.name)
def test_the_picture_loads_nothing(path: Path) -> None:
    svg = path.read_text("utf-8")
    assert "url(" not in svg.replace("url(#", "") and not re.search(r"href|<script|<image|@import", svg)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_pictures_of_the_page_are_there_and_small(path: Path) -> None:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n") and 10_000 < len(data) <= 150 * 1024


def test_the_pictures_are_shown() -> None:
    assert "](docs/review-card.svg)" in (ROOT / "README.md").read_text("utf-8")
    pages = "".join((ROOT / "docs" / name).read_text("utf-8") for name in ("tui.md", "serve.md"))
    assert [path.name for path in (*CHANGES, *PAGES) if f"]({path.name})" not in pages] == []
