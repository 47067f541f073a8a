"""What an operator sees before signing, part by part: everything that is signed, and what is known about it.

Invariant: every field of the Job has its place here (a test fails when one has none). These parts are the one source
of the plain screen (screen.py), of the terminal application and of the operator's page; foreign words stand in `value`
and `text` only, never in a label, a heading or a note of ours, and are not yet escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from threegate.approval import format_utc
from threegate.core.settings import Settings
from threegate.request.exposure import Exposure, exposure_lines, exposure_of
from threegate.request.job import Job
from threegate.request.model import Request
from threegate.review.preview import preview
from threegate.review.reviewed_draft import ReviewedDraft, missing_program_text
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
class Listing:
    """A line of ours and a foreign text with numbered lines: code, or the words of a command."""

    head: str
    text: str


@dataclass(frozen=True, slots=True)
class Quote:
    """Foreign text, below a line of ours where there is one."""

    text: str
    head: str = ""
    most: int | None = LIMIT
    indent: int = 2


@dataclass(frozen=True, slots=True)
class Note:
    """A line of ours."""

    text: str


Item = Field | Listing | Quote | Note


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of ours (only the first one names the file) and what stands below it."""

    title: str
    items: tuple[Item, ...]


def review_sections(reviewed: ReviewedDraft, settings: Settings, *, operator: str) -> list[Section]:
    """Everything that `operator` has to see of a draft, in the order of the screen."""
    request = reviewed.request
    about = [
        Field("id", request.request_id),
        Field("asked by", _provenance(reviewed)),
        Field("created", format_utc(request.created_utc)),
        Field("purpose", request.purpose),
    ]
    sections = [Section(f"REQUEST {request.file_name}", tuple(about))]
    warnings = _warnings(reviewed, operator)
    if warnings:
        sections.append(
            Section(f"WARNINGS ({len(warnings)})", tuple(Quote(text, most=None) for text in warnings))
        )
    runs = [item for show in JOB_FIELDS.values() for item in show(reviewed, settings)]
    return [
        *sections,
        Section("WHAT RUNS", (*exposure_items(job_exposure(request, reviewed.job)), *runs)),
        Section("WHAT THE REQUEST SAYS ABOUT ITSELF", tuple(_own_words(reviewed))),
        Section("WHAT THE JUDGEMENT WOULD SAY NOW", tuple(_judgement(reviewed))),
        Section("WHAT YOU WOULD SIGN", tuple(_approval(reviewed, settings, operator))),
    ]


def job_exposure(request: Request, job: Job) -> Exposure:
    """Opacity and reach of a Job: those of its request, with the sizes of its inputs and the secret of its proxy."""
    sizes = {item.name: item.size for item in job.inputs}
    return exposure_of(request).with_sizes(sizes).with_secret(secret_name(job))


def exposure_items(exposure: Exposure) -> Iterator[Item]:
    """One line for each fact, and the inputs that have to be read whole for the first one to hold."""
    opacity, reach = exposure_lines(exposure)
    yield Field("opacity", opacity)
    yield Field("reach", reach)
    if exposure.scripts:
        yield Field("read whole", "\n".join(f"/in/{name}" for name in exposure.scripts), LIMIT)


def _own_words(reviewed: ReviewedDraft) -> Iterator[Item]:
    request = reviewed.request
    yield Field("declares", f"risk {request.risk_level}")
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


def _provenance(reviewed: ReviewedDraft) -> str:
    who = f"{reviewed.requester}, owner uid {reviewed.owner_uid}"
    if reviewed.named_by_text:
        who += " (the name is only what the file says: no requesters.<uid> in threegate.toml)"
    who += f"; in {reviewed.draft.path.parent.name}/"
    if reviewed.first_seen:
        who += f"; last in the trail at {reviewed.first_seen}"
    if reviewed.proposal_sha256:
        who += f"; made from proposal {reviewed.proposal_sha256}"
    return who


def _warnings(reviewed: ReviewedDraft, operator: str) -> list[str]:
    request, job = reviewed.request, reviewed.job
    found: list[str] = []
    if request.unusual_program:
        found.append(
            "the program is not among request.programs, or comes from /in: nobody here vouches for it"
        )
    if reviewed.image_has_program is False and job.argv:
        found.append(missing_program_text(job.argv[0]))
    exposure = job_exposure(request, job)
    if exposure.opaque and not exposure_of(request).opaque:
        found.append(f"not all code that runs is on the screen: {exposure.why}")
    if job.effective_risk != request.risk_level:
        found.append(f"declared risk {request.risk_level}, effective risk {job.effective_risk}")
    if job.network:
        found.append(f"it reaches the network: {', '.join(job.network)}")
    found += _foreign_letters(reviewed)
    if reviewed.requester == operator:
        found.append("you asked for this yourself: it cannot run with your approval")
    if request.approved_by or request.approved_utc:
        found.append("the drafter filled in approval keys; they mean nothing and are replaced")
    found += [
        f"{finding.rule} line {finding.line}: {finding.message}"
        for finding in reviewed.report.findings
        if finding.severity == "warning"
    ]
    return found


def _foreign_letters(reviewed: ReviewedDraft) -> list[str]:
    """Letters that may look like others: a look-alike in a name is another name."""
    job = reviewed.job
    found = []
    for label, text in (
        ("command", "\n".join(job.argv or ())),
        ("code", job.code or ""),
        ("Inputs", job.vars_json or ""),
    ):
        strange = sorted({char for char in text if char > "~"})
        if strange:
            names = ", ".join(f"U+{ord(char):04X}" for char in strange[:6])
            found.append(
                f"the {label} has {len(strange)} kinds of characters outside ASCII ({names}): they may look like others"
            )
    return found


_Show = Callable[[ReviewedDraft, Settings], list[Item]]


def _simple(label: str, value: Callable[[Job], str | None]) -> _Show:
    def show(reviewed: ReviewedDraft, settings: Settings) -> list[Item]:
        del settings
        text = value(reviewed.job)
        return [Field(label, text, LIMIT)] if text else []

    return show


def _argv(reviewed: ReviewedDraft, settings: Settings) -> list[Item]:
    del settings
    words = reviewed.job.argv
    if words is None:
        return []
    items: list[Item] = [Listing(f"the command, {len(words)} words, run without a shell:", "\n".join(words))]
    if reviewed.image_has_program is None:
        items.append(Note("whether the sandbox image has this program is not known"))
    return items


def _code(reviewed: ReviewedDraft, settings: Settings) -> list[Item]:
    del settings
    code = reviewed.job.code
    if code is None:
        return []
    count = code.removesuffix("\n").count("\n") + 1
    return [Listing(f"the code, {count} lines:", code)]


def _vars(reviewed: ReviewedDraft, settings: Settings) -> list[Item]:
    del settings
    text = reviewed.job.vars_json
    return [] if text is None else [Quote(text, f"the Inputs (JSON), {len(text)} characters:")]


def _inputs(reviewed: ReviewedDraft, settings: Settings) -> list[Item]:
    del settings
    if not reviewed.job.inputs:
        return [Note("no input files")]
    items: list[Item] = [Note(f"input files ({len(reviewed.job.inputs)}):")]
    for item, copy in zip(reviewed.job.inputs, reviewed.inputs, strict=True):
        kind, text = preview(copy, unpack=item.unpack)
        items += [
            Field("file", f"/in/{item.name}" + (" (unpacked)" if item.unpack else "")),
            Field("size", f"{item.size} bytes"),
            Field("sha256", item.sha256),
            Quote(text, f"{kind}:", most=_PREVIEW, indent=4),
        ]
    return items


def _limits(reviewed: ReviewedDraft, settings: Settings) -> list[Item]:
    held, most = reviewed.job.limits, settings.request
    return [
        Field("cpu", f"{held.cpu} cores (at most {most.max_cpu:g} here)"),
        Field("memory", f"{held.memory_mb} MiB (at most {most.max_memory_mb} here)"),
        Field("time", f"{held.time_sec} s (at most {most.max_time_sec} here)"),
        Field("processes", f"{held.processes}; open files {held.open_files}"),
        Field(
            "/out", f"{held.out_files} files, {held.out_bytes} bytes together, {held.file_bytes} bytes each"
        ),
        Field("streams", f"{held.stream_bytes} bytes of stdout and stderr"),
    ]


JOB_FIELDS: dict[str, _Show] = {
    "backend": _simple("backend", lambda job: job.backend),
    "argv": _argv,
    "code": _code,
    "vars_json": _vars,
    "workdir": _simple("starts in", lambda job: job.workdir),
    "inputs": _inputs,
    "outputs": _simple("outputs", lambda job: "\n".join(job.outputs) or "none declared"),
    "limits": _limits,
    "network": _simple("network", lambda job: "\n".join(job.network) or "none"),
    "environment": _simple(
        "environment",
        lambda job: "\n".join(f"{name}={value}" for name, value in sorted(job.environment.items())),
    ),
    "image": _simple("image", lambda job: job.image),
    "egress_image": _simple("egress image", lambda job: job.egress_image),
    "runtime": _simple("OCI runtime", lambda job: job.runtime),
    "seccomp_sha256": _simple("seccomp", lambda job: job.seccomp_sha256),
    "tool": _simple("tool", lambda job: job.tool),
    "session_id": _simple("session", lambda job: job.session_id),
    "labels": _simple("labels", lambda job: "\n".join(job.labels)),
    "workflow": _simple("workflow", lambda job: job.workflow),
    "role": _simple("role", lambda job: job.role),
    "requested_by": _simple("requester", lambda job: job.requested_by),
    "effective_risk": _simple("risk", lambda job: job.effective_risk),
    "data_sensitivity": _simple("data", lambda job: job.data_sensitivity),
    "proposal_sha256": _simple("proposal", lambda job: job.proposal_sha256),
}
"""How each field of the Job is shown."""


def _judgement(reviewed: ReviewedDraft) -> Iterator[Item]:
    assessment = reviewed.assessment
    yield Field("AANA", f"{assessment.route}, gate {assessment.gate_decision}")
    for text in (*assessment.blockers, *assessment.aana_reasons):
        yield Field("reason", text)
    contract = assessment.contract
    shadow = " (shadow: blocks nothing)" if assessment.shadow else ""
    yield Field("contracts", f"{contract.verdict}{shadow}")
    for reason in contract.reasons:
        yield Field("reason", f"{reason.code} {reason.path}".strip())


def _approval(reviewed: ReviewedDraft, settings: Settings, operator: str) -> Iterator[Item]:
    needed: int = getattr(settings.approval.quorum, reviewed.job.effective_risk)
    until = reviewed.now + timedelta(seconds=settings.approval.ttl)
    yield Field("as", operator)
    yield Field("holds until", f"{format_utc(until)} (counted from your yes)")
    yield Field("signatures", f"{needed} needed for risk {reviewed.job.effective_risk}")
    yield Field("draft", reviewed.request.sha256)
    yield Field("job", reviewed.job.digest)
