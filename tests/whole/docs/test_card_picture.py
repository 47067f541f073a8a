"""The picture in the README shows what `threegate review` shows today, and loads nothing from elsewhere."""

from __future__ import annotations

import re

import pytest

from scripts.card_picture import PICTURE, ROOT, screen, text_of


def test_the_picture_shows_what_the_program_shows_today() -> None:
    pytest.importorskip("textual", reason="the tui extra is not installed")
    rows = text_of(PICTURE.read_text("utf-8"))
    assert any("numbers = json.loads(open('/in/numbers.json').read())" in row for row in rows)
    assert any("a Approve" in row for row in rows)
    assert rows == text_of(screen()), "write it again: python scripts/card_picture.py"


def test_the_picture_loads_nothing_and_is_shown() -> None:
    svg = PICTURE.read_text("utf-8")
    assert "url(" not in svg.replace("url(#", "") and not re.search(r"href|<script|<image|@import", svg)
    assert "](docs/review-card.svg)" in (ROOT / "README.md").read_text("utf-8")
