"""Opened requests that are decided on together: one shown in full, the others as rows of a table.

Invariant: opened requests are compared, never listings; a request whose difference the table cannot show is
left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from threegate.approval.shown.request_sections import size_text
from threegate.core import limits
from threegate.review.group_screen import in_table
from threegate.review.group_shape import job_shape, shape_of
from threegate.review.reviewed_draft import ReviewedDraft, refuse_judged


@dataclass(frozen=True, slots=True)
class Group:
    """Requests of one shape; the first is shown in full."""

    members: tuple[ReviewedDraft, ...]
    left_out: tuple[tuple[str, str], ...]
    """File name and reason for each request that must be decided on alone."""


def why_alone(first: ReviewedDraft, member: ReviewedDraft) -> str:
    """Why a request cannot be decided on together with the first one, in our words; empty if it can.

    Raises Refused if it could not run, OSError.
    """
    refuse_judged(member)
    if member.job.action.stateful:
        return "its server is stateful, so each call is signed with the calls before it"
    same = (
        shape_of(member.request, member.owner) == shape_of(first.request, first.owner)
        and member.run == first.run
        and job_shape(member.job) == job_shape(first.job)
    )
    if not same:
        return "it means something else in a part that may not differ"
    if _told_beside(member) != _told_beside(first):
        return "its screen has warnings or a judgement of its own"
    by_name = {copy.name: copy for copy in first.inputs}
    for copy in member.inputs:
        before = by_name[copy.name]
        if copy.sha256 != before.sha256 and not (in_table(before) and in_table(copy)):
            return f"an input that differs is no plain text of at most {size_text(limits.GROUP_INPUT_BYTES)}"
    return ""


def _told_beside(member: ReviewedDraft) -> tuple[object, ...]:
    """What the screen of a draft shows next to the signed text, except its inputs and the comparison with the
    last of its shape.
    """
    warnings = {(item.rule, item.message) for item in member.report.findings if item.severity == "warning"}
    assessment = member.assessment
    return warnings, member.image_has_program, assessment.to_json(), assessment.aana_reasons
