"""A draft as the operator sees it before signing: read once, validated, its inputs copied, judged on trial.

Invariant: everything shown and everything signed comes from the values in one `ReviewedDraft`; the draft's
file is not read again.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from threegate.contracts.reasons import PASSING
from threegate.contracts.state import Decision
from threegate.core import limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.core.file_names import is_request_name
from threegate.core.workspace import Workspace
from threegate.judgement.judge import Assessment, assess
from threegate.launch.approved_file import refuse_other_project
from threegate.launch.context import Context
from threegate.launch.launch_problem import operators_problem
from threegate.request.backend import BACKENDS, Binding, Bound
from threegate.request.job import Job, build_job
from threegate.request.model import Delivery, InputFile, Request
from threegate.request.report import Finding, Report
from threegate.request.shown_whole import OpenInput, unread_inputs
from threegate.request.tar_reader import TarError, read_tar
from threegate.request.typecheck import type_findings
from threegate.review.compare import differs_from_last
from threegate.review.draft_sources import PlacedDraft, check_draft, placed_at
from threegate.review.fitness import fitness, machine_facts, refuse_unfit
from threegate.review.input_copies import InputCopy, copied_inputs, seen_inputs
from threegate.review.novelty import Novelty, novelty_of, past_of
from threegate.review.readiness import daemon_line
from threegate.runners.backend import DoctorLine
from threegate.runners.machine import platforms
from threegate.trail.history import RequestHistory, refuse_unknown_event
from threegate.trail.index import KnownRun
from threegate.trail.payloads import Rejected
from threegate.trail.payloads.payload import Owner
from threegate.trail.trail import LockedTrail

DRAFT_EXPIRED = "draft_expired"
"""Why a draft was refused that no operator decided on within `approval.draft_ttl`."""
CHANGES_REQUESTED = "changes_requested"
"""Why a draft was ended for which an operator asked for changes."""
SUPERSEDED = "superseded"
"""Why a draft was ended of which an operator took a part as a draft of its own."""
_DECIDED: Final = {
    DRAFT_EXPIRED: (
        "no operator decided on it within approval.draft_ttl; draft it again: threegate draft --again {id}"
    ),
    CHANGES_REQUESTED: "changes were asked for; wait for the next draft, or: threegate draft --again {id}",
    SUPERSEDED: "a part of it was taken as a draft of its own; read that: threegate approve {part}",
}
"""What to do about a draft that ended so."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft's bytes, read once, and the file they came from."""

    path: Path
    data: bytes
    identity: tuple[int, ...]
    owner: Owner | None
    """The requester: the file's owner, the run in whose inbox it is, or for a draft made from a proposal, whoever the
    trail names.
    """
    placed: PlacedDraft | None = None
    """Set if it is never signed; `path` is then only where it is listed, and there is no file."""

    def expires_utc(self, ttl: int) -> datetime:
        """When it is refused if no operator decides: `ttl` seconds after its change time, which nobody can set."""
        return expiry(self.identity[-1], ttl)


def expiry(changed_ns: int, ttl: int) -> datetime:
    """`ttl` seconds after a file's change time, to the second."""
    return datetime.fromtimestamp(changed_ns // 10**9 + ttl, UTC)


@dataclass(frozen=True, slots=True)
class ReviewedDraft:
    """A valid draft with everything known about it."""

    draft: Draft
    report: Report
    request: Request
    job: Job
    inputs: tuple[InputCopy, ...]
    assessment: Assessment
    now: datetime
    run: KnownRun | None
    """The agent run that drafted it; None if none did."""
    differs: str | None
    """Differences from the last approved request of the same shape; None if there was none."""
    bound: Bound
    """What is known of it here besides."""
    novelty: Novelty
    """What is new about it here: that decides nothing, and is in no signed text."""
    unfit: Refused | None = None
    """Why it cannot be done as things are now."""
    fit: tuple[Finding, ...] = ()
    """What would keep it from running here, and as warnings what it would wait for (fitness.py)."""
    stopped: tuple[str, str] | None = None
    """Code and words of why nothing can be signed now."""
    daemon: DoctorLine | None = None
    """Whether a daemon runs that would start it; None: that was not looked at."""

    @property
    def owner(self) -> Owner | None:
        """Who drafted it."""
        return self.draft.owner


def read_draft(workspace: Workspace, path: Path) -> Draft:
    """Read a draft in inbox/ or tool-exec/drafts/, once. Raises InvalidInput."""
    path = path.absolute()
    folder = next((place for place in workspace.draft_folders() if _is_in(path, place)), None)
    if folder is None:
        raise InvalidInput(f"{path}: a draft must be a file in {workspace.inbox} or {workspace.drafts}; copy it there")
    if not is_request_name(path.name):
        raise InvalidInput(f"{path}: not the name of a request; rename it to TR-YYYYMMDD-HHMMSSZ-<slug>.md")
    placed = placed_at(workspace, path)
    try:
        with workspace.hold(folder if placed is None else placed.file(workspace).parent) as held:
            data, facts = held.read(path.name, max_bytes=limits.REQUEST_BYTES)
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror or error})") from None
    owner = workspace.run_of(folder) or facts.st_uid if placed is None else placed.owner
    return Draft(folder / path.name, data, _identity(facts), owner, placed)


def _identity(facts: os.stat_result) -> tuple[int, ...]:
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


@contextmanager
def open_reviewed_draft(
    context: Context,
    draft: Draft,
    valid: ValidDraft | None = None,
    *,
    compared: bool = True,
    deliver: Delivery | None = None,
) -> Iterator[ReviewedDraft]:
    """Validate, copy the inputs, build the Job, judge on trial. The copies exist until the block ends.

    `valid` is what `validate_draft` read from this very draft; then the draft is not read again, and the type
    check of its code, which is only for a screen, is skipped. `compared`: also look for differences from the
    last request of its shape, for a screen. `deliver` is what the person chooses that the change becomes.

    Raises Refused (with a reason code), InvalidInput for a draft that is not valid, Unavailable, TrailError.
    """
    report, request = valid or _validate_for_screen(context, draft)
    if deliver is not None:
        if "deliver" not in BACKENDS[request.backend].optional:
            raise InvalidInput(f"{draft.path.name}: changes no project, so there is nothing to deliver as {deliver}")
        request = replace(request, deliver=deliver)
    with copied_inputs(context.workspace, _places(context, draft, request), request.inputs) as copies:
        yield _reviewed(context, draft, report, request, copies, compared)


@contextmanager
def view_draft(context: Context, draft: Draft) -> Iterator[ReviewedDraft]:
    """The same for a reader who signs nothing: nothing gets a name."""
    report, request = _validate_for_screen(context, draft)
    with seen_inputs(context.workspace, _places(context, draft, request), request.inputs) as seen:
        yield _reviewed(context, draft, report, request, seen, compared=True)


class ValidDraft(NamedTuple):
    """Gate 1's findings in a draft that it accepts."""

    report: Report
    request: Request


def validate_draft(context: Context, draft: Draft) -> ValidDraft:
    """Validate a draft with gate 1. Raises InvalidDraft, Refused (not_yet_valid, clock_went_back), TrailError."""
    with context.trail.locked() as held:
        refuse_bad_clock(held)
        now = held.now
    report = context.read(draft.data, draft.path.name, "draft", now)
    request = report.request
    if request is None:
        raise InvalidDraft(draft.path, report)
    if request.created_utc > now:
        raise Refused("not_yet_valid", f"{draft.path.name}: created_utc is in the future; wait or fix it")
    return ValidDraft(report, request)


def _validate_for_screen(context: Context, draft: Draft) -> ValidDraft:
    """The same with the type checker's findings in its code, which decide nothing."""
    report, request = validate_draft(context, draft)
    return ValidDraft(replace(report, findings=(*report.findings, *type_findings(request))), request)


def _places(context: Context, draft: Draft, request: Request) -> dict[str, Path]:
    folder = draft.path.parent
    if draft.placed is not None:
        inputs = draft.placed.inputs(context.workspace)
        return {item.name: inputs / item.sha256 for item in request.inputs}
    return {item.name: context.workspace.input_place(folder, item.name, item.sha256) for item in request.inputs}


class InvalidDraft(InvalidInput):
    """Gate 1 refused the draft; `report` says why."""

    def __init__(self, path: Path, report: Report) -> None:
        errors = [finding for finding in report.findings if finding.severity == "error"]
        first = errors[0]
        super().__init__(
            f"{path}:{first.line}:{first.column}: {first.rule}: {first.message}"
            f" ({len(errors)} errors; all of them: threegate validate {shlex.quote(str(path))})"
        )
        self.report = report


def refuse_bad_clock(held: LockedTrail) -> None:
    """Refuse to sign while the clock is behind the trail. Raises Refused."""
    if held.clock_behind_seconds > limits.CLOCK_BEHIND_SECONDS:
        behind = f"the clock is {held.clock_behind_seconds:.0f} s behind the trail"
        raise Refused("clock_went_back", f"{behind}; set it (timedatectl); nothing is approved until then")


def _reviewed(
    context: Context, draft: Draft, report: Report, request: Request, copies: tuple[InputCopy, ...], compared: bool
) -> ReviewedDraft:
    settings, contracts = context.policy.settings, context.contracts
    opened = {copy.name: copy for copy in copies}

    def open_input(item: InputFile) -> BinaryIO:
        return opened[item.name].open()

    _refuse_bad_tars(request, open_input)
    unread = unread_inputs(request, open_input)
    bound = Binding(context.workspace, settings, context.trail, request, open_input, draft.owner).bound()
    with context.trail.locked() as held:
        now = held.now
        history = held.index.history(request.request_id)
        if draft.placed is None:
            refuse_used(held, request)
        if draft.path.parent != context.workspace.drafts:
            refuse_anothers(history, draft)
        proposal = history.proposal_sha256 if history else None
        check_draft(
            context.workspace,
            draft.path,
            draft.data,
            request,
            {copy.name: copy.path for copy in copies},
            settings=settings,
            recorded_sha256=proposal,
        )
        job = build_job(
            replace(request, action=bound.action),
            input_sizes={copy.sha256: copy.size for copy in copies},
            platform=platforms(settings, request.backend).now[0],
            write_class=contracts.write_class(context.policy, request),
            time_cap_sec=contracts.time_cap_sec(context.policy, request),
            proposal_sha256=proposal,
            unread=unread,
        )
        if proposal is not None and history is not None and history.owner is not None:
            # The daemon wrote the draft; the requester is the one that the trail names.
            draft = replace(draft, owner=history.owner)
        run = held.index.run(draft.owner)
        refuse_other_project(request, run)
        decision, _ = contracts.decide(held, context.policy, request, job, now, owner=draft.owner)
        stopped = operators_problem(context.workspace, held)
        past = past_of(held.index)
    facts = machine_facts(context.workspace, settings, request, owner=draft.owner, risk=job.effective_risk)
    return ReviewedDraft(
        draft=draft,
        report=report,
        request=request,
        job=job,
        inputs=copies,
        assessment=assess_on_trial(context, request, job, decision, now, approved_utc=now),
        run=run,
        now=now,
        differs=differs_from_last(context.workspace, request) if compared else None,
        bound=bound,
        novelty=novelty_of(request, job, open_input, past, owner=draft.owner, run=run, settings=settings),
        unfit=bound.why_unfit(),
        fit=fitness(request, facts, open_input),
        stopped=stopped,
        daemon=daemon_line(context.workspace),
    )


def assess_on_trial(
    context: Context,
    request: Request,
    job: Job,
    decision: Decision,
    now: datetime,
    *,
    approved_utc: datetime | None,
) -> Assessment:
    """What the gates would say if an operator signed it."""
    return assess(
        request,
        job,
        context.policy,
        decision,
        authorization="confirmed",
        approval_sha256="0" * 64,
        approved_utc=approved_utc,
        side_effect_above_read=context.contracts.write_class(context.policy, request),
        now=now,
    )


def _refuse_bad_tars(request: Request, open_input: OpenInput) -> None:
    """An archive that cannot be unpacked is not signed. Raises Refused (input_unfit)."""
    for item in request.inputs:
        if item.unpack:
            try:
                with open_input(item) as stream:
                    read_tar(stream)
            except TarError as error:
                message = f"{item.name}: cannot be unpacked: {error}; ask for another archive"
                raise Refused("input_unfit", message) from None


def _is_in(path: Path, folder: Path) -> bool:
    return os.path.realpath(path.parent) == os.path.realpath(folder)


def refuse_judged(reviewed: ReviewedDraft) -> None:
    """A request that the gates would refuse anyway is not signed (docs/spec/3-aana.md). Raises Refused."""
    if reviewed.unfit is not None:
        raise reviewed.unfit
    refuse_unfit(reviewed.fit)
    if reviewed.stopped is not None:  # the launch checks of `promote` would refuse it, but after the signature
        raise Refused(*reviewed.stopped)
    assessment = reviewed.assessment
    contract = assessment.contract
    passing = {item.code for item in contract.reasons} <= PASSING
    if not assessment.contract_holds and contract.verdict != "checkpoint" and not passing:
        code = contract.code or "contract_blocked"
        where = f" at {contract.reasons[0].path}" if contract.reasons and contract.reasons[0].path else ""
        command = "contracts check" if code == "contracts_do_not_compile" else f"validate --explain {code}"
        raise Refused(code, f"the contract gate blocks this call: {code}{where}; see: threegate {command}")
    if assessment.route != "accept" or assessment.gate_decision != "pass" or assessment.blockers:
        code = assessment.blockers[0] if assessment.blockers else f"aana_{assessment.route}"
        raise Refused(code, f"AANA says {assessment.route} ({code}); it would not run if approved")


def refuse_anothers(history: RequestHistory | None, draft: Draft) -> None:
    """An id belongs to the owner of the first file that used it, who is the requester. Raises Refused (replayed)."""
    first = history.owner if history is not None else None
    if first is not None and first != draft.owner:
        raise Refused(
            "replayed",
            f"{draft.path.name}: its request_id was first used by {who_asks(first)}, and this file belongs to "
            f"{who_asks(draft.owner)}; make a new request with: threegate draft",
        )


def who_asks(owner: Owner | None) -> str:
    """The owner of a draft, in words."""
    return f"the agent's run {owner}" if isinstance(owner, str) else f"the account with uid {owner}"


def refuse_used(held: LockedTrail, request: Request) -> None:
    """An id and a file name are used once, in a history that can be read. Raises Refused (replayed, unknown_event)."""
    refuse_unknown_event(held.index.history(request.request_id))
    if held.index.id_used(request.request_id):
        history = held.index.history(request.request_id)
        ended = Rejected.of(history.end) if history is not None else None
        if ended is not None and ended.reason in _DECIDED:
            part = ended.part.request_id if ended.part is not None else None
            raise Refused(
                ended.reason,
                f"{request.file_name}: {_DECIDED[ended.reason].format(id=request.request_id, part=part)}",
            )
        raise Refused(
            "replayed",
            f"request_id {request.request_id} was used before; make a new one: "
            f"threegate draft --again {request.request_id}",
        )
    if held.index.name_used(request.file_name):
        raise Refused("replayed", f"the file name {request.file_name} was used before; rename the draft")


def take_draft_away(workspace: Workspace, draft: Draft) -> bool:
    """Unlink the draft, but only if inode and digest are those that were read; return whether it is gone."""
    name = draft.path.name
    try:
        with workspace.hold(draft.path.parent) as folder:
            try:
                data, facts = folder.read(name, max_bytes=limits.REQUEST_BYTES)
            except FileNotFoundError:
                return True
            except OSError:
                return False
            if _identity(facts) != draft.identity or data != draft.data:
                return False
            folder.unlink(name)
    except OSError as error:
        raise Unavailable(f"{draft.path}: cannot be removed ({error.strerror}); remove it yourself") from None
    return True
