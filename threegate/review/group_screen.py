"""Requests that are decided on together, and their screen: one in full, and a table of what differs in the others.

Invariant: opened requests are compared, never listings, and one whose difference the table cannot show is left out. The
table shows every differing value in full, for each draft, in the short form of the screen too; whatever is not in it
is the same as in the full draft (group_shape.py), except for digests of what is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from threegate.approval.shown.escaped_lines import WIDTH, render_sections
from threegate.approval.shown.request_sections import job_exposure, size_text
from threegate.approval.statement import format_utc
from threegate.core import limits
from threegate.core.screen_parts import Fact, Field, Item, Listing, Note, Section
from threegate.core.settings import Settings
from threegate.request.shown_whole import why_not_plain
from threegate.review.group_shape import VaryingValue, differing, job_shape, outliers_first, shape_of, values_of
from threegate.review.input_copies import InputCopy
from threegate.review.review_sections import review_sections
from threegate.review.reviewed_draft import ReviewedDraft, refuse_judged

# As a limit of lines: none is left out.
_ALL: Final = 1 << 30


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
    # Only the first screen is read in full: a warning that only another member has would never be seen.
    if _told_beside(member) != _told_beside(first):
        return "its screen has warnings or a judgement of its own"
    by_name = {copy.name: copy for copy in first.inputs}
    for copy in member.inputs:
        before = by_name[copy.name]
        if copy.sha256 != before.sha256 and not (in_table(before) and in_table(copy)):
            return f"an input that differs is not plain text of at most {size_text(limits.GROUP_INPUT_BYTES)}"
    return ""


def _told_beside(member: ReviewedDraft) -> tuple[object, ...]:
    """What its screen shows beside the signed text, except inputs and the comparison with the last of its shape."""
    warnings = {(item.rule, item.message) for item in member.report.findings if item.severity == "warning"}
    assessment = member.assessment
    fit = {(item.rule, item.message) for item in member.fit}
    return warnings, fit, assessment.to_json(), assessment.aana_reasons


def render_group(
    members: Sequence[ReviewedDraft],
    left_out: Sequence[tuple[str, str]],
    settings: Settings,
    *,
    operator: str,
    width: int = WIDTH,
    full: bool = False,
) -> list[str]:
    """The whole screen as lines; the first member is shown in full."""
    return render_sections(
        [
            Section(f"GROUP: {len(members)} DRAFTS, ONE DECISION", tuple(_head(members, left_out, settings))),
            *review_sections(members[0], settings, operator=operator),
            Section("WHAT DIFFERS: EVERY DRAFT, OUTLIERS FIRST", tuple(_table(members))),
        ],
        width=width,
        full=full,
    )


def in_table(copy: InputCopy) -> bool:
    """Whether an input fits into the table in full: short, plain text. Raises OSError."""
    return copy.size <= limits.GROUP_INPUT_BYTES and not why_not_plain(_bytes(copy))


def _bytes(copy: InputCopy) -> bytes:
    with copy.open() as stream:
        return stream.read()


def _head(members: Sequence[ReviewedDraft], left_out: Sequence[tuple[str, str]], settings: Settings) -> Iterator[Item]:
    first = members[0]
    needed: int = getattr(settings.approval.quorum, first.job.effective_risk)
    yield Fact("you sign", f"{len(members)} statements by one signature; each lets one of the drafts run once")
    yield Fact("risk", f"{first.job.effective_risk}, of each; {needed} to sign each")
    reach = job_exposure(first.request, first.job).reach
    if reach:
        yield Field("reach", "\n".join(reach), _ALL)
        yield Note(f"each of the {len(members)} reaches this")
    yield Note("below: one draft in full, then what differs; all else is the same in every one")
    for name, why in left_out:
        yield Field("left out", f"{name}: {why}", _ALL)


def _table(members: Sequence[ReviewedDraft]) -> Iterator[Item]:
    rows = [values_of(member.request) for member in members]
    columns = differing(rows)
    named = [[row[at] for at in columns] for row in rows]
    inputs = [
        number
        for number, copies in enumerate(zip(*(member.inputs for member in members), strict=True))
        if len({copy.sha256 for copy in copies}) > 1
    ]
    sizes = [[VaryingValue(f"input {n + 1}", "", float(member.inputs[n].size)) for n in inputs] for member in members]
    for at, far in outliers_first([[*row, *size] for row, size in zip(named, sizes, strict=True)]):
        member = members[at]
        marks = ("the one above" if at == 0 else "", f"created {format_utc(member.request.created_utc)}")
        stands_out = f"stands out by {' and '.join(far)}" if far else ""
        yield Note(f"draft {at + 1} of {len(members)}, {', '.join(filter(None, (*marks, stands_out)))}:")
        name = member.draft.path.name
        yield Field("file", name, _ALL)
        if member.request.request_id != name.removesuffix(".md"):
            yield Field("id", member.request.request_id, _ALL)
        for value in named[at]:
            yield Field(value.label, value.text, _ALL)
        for number in inputs:
            yield from _input(number, member.inputs[number])


def _input(number: int, copy: InputCopy) -> Iterator[Item]:
    yield Field(f"input {number + 1}", f"/in/{copy.name}, {size_text(copy.size)}, sha256 {copy.sha256}", _ALL)
    yield Listing(f"all of input {number + 1}:", _bytes(copy).decode(), f"input {number + 1}")
