"""The screen before a signature: the text that is signed, with facts known only now and the inputs' bytes
next to it.

Invariant: what is signed comes only from `approval/shown/request_sections.py`; this adds to it and removes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from threegate.approval.shown.request_sections import Beside, Warning_, read_all, request_sections, shown_request
from threegate.approval.statement import format_utc
from threegate.core.errors import Refused
from threegate.core.screen_parts import Fact, Field, Item, Listing, Note, Quote, Section
from threegate.core.settings import Settings
from threegate.request.backend import BACKENDS
from threegate.review.fitness import waits_for
from threegate.review.novelty import card_items, warnings_of
from threegate.review.preview import previews
from threegate.review.reviewed_draft import ReviewedDraft, refuse_judged
from threegate.runners.backend import running

# Lines of an input that is not code, on the short screen.
_PREVIEW: Final = 10


def review_sections(reviewed: ReviewedDraft, settings: Settings, *, operator: str) -> list[Section]:
    """Everything that `operator` must see of a draft, in the order of the screen."""
    inputs, unread = _inputs(reviewed)
    place = running(reviewed.job.backend).place(settings, reviewed.job)
    return request_sections(
        shown_request(
            reviewed.request,
            reviewed.job,
            settings,
            operator=operator,
            owner=reviewed.owner,
            run=reviewed.run,
        ),
        Beside(
            card=tuple(_card(reviewed, settings.approval.draft_ttl)),
            warnings=(*unread, *_warnings(reviewed)),
            inputs=inputs,
            digests=(*([Field("runs on", place)] if place else ()), Fact("draft", reviewed.request.sha256)),
            judgement=_judgement(reviewed),
            claims=reviewed.bound.claims(),
        ),
    )


def _card(reviewed: ReviewedDraft, draft_ttl: int) -> Iterator[Item]:
    if reviewed.differs is None:
        yield Fact("differs", "no request of this shape was approved before")
    else:
        yield Field("differs", reviewed.differs)
    yield from card_items(reviewed.novelty.marks)
    try:
        refuse_judged(reviewed)
    except Refused as refusal:
        yield Fact("can run", f"no: {refusal.code}")
    else:
        yield from (Fact("can run" if not number else "", text) for number, text in enumerate(_can_run(reviewed)))
    if reviewed.daemon is not None and reviewed.daemon.state != "ok":
        yield Fact("daemon", f"{reviewed.daemon.seen}: {reviewed.daemon.fix}")
    others = [way for way in reviewed.bound.ways if way != reviewed.bound.way]
    if others and reviewed.request.stage == "draft":
        yield Fact("or deliver", f"{' or '.join(others)}: threegate approve … --deliver {others[0]}")
    if draft_ttl and reviewed.request.stage == "draft":
        until = format_utc(reviewed.draft.expires_utc(draft_ttl))
        yield Fact("undecided", f"refused at {until}, if nobody decides before")


def _can_run(reviewed: ReviewedDraft) -> list[str]:
    # The lines name our settings, the engine's socket and operators, nothing of the request.
    lines = waits_for(reviewed.fit)
    if not reviewed.assessment.contract_holds:
        lines = [f"not yet: the contracts say {reviewed.assessment.contract.verdict} now, see below", *lines]
    return lines or ["yes, the gates would let it pass now"]


def _inputs(reviewed: ReviewedDraft) -> tuple[dict[str, tuple[Item, ...]], list[Warning_]]:
    """What is shown of each input, and a warning for each that is not shown in full."""
    request = reviewed.request
    if own := BACKENDS[request.backend].input_items(reviewed.bound, reviewed.inputs):
        return dict(own), []
    most = _PREVIEW if BACKENDS[request.backend].data_inputs else None
    shown: dict[str, tuple[Item, ...]] = {}
    warnings: list[Warning_] = []
    for number, (item, (found, parts)) in enumerate(
        zip(request.inputs, previews(request.inputs, reviewed.inputs), strict=True), start=1
    ):
        items: list[Item] = []
        if found.why:
            items.append(Note(f"not shown whole: {found.why}"))
            warnings.append(
                (
                    Note("NOT SHOWN WHOLE:"),
                    Field("input", f"/in/{item.name}"),
                    Note(found.why),
                    read_all(request.file_name, item.name),
                )
            )
        for part in parts:
            if part.path:
                items.append(Field("inside", part.path))
            items.append(Listing(part.head, part.text, f"input {number}", most) if part.text else Note(part.head))
        shown[item.name] = tuple(items)
    return shown, warnings


def _warnings(reviewed: ReviewedDraft) -> Iterator[Warning_]:
    if reviewed.stopped is not None:
        yield (Quote(reviewed.stopped[1], "NOTHING CAN BE SIGNED NOW:", None),)
    if reviewed.unfit is not None:
        yield (Note("IT CANNOT BE APPLIED NOW:"), Quote(str(reviewed.unfit), "", None))
    yield from warnings_of(reviewed.novelty.marks)
    for finding in reviewed.fit:
        if finding.severity == "error":
            yield (Quote(finding.message, f"IT COULD ONLY FAIL, {finding.rule} line {finding.line}:", None),)
    for finding in (*reviewed.report.findings, *reviewed.fit):
        if finding.severity == "warning":
            yield (Quote(finding.message, f"{finding.rule} line {finding.line}:", None),)


def _judgement(reviewed: ReviewedDraft) -> Section:
    assessment = reviewed.assessment
    contract = assessment.contract
    shadow = " (shadow: blocks nothing)" if assessment.shadow else ""
    items: list[Item] = [Fact("AANA", f"{assessment.route}, gate {assessment.gate_decision}")]
    items += [Fact("reason", text) for text in (*assessment.blockers, *assessment.aana_reasons)]
    items.append(Fact("contracts", f"{contract.verdict}{shadow}"))
    for reason in contract.reasons:
        items.append(Fact("reason", reason.code))
        if reason.path:
            items.append(Field("at", reason.path))
    usual = assessment.route == "accept" and contract.verdict == "allow" and not assessment.blockers
    return Section(
        "WHAT THE JUDGEMENT WOULD SAY NOW",
        tuple(items),
        folded="AANA accepts, contracts allow" if usual else "",
    )
