"""The screen before a signature, as lines of a terminal."""

from __future__ import annotations

from threegate.approval.shown.escaped_lines import (
    WIDTH,
    Title,
    clipped,
    diff_lines,
    field,
    numbered,
    own,
    quoted,
    render_sections,
)
from threegate.core.settings import Settings
from threegate.review.compare import Comparison
from threegate.review.preview import Preview
from threegate.review.review_sections import review_sections
from threegate.review.reviewed_draft import InvalidDraft, ReviewedDraft
from threegate.review.text_change import text_change

# Lines of one difference that the short form shows.
_DIFFERENCE = 200


def render_reviewed_draft(
    reviewed: ReviewedDraft, settings: Settings, *, operator: str, width: int = WIDTH, full: bool = False
) -> list[str]:
    """The whole screen as lines. With `full`, nothing is left out."""
    return render_sections(review_sections(reviewed, settings, operator=operator), width=width, full=full)


def render_page(name: str, page: Preview, *, width: int = WIDTH) -> list[str]:
    """A page of the input `name`."""
    inside = field("inside", page.path, width=width, limit=None) if page.path else []
    head = [*field("input", f"/in/{name}", width=width), *inside, *own(page.head, width=width)]
    return head + numbered(page.text, width=width, first=page.line)


def render_invalid(error: InvalidDraft, *, width: int = WIDTH) -> list[str]:
    """Gate 1's findings in a draft that is not valid."""
    findings = error.report.findings
    lines: list[str] = [Title(f"== NOT VALID: {len(findings)} findings")]
    for finding in findings:
        lines += own(f"{finding.rule} line {finding.line}, column {finding.column}:", width=width)
        lines += quoted(finding.message, width=width)
    return lines


def render_comparison(found: Comparison, *, width: int = WIDTH, full: bool = False) -> list[str]:
    """The differences between two requests."""
    lines = field("before", f"{found.before.parent.name}/{found.before.name}", width=width)
    lines += field("after", f"{found.after.parent.name}/{found.after.name}", width=width)
    if not found.differences:
        lines.append("  no difference in meaning")
    for item in found.differences:
        text = text_change(*_ended(item.before, item.after))
        count = f"+{text.added} -{text.removed} lines" if text is not None else "the same text, of another type"
        lines += ["", *map(Title, field(item.name, count, width=width))]
        shown = diff_lines(text, width=width, path=item.name) if text is not None else []
        lines += clipped(shown, None if full else _DIFFERENCE)
    return lines


def _ended(*sides: str) -> tuple[str, ...]:
    """Two texts as lines: where neither has a last line end, as fields have none, that is no news."""
    ends = any(side.endswith("\n") for side in sides)
    return tuple(side if ends or not side else f"{side}\n" for side in sides)
