"""The screen before a signature, as lines of a terminal."""

from __future__ import annotations

from threegate.approval.shown.escaped_lines import WIDTH, Title, field, numbered, own, quoted, render_sections
from threegate.core.settings import Settings
from threegate.review.compare import Comparison
from threegate.review.line_diff import unified
from threegate.review.preview import Preview
from threegate.review.review_sections import review_sections
from threegate.review.reviewed_draft import InvalidDraft, ReviewedDraft

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
        text = list(unified(item.before.split("\n"), item.after.split("\n"), 2))
        lines += ["", *map(Title, field(item.name, f"{len(text)} lines", width=width))]
        lines += quoted("\n".join(text), width=width, limit=None if full else _DIFFERENCE)
    return lines
