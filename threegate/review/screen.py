"""The screen before a signature, as lines of a terminal."""

from __future__ import annotations

from threegate.core.settings import Settings
from threegate.review.review_sections import review_sections
from threegate.review.reviewed_draft import InvalidDraft, ReviewedDraft
from threegate.shown.escaped_lines import WIDTH, Title, own, quoted
from threegate.shown.screen_lines import render_sections


def render_reviewed_draft(
    reviewed: ReviewedDraft, settings: Settings, *, operator: str, width: int = WIDTH, full: bool = False
) -> list[str]:
    """The whole screen as lines. `full` leaves nothing out."""
    return render_sections(review_sections(reviewed, settings, operator=operator), width=width, full=full)


def render_invalid(error: InvalidDraft, *, width: int = WIDTH) -> list[str]:
    """What gate 1 found in a draft that is not valid."""
    findings = error.report.findings
    lines: list[str] = [Title(f"== NOT VALID: {len(findings)} findings")]
    for finding in findings:
        lines += own(f"{finding.rule} line {finding.line}, column {finding.column}:", width=width)
        lines += quoted(finding.message, width=width)
    return lines
