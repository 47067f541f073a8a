"""The tables of changes on a page, read back from its HTML, and where each of its texts is."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple

_VOID = ("meta", "link", "input", "br", "col")


class Cells(NamedTuple):
    """A row of a table of lines."""

    old: str
    new: str
    sign: str
    text: str
    tag: str
    """``ins``, ``del`` or nothing."""


class Page(HTMLParser):
    """`rows` has each line of each change; `texts` each text with the tags and classes around it."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[Cells] = []
        self.texts: list[tuple[str, tuple[str, ...]]] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self._open: list[str] = []
        self._cells: list[str] = []
        self._tag = ""
        self.feed(source)
        self.close()
        assert self._open == [], self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag in _VOID:
            return
        self._open.append(f"{tag}.{dict(attrs).get('class') or ''}")
        if tag == "tr":
            self._cells, self._tag = [], ""
        elif tag == "td":
            self._cells.append("")
        elif tag in ("ins", "del"):
            self._tag = tag

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().startswith(f"{tag}."), tag
        if tag == "tr" and len(self._cells) == 4:
            self.rows.append(Cells(*self._cells, self._tag))

    def handle_data(self, data: str) -> None:
        self.texts.append((data, tuple(self._open)))
        if self._cells and any(part.startswith("td.") for part in self._open):
            self._cells[-1] += data
