"""The review screen: the parts of review_sections.py as lines of a terminal.

Invariant: words of the request stand only behind the gutter of shown_text.py, so that none can look like a word of
ours; what the short screen leaves out is counted, and the full one leaves nothing out.
"""

from __future__ import annotations

from collections.abc import Iterable

from threegate.core.settings import Settings
from threegate.review.review_sections import LIMIT, Field, Item, Listing, Quote, Section, review_sections
from threegate.review.reviewed_draft import InvalidDraft, ReviewedDraft
from threegate.review.shown_text import WIDTH, Title, field, numbered, quoted, wrapped


def render_reviewed_draft(
    reviewed: ReviewedDraft, settings: Settings, *, operator: str, width: int = WIDTH, full: bool = False
) -> list[str]:
    """The whole screen as lines. `full` leaves nothing out."""
    return render_sections(review_sections(reviewed, settings, operator=operator), width=width, full=full)


def render_sections(sections: Iterable[Section], *, width: int = WIDTH, full: bool = False) -> list[str]:
    """Parts as lines, in their order."""
    return [line for section in sections for line in _section(section, width, full)]


def render_invalid(error: InvalidDraft, *, width: int = WIDTH) -> list[str]:
    """What gate 1 found in a draft that is not valid."""
    findings = error.report.findings
    lines: list[str] = [Title(f"== NOT VALID: {len(findings)} findings")]
    for finding in findings:
        text = f"{finding.rule} line {finding.line}, column {finding.column}: {finding.message}"
        lines += quoted(text, width=width)
    return lines


def _section(section: Section, width: int, full: bool) -> list[str]:
    lines = ["", *(Title(f"== {line}") for line in wrapped(section.title, width - 3))]
    return lines + [line for item in section.items for line in _item(item, width, full)]


def _item(item: Item, width: int, full: bool) -> list[str]:
    if isinstance(item, Field):
        return field(item.label, item.value, width=width, limit=None if full else item.most)
    if isinstance(item, Listing):
        return [f"  {item.head}", *numbered(item.text, width=width, limit=None if full else LIMIT)]
    if isinstance(item, Quote):
        head = [f"{' ' * item.indent}{item.head}"] if item.head else []
        most = None if full else item.most
        return head + quoted(item.text, width=width, limit=most, indent=item.indent)
    return [f"  {item.text}"]
