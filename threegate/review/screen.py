"""The review screen: the parts of review_sections.py as lines of a terminal.

Invariant: words of the request stand only behind the gutter of shown_text.py, and words of ours never do, so that none can
look like the other; what the short screen leaves out is named in its first lines, and the full one leaves nothing out.
"""

from __future__ import annotations

from collections.abc import Iterable

from threegate.core.settings import Settings
from threegate.review.preview import Preview
from threegate.review.review_sections import (
    Fact,
    Field,
    Item,
    Listing,
    Note,
    Section,
    review_sections,
)
from threegate.review.reviewed_draft import InvalidDraft, ReviewedDraft
from threegate.review.shown_text import WIDTH, Cut, Title, fact, field, numbered, own, quoted


def render_reviewed_draft(
    reviewed: ReviewedDraft, settings: Settings, *, operator: str, width: int = WIDTH, full: bool = False
) -> list[str]:
    """The whole screen as lines. `full` leaves nothing out."""
    return render_sections(review_sections(reviewed, settings, operator=operator), width=width, full=full)


def render_sections(sections: Iterable[Section], *, width: int = WIDTH, full: bool = False) -> list[str]:
    """Parts as lines, in their order; what is left out of them is named below the first heading."""
    first: list[str] = []
    rest: list[str] = []
    cuts: list[str] = []
    for section in sections:
        titles = [Title(line) for line in own(f"== {section.title}", width=width, indent=0)]
        (rest if first else first).extend(("", *titles))
        for item in section.items:
            lines = _item(item, width, full)
            cuts += [f"{line.left} lines of {_called(item)}" for line in lines if isinstance(line, Cut)]
            rest += lines
    if cuts:
        first += own(f"left out below: {', '.join(cuts)}; --full shows all", width=width)
    return first + rest


def render_page(name: str, page: Preview, *, width: int = WIDTH) -> list[str]:
    """A page of the input `name`."""
    inside = field("inside", page.path, width=width, limit=None) if page.path else []
    head = [*field("input", f"/in/{name}", width=width), *inside, *own(page.head, width=width)]
    return head + numbered(page.text, width=width, first=page.line)


def render_invalid(error: InvalidDraft, *, width: int = WIDTH) -> list[str]:
    """What gate 1 found in a draft that is not valid."""
    findings = error.report.findings
    lines: list[str] = [Title(f"== NOT VALID: {len(findings)} findings")]
    for finding in findings:
        lines += own(f"{finding.rule} line {finding.line}, column {finding.column}:", width=width)
        lines += quoted(finding.message, width=width)
    return lines


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
