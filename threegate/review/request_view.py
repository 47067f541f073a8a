"""One request, in whatever folder, for a reader who signs nothing.

Invariant: this reads and never writes. The file's own statements, the trail's record and the gates' current
answers are kept apart; the trail's history is shown only for the file that it names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from threegate.approval.facts import Check
from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Refused
from threegate.core.file_names import is_request_name
from threegate.core.screen_parts import Field, Listing, Quote, Section
from threegate.launch.context import Context
from threegate.launch.results.result_facts import ResultFacts, read_record
from threegate.request.report import Finding, Report
from threegate.review.countersign import read_waiting, review_waiting, verify_approval
from threegate.review.draft_sources import source_of
from threegate.review.ended_sections import ended_sections
from threegate.review.review_sections import review_sections
from threegate.review.reviewed_draft import InvalidDraft, ReviewedDraft, read_draft, view_draft
from threegate.review.status import WHOM, Line, RequestEntry, is_draft_folder, line_of
from threegate.trail.event import Event
from threegate.trail.history import RequestHistory
from threegate.trail.payloads import End
from threegate.trail.story import sentence

SOMEBODY = "the operator whose key signs"


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One event of the trail in plain words."""

    seq: int
    time: str
    actor: str
    words: str


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request as it is shown. `problem` says why it cannot proceed (with its code, if there is one)."""

    line: Line
    sections: tuple[Section, ...] = ()
    findings: tuple[Finding, ...] = ()
    source: tuple[str, ...] = ()
    """The file's lines with secrets masked, if it is not a valid request."""
    problem: str = ""
    code: str = ""
    checks: tuple[Check, ...] = ()
    """The checks of a launch, for a request that is waiting for one."""
    story: tuple[StoryLine, ...] = ()
    facts: ResultFacts | None = None
    """The record of its run."""


def view_request(
    context: Context,
    entry: RequestEntry,
    *,
    operator: str = SOMEBODY,
    seen: Callable[[ReviewedDraft], None] | None = None,
) -> RequestView:
    """Everything that can be shown of a request file. Raises TrailError, InvalidInput if the file cannot be read.

    `operator` is who would sign. `seen` is called with the very draft that is shown, if it could be approved.
    """
    line = line_of(context.workspace, entry)
    if entry.path.suffix != ".md":
        return RequestView(line, problem=_no_request(context, entry))
    if is_draft_folder(entry.folder):
        if not is_request_name(entry.path.name):
            return RequestView(line, problem="its name is not of the form TR-YYYYMMDD-HHMMSSZ-<slug>.md")
        return _draft(context, entry, line, operator, seen)
    if entry.folder == "approved":
        return _waiting(context, entry, line)
    if entry.folder == "running":
        return _running(context, entry, line)
    return _claimed(context, entry, line)


def _no_request(context: Context, entry: RequestEntry) -> str:
    source = source_of(context.workspace, entry.path.name)
    if source is None:
        return "not a request, and no active plugin makes one of it"
    return f"a {source.what}; for its verdict: threegate {' '.join(source.explain)}"


def _draft(
    context: Context, entry: RequestEntry, line: Line, operator: str, seen: Callable[[ReviewedDraft], None] | None
) -> RequestView:
    draft = read_draft(context.workspace, entry.path)
    try:
        with view_draft(context, draft) as reviewed:
            sections = tuple(review_sections(reviewed, context.policy.settings, operator=operator))
            if seen is not None:
                seen(reviewed)
            line = replace(line, request_id=reviewed.request.request_id, for_whom=WHOM["draft"])
            return RequestView(line, sections, reviewed.report.findings)
    except InvalidDraft as error:
        return RequestView(
            replace(line, request_id=error.report.request_id, state="invalid", for_whom=WHOM["invalid"]),
            findings=error.report.findings,
            source=error.report.masked_lines,
            problem="gate 1 refuses it",
        )
    except (Refused, InvalidInput) as error:
        report = _read(context, entry, draft.data)
        return RequestView(
            replace(line, request_id=report.request_id),
            findings=report.findings,
            source=report.masked_lines,
            problem=str(error),
            code=error.code if isinstance(error, Refused) else "",
        )


def _waiting(context: Context, entry: RequestEntry, line: Line) -> RequestView:
    try:
        approved = read_waiting(context, entry.path)
        reviewed = review_waiting(context, approved)
        sections = review_sections(reviewed, context.policy.settings, operator=SOMEBODY)
        checks = tuple(verify_approval(context, entry.path))
    except (InvalidInput, Refused, OSError) as error:
        return replace(_claimed(context, entry, line), problem=str(error))
    return RequestView(
        replace(line, request_id=reviewed.request.request_id),
        tuple(sections),
        reviewed.report.findings,
        checks=checks,
        story=_story(approved.history, entry),
    )


def _running(context: Context, entry: RequestEntry, line: Line) -> RequestView:
    """What a claimed request is, as its operator saw it, as long as its file can be read as approved."""
    claimed = _claimed(context, entry, line)
    try:
        reviewed = review_waiting(context, read_waiting(context, entry.path))
        card = review_sections(reviewed, context.policy.settings, operator=SOMEBODY)
        card = [section for section in card if section.title != "WHAT THE JUDGEMENT WOULD SAY NOW"]  # it was judged
    except (InvalidInput, Refused, OSError):
        return claimed
    there = {section.title for section in card}
    return replace(claimed, sections=(*card, *(item for item in claimed.sections if item.title not in there)))


def _claimed(context: Context, entry: RequestEntry, line: Line) -> RequestView:
    """A request that was claimed or stopped: its own words, and what the trail and the record say about it."""
    try:
        data = durable.read_regular(entry.path, max_bytes=limits.REQUEST_BYTES)
    except OSError as error:
        raise InvalidInput(f"{entry.path.name}: cannot be read ({error.strerror or error})") from None
    report = _read(context, entry, data)
    history = None
    if report.request_id:
        with context.trail.locked() as held:
            history = held.index.history(report.request_id)
    ours = history if history is not None and _is_of(history, entry) else None
    problem = "" if report.request else "it is not a valid request"
    if history is not None and ours is None:
        problem = "in the trail this request_id belongs to another file, whose history is not shown here"
    facts = None
    end = End.of(ours.end) if ours is not None else None
    if ours is not None and ours.end is not None and end is not None and end.record_sha256:
        try:
            facts = read_record(
                context.workspace.run_folder(ours.request_id),
                created_utc=ours.end.when,
                trail_seq=ours.end.seq,
                sha256=end.record_sha256,
            )
        except (InvalidInput, OSError) as error:
            problem = str(error)
    return RequestView(
        replace(line, request_id=report.request_id),
        tuple(ended_sections(report, ours, facts)),
        report.findings,
        () if report.request else report.masked_lines,
        problem,
        story=_story(ours, entry),
        facts=facts,
    )


def _read(context: Context, entry: RequestEntry, data: bytes) -> Report:
    return context.read(data, entry.path.name, "draft" if is_draft_folder(entry.folder) else "approved")


def _is_of(history: RequestHistory, entry: RequestEntry) -> bool:
    """Whether the trail's history of an id is about this file: a file may merely claim an id."""
    return history.file == entry.path.name and history.state in (entry.folder, None)


def _story(history: RequestHistory | None, entry: RequestEntry) -> tuple[StoryLine, ...]:
    """The events that decide, in order."""
    if history is None or not _is_of(history, entry):
        return ()
    found: dict[int, Event] = {event.seq: event for event in history.countersigned}
    for name in ("approved", "cleared", "claimed", "started", "finished", "cancel_requested", "end",
                 "last"):  # fmt: skip
        event = getattr(history, name)
        if event is not None:
            found[event.seq] = event
    return tuple(StoryLine(seq, event.time, event.actor, sentence(event)) for seq, event in sorted(found.items()))


def view_sections(view: RequestView) -> list[Section]:
    """A request as parts, for a screen of lines; what is known about it from elsewhere comes last."""
    sections = list(view.sections)
    if view.problem:
        sections.append(Section("WHY IT CANNOT PROCEED", (Quote(view.problem, most=None),)))
    if view.findings:
        told = tuple(
            Quote(item.message, f"{item.rule} line {item.line}, column {item.column}:", None) for item in view.findings
        )
        sections.append(Section(f"FINDINGS ({len(told)})", told))
    if view.checks:
        sections.append(Section("THE CHECKS OF A LAUNCH", tuple(_check(check) for check in view.checks)))
    if view.story:
        story = tuple(Quote(item.words, f"{item.time[:19]} {item.actor} (#{item.seq}):", None) for item in view.story)
        sections.append(Section("WHAT THE TRAIL SAYS", story))
    if view.source:
        text = "\n".join(view.source)
        sections.append(Section("THE FILE", (Listing("secrets masked:", text, "the file"),)))
    return sections


def _check(check: Check) -> Field:
    outcome = "passed" if check.ok else "not made" if check.ok is None else f"FAILED {check.code}"
    return Field(outcome, f"{check.name}: {check.detail}")
