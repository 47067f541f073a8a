"""Parts as lines of a terminal.

Invariant: foreign words are only behind the gutter of escaped_lines.py, and ours never are, so neither can
look like the other; the first lines of the short screen name what it leaves out, and the full screen leaves
out nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from threegate.approval.shown.escaped_lines import WIDTH, Cut, Title, fact, field, numbered, own, quoted
from threegate.core.screen_parts import Fact, Field, Item, Listing, Note, Section


def render_sections(sections: Iterable[Section], *, width: int = WIDTH, full: bool = False) -> list[str]:
    """Parts as lines, in order; what is left out is named below the first heading."""
    first: list[str] = []
    rest: list[str] = []
    cuts: list[str] = []
    for section in sections:
        if section.folded and not full:
            rest += ["", *own(f"{section.folded}: --full shows them", width=width)]
            continue
        titles = [Title(line) for line in own(f"== {section.title}", width=width, indent=0)]
        (rest if first else first).extend(("", *titles))
        for item in section.items:
            lines = _item(item, width, full)
            cuts += [f"{line.left} lines of {_called(item)}" for line in lines if isinstance(line, Cut)]
            rest += lines
    if cuts:
        first += own(f"left out below: {', '.join(cuts)}; --full shows all", width=width)
    return first + rest


def _called(item: Item) -> str:
    return "a note" if isinstance(item, Note) else item.label


def _item(item: Item, width: int, full: bool) -> list[str]:
    if isinstance(item, Field):
        return field(item.label, item.value, width=width, limit=None if full else item.most)
    if isinstance(item, Fact):
        return fact(item.label, item.value, width=width)
    if isinstance(item, Note):
        return own(item.text, width=width)
    head = own(item.head, width=width) if item.head else []
    if isinstance(item, Listing):
        return head + numbered(item.text, width=width, limit=None if full else item.most)
    return head + quoted(item.text, width=width, limit=None if full else item.most)
