"""What an operator sees before signing, part by part: everything that is signed, and what is known about it.

Invariant: every field of the Job has its place here (a test fails when one has none). These parts are the one source
of the plain screen (screen.py), of the terminal application and of the operator's page. Foreign words, not yet escaped,
are in `Field`, `Listing` and `Quote` only, as their `value` or `text`, never in a label or a head; everything else is ours.
What ThreeGate says comes first, the request's words about itself come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from threegate.approval import format_utc
from threegate.core.settings import Settings
from threegate.request.exposure import Exposure, exposure_of
from threegate.request.job import Job
from threegate.request.model import Request
from threegate.review.preview import previews
from threegate.review.reviewed_draft import ReviewedDraft
from threegate.runners.egress.secret_header import secret_name

LIMIT: Final = 60
"""Lines of a long text that the short screen shows."""
_FEW: Final = 12
_PREVIEW: Final = 10


@dataclass(frozen=True, slots=True)
class Field:
    """A label of ours and a foreign value; the short screen shows at most `most` lines of it."""

    label: str
    value: str
    most: int = _FEW


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and a value of ours."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Listing:
    """A line of ours and a foreign text with numbered lines: code, or the words of a command. `label` names it elsewhere."""

    head: str
    text: str
    label: str
    most: int = LIMIT


@dataclass(frozen=True, slots=True)
class Quote:
    """Foreign text, below a line of ours where there is one."""

    text: str
    head: str = ""
    most: int | None = LIMIT
    label: str = "a text"


@dataclass(frozen=True, slots=True)
class Note:
    """A line of ours."""

    text: str


Item = Field | Fact | Listing | Quote | Note


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of ours and what stands below it."""

    title: str
    items: tuple[Item, ...]


def review_sections(reviewed: ReviewedDraft, settings: Settings, *, operator: str) -> list[Section]:
    """Everything that `operator` has to see of a draft, in the order of the screen."""
    warnings = list(_warnings(reviewed, operator))
    runs = [item for show in JOB_FIELDS.values() for item in show(reviewed, settings)]
    sections = [
        Section("REQUEST", tuple(_about(reviewed))),
        Section(f"WARNINGS ({len(warnings)})", tuple(item for warning in warnings for item in warning)),
        Section("WHAT RUNS", tuple(runs)),
        Section("WHAT THE JUDGEMENT WOULD SAY NOW", tuple(_judgement(reviewed))),
        Section("WHAT YOU WOULD SIGN", tuple(_approval(reviewed, settings, operator))),
        Section("WHAT THE REQUEST SAYS ABOUT ITSELF", tuple(_own_words(reviewed))),
    ]
    return [section for section in sections if section.items]


def _about(reviewed: ReviewedDraft) -> Iterator[Item]:
    declared, effective = reviewed.request.risk_level, reviewed.job.effective_risk
    yield Fact(
        "risk", effective if effective == declared else f"{effective} (the request declares {declared})"
    )
    yield from exposure_items(job_exposure(reviewed.request, reviewed.job))
    yield Fact("owner", f"uid {reviewed.owner_uid}; the file is in {reviewed.draft.path.parent.name}/")
    if reviewed.first_seen:
        yield Fact("last seen", f"in the trail at {reviewed.first_seen}")
    if reviewed.named_by_text:
        yield Field("asked by", reviewed.requester)
        yield Note("(this name is only what the file says: threegate.toml has no requesters.<uid>)")
    else:
        yield Fact("asked by", reviewed.requester)
    yield Field("file", reviewed.request.file_name)


def job_exposure(request: Request, job: Job) -> Exposure:
    """Opacity and reach of a Job: those of its request, with what is not shown of its inputs and the secret of its proxy."""
    secret = secret_name(job.tool, job.proposal_sha256)
    return exposure_of(request).with_unread(job.unread).with_secret(secret)


def exposure_items(exposure: Exposure) -> Iterator[Item]:
    """Both facts, and the inputs that have to be read whole for the first one to hold. A reason may name foreign things."""
    if exposure.opaque:
        yield Fact("opacity", "opaque: code may run that is not on the screen, because")
        yield Field("", exposure.why)
    elif exposure.scripts:
        yield Fact("opacity", "transparent, once you have read whole:")
        yield Field("", "\n".join(f"/in/{name}" for name in exposure.scripts), LIMIT)
    else:
        yield Fact("opacity", f"transparent ({exposure.why})")
    if exposure.reach:
        yield Field("reach", "\n".join(exposure.reach), LIMIT)
    else:
        yield Fact("reach", "nothing")


def read_all(file_name: str, name: str) -> Field:
    """The command that pages through an input of a request, all of it. Neither name holds what a shell obeys."""
    return Field("read with", f"threegate show {file_name} --input={name}", LIMIT)


def _own_words(reviewed: ReviewedDraft) -> Iterator[Item]:
    request = reviewed.request
    yield Field("id", request.request_id)
    yield Fact("created", format_utc(request.created_utc))
    yield Field("purpose", request.purpose)
    yield Field("because", request.justification, LIMIT)
    if request.network_rationale:
        yield Field("network why", request.network_rationale, LIMIT)
    for item in request.constraints:
        yield Field("constraint", item, LIMIT)
    for output in request.outputs:
        if output.description:
            yield Field("output", f"{output.path}: {output.description}", LIMIT)
    for number, evidence in enumerate(request.evidence, start=1):
        yield Field(f"evidence {number}", repr(evidence), LIMIT)
    if request.risk_domain:
        yield Field("risk domain", request.risk_domain)


_Warning = tuple[Item, ...]


def _warnings(reviewed: ReviewedDraft, operator: str) -> Iterator[_Warning]:
    """What has to be seen first. What is not shown whole is the very first."""
    request, job = reviewed.request, reviewed.job
    for item, (found, _) in zip(request.inputs, previews(request.inputs, reviewed.inputs), strict=True):
        if found.why:
            yield (
                Note("NOT SHOWN WHOLE:"),
                Field("input", f"/in/{item.name}"),
                Note(found.why),
                read_all(request.file_name, item.name),
            )
    if request.unusual_program:
        yield (
            Note("the program is not among request.programs, or comes from /in: nobody here vouches for it"),
        )
    if reviewed.image_has_program is False and job.argv:
        yield (Quote(job.argv[0], "the sandbox image has no such program, the run could only fail:", None),)
    if job.effective_risk != request.risk_level:
        yield (Note(f"declared risk {request.risk_level}, effective risk {job.effective_risk}"),)
    if job.network:
        yield (Quote("\n".join(job.network), "it reaches the network:", None),)
    yield from _foreign_letters(reviewed)
    if reviewed.requester == operator:
        yield (Note("you asked for this yourself: it cannot run with your approval"),)
    if request.approved_by or request.approved_utc:
        yield (Note("the drafter filled in approval keys; they mean nothing and are replaced"),)
    for finding in reviewed.report.findings:
        if finding.severity == "warning":
            yield (Quote(finding.message, f"{finding.rule} line {finding.line}:", None),)


def _foreign_letters(reviewed: ReviewedDraft) -> Iterator[_Warning]:
    """Letters that may look like others: a look-alike in a name is another name."""
    job = reviewed.job
    for label, text in (
        ("command", "\n".join(job.argv or ())),
        ("code", job.code or ""),
        ("Inputs", job.vars_json or ""),
    ):
        strange = sorted({char for char in text if char > "~"})
        if strange:
            names = ", ".join(f"U+{ord(char):04X}" for char in strange[:6])
            yield (
                Note(
                    f"the {label} has {len(strange)} kinds of characters outside ASCII ({names}): they may look like others"
                ),
            )


_Show = Callable[[ReviewedDraft, Settings], list[Item]]


def _foreign(label: str, value: Callable[[Job], str | None], none: str = "") -> _Show:
    """What the request chose; `none` is said of what it left out."""

    def show(reviewed: ReviewedDraft, settings: Settings) -> list[Item]:
        del settings
        text = value(reviewed.job)
        return [Field(label, text, LIMIT)] if text else [Fact(label, none)] if none else []

    return show


def _ours(label: str, value: Callable[[Job], str | None]) -> _Show:
    """What ThreeGate, its settings or this machine decide, and words of a closed list."""

    def show(reviewed: ReviewedDraft, settings: Settings) -> list[Item]:
        del settings
        text = value(reviewed.job)
        return [Fact(label, text)] if text else []

    return show


def _argv(reviewed: ReviewedDraft, settings: Settings) -> list[Item]:
    del settings
    words = reviewed.job.argv
    if words is None:
        return []
    items: list[Item] = [
        Listing(f"the command, {len(words)} words, run without a shell:", "\n".join(words), "the command")
    ]
    if reviewed.image_has_program is None:
        items.append(Note("whether the sandbox image has this program is not known"))
    return items


def _code(reviewed: ReviewedDraft, settings: Settings) -> list[Item]:
    del settings
    code = reviewed.job.code
    if code is None:
        return []
    count = code.removesuffix("\n").count("\n") + 1
    return [Listing(f"the code, {count} lines:", code, "the code")]


def _vars(reviewed: ReviewedDraft, settings: Settings) -> list[Item]:
    del settings
    text = reviewed.job.vars_json
    return (
        []
        if text is None
        else [Quote(text, f"the Inputs (JSON), {len(text)} characters:", label="the Inputs")]
    )


def _inputs(reviewed: ReviewedDraft, settings: Settings) -> list[Item]:
    del settings
    shown = previews(reviewed.request.inputs, reviewed.inputs)
    if not reviewed.job.inputs:
        return [Note("no input files")]
    items: list[Item] = [Note(f"input files ({len(reviewed.job.inputs)}):")]
    for number, (item, (found, parts)) in enumerate(zip(reviewed.job.inputs, shown, strict=True), start=1):
        items += [
            Field("file", f"/in/{item.name}" + (" (unpacked)" if item.unpack else "")),
            Fact("size", f"{item.size} bytes"),
            Fact("sha256", item.sha256),
        ]
        if found.why:
            items.append(Note(f"not shown whole: {found.why}"))
        for part in parts:
            if part.path:
                items.append(Field("inside", part.path))
            label = f"input {number}"
            items.append(Listing(part.head, part.text, label, _PREVIEW) if part.text else Note(part.head))
    return items


def _limits(reviewed: ReviewedDraft, settings: Settings) -> list[Item]:
    held, most = reviewed.job.limits, settings.request
    return [
        Fact("cpu", f"{held.cpu} cores (at most {most.max_cpu:g} here)"),
        Fact("memory", f"{held.memory_mb} MiB (at most {most.max_memory_mb} here)"),
        Fact("time", f"{held.time_sec} s (at most {most.max_time_sec} here)"),
        Fact("processes", f"{held.processes}; open files {held.open_files}"),
        Fact(
            "/out", f"{held.out_files} files, {held.out_bytes} bytes together, {held.file_bytes} bytes each"
        ),
        Fact("streams", f"{held.stream_bytes} bytes of stdout and stderr"),
    ]


JOB_FIELDS: dict[str, _Show] = {
    "backend": _ours("backend", lambda job: job.backend),
    "argv": _argv,
    "code": _code,
    "vars_json": _vars,
    "workdir": _foreign("starts in", lambda job: job.workdir),
    "inputs": _inputs,
    "unread": _foreign("not shown", lambda job: "\n".join(f"/in/{name}" for name in job.unread)),
    "outputs": _foreign("outputs", lambda job: "\n".join(job.outputs), "none declared"),
    "limits": _limits,
    "network": _foreign("network", lambda job: "\n".join(job.network), "none"),
    "environment": _ours(
        "environment",
        lambda job: "\n".join(f"{name}={value}" for name, value in sorted(job.environment.items())),
    ),
    "image": _ours("image", lambda job: job.image),
    "egress_image": _ours("egress image", lambda job: job.egress_image),
    "runtime": _ours("OCI runtime", lambda job: job.runtime),
    "seccomp_sha256": _ours("seccomp", lambda job: job.seccomp_sha256),
    "tool": _foreign("tool", lambda job: job.tool),
    "session_id": _foreign("session", lambda job: job.session_id),
    "labels": _foreign("labels", lambda job: "\n".join(job.labels)),
    "workflow": _foreign("workflow", lambda job: job.workflow),
    "role": _foreign("role", lambda job: job.role),
    "requested_by": _foreign("requester", lambda job: job.requested_by),
    "effective_risk": _ours("risk", lambda job: job.effective_risk),
    "data_sensitivity": _ours("data", lambda job: job.data_sensitivity),
    "proposal_sha256": _ours("proposal", lambda job: job.proposal_sha256),
}
"""How each field of the Job is shown."""


def _judgement(reviewed: ReviewedDraft) -> Iterator[Item]:
    assessment = reviewed.assessment
    yield Fact("AANA", f"{assessment.route}, gate {assessment.gate_decision}")
    for text in (*assessment.blockers, *assessment.aana_reasons):
        yield Fact("reason", text)
    contract = assessment.contract
    shadow = " (shadow: blocks nothing)" if assessment.shadow else ""
    yield Fact("contracts", f"{contract.verdict}{shadow}")
    for reason in contract.reasons:
        yield Fact("reason", reason.code)
        if reason.path:
            yield Field("at", reason.path)


def _approval(reviewed: ReviewedDraft, settings: Settings, operator: str) -> Iterator[Item]:
    needed: int = getattr(settings.approval.quorum, reviewed.job.effective_risk)
    until = reviewed.now + timedelta(seconds=settings.approval.ttl)
    yield Fact("as", operator)
    yield Fact("holds until", f"{format_utc(until)} (counted from your yes)")
    yield Fact("signatures", f"{needed} needed for risk {reviewed.job.effective_risk}")
    yield Fact("draft", reviewed.request.sha256)
    yield Fact("job", reviewed.job.digest)
