"""What an operator sees of a request, part by part: the card, what runs, its limits, and the request's own words.

Invariant: `request_sections` without `Beside` is a pure function of what the signature binds (request, Job, policy,
operator, requester): it is the text whose digest is signed (`shown_sha256`), so a launch recreates it and refuses any
difference. That text has logical lines: no width, no color, no elapsed time; it identifies every input by size and
digest, and their bytes are shown next to it. `Beside` only inserts lines, so everything that is signed is on the
screen. Every field of the Job has its place (a test fails if one has none).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from threegate.approval.facts import requester_of
from threegate.approval.shown.escaped_lines import render_sections
from threegate.approval.statement import format_utc
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.screen_parts import LIMIT, Fact, Field, Item, Listing, Note, Quote, Section
from threegate.core.settings import Settings
from threegate.request.action import Action
from threegate.request.backend import BACKENDS
from threegate.request.exposure import Exposure, secret_name
from threegate.request.job import WATCHED, Job, JobLimits, risk_reasons
from threegate.request.model import Delivery, Request, exposure_of
from threegate.trail.index import KnownRun
from threegate.trail.payloads.payload import Owner

Warning_ = tuple[Item, ...]
"""Something to see first: a line in our own words, and foreign words below it."""


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """A request as the signed text describes it."""

    request: Request
    job: Job
    operator: str
    """Who signs."""
    requester: str
    named_by_text: bool
    """True if the requester's name comes from the file, because the settings have no name for its owner."""
    signatures: int
    """How many signatures the quorum requires."""
    run: str = ""
    """Which run of which agent made the request; empty if none did."""
    settings: tuple[Item, ...] = ()
    """What of the settings it runs with that is neither in its Job nor in the policy digest."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What the screen adds to the signed text: current facts, and bytes that the text identifies by digest."""

    card: tuple[Item, ...] = ()
    warnings: tuple[Warning_, ...] = ()
    inputs: Mapping[str, tuple[Item, ...]] = field(default_factory=dict)
    """What is shown of each input, by name."""
    digests: tuple[Item, ...] = ()
    judgement: Section | None = None
    claims: Section | None = None
    """What others report about themselves, apart from the request, such as a server about its tool."""


_NOTHING: Final = Beside()
_CHOSEN: Final[Mapping[Delivery, str]] = {
    "tree": "new files in the project",
    "branch": "one commit on a new branch",
    "commits": "each commit of the agent on a new branch",
}


def request_sections(view: ShownRequest, beside: Beside = _NOTHING) -> list[Section]:
    """Everything that an operator must see of a request, in the order of the screen."""
    job = view.job
    warnings = [*_warnings(view), *beside.warnings]
    runs: list[Item] = []
    walls = list(job.action.walls())
    for name, show in JOB_FIELDS.items():
        shown = _inputs(job, beside) if name == "inputs" else show(job)
        (walls if name in _WALLS else runs).extend(shown)
    if not view.request.signature_needed:
        walls += (fact for fact in _more_limits(job.limits) if fact in _USUAL_LIMITS)
    walls += (Field("digest of", f"/in/{item.name}: {item.sha256}") for item in job.inputs)
    walls += (*view.settings, *job.action.digests(), Fact("job", job.digest), *beside.digests)
    sections = [
        Section("REQUEST", (*_card(view), *beside.card)),
        Section("WARNINGS", tuple(item for warning in warnings for item in warning)),
        Section("WHAT RUNS", tuple(runs)),
        Section("WALLS", tuple(walls), folded=f"{len(walls)} walls and digests as always"),
        *([beside.judgement] if beside.judgement else ()),
        Section("WHAT THE REQUEST SAYS ABOUT ITSELF", tuple(_own_words(view))),
        *([beside.claims] if beside.claims else ()),
    ]
    return [section for section in sections if section.items]


def job_exposure(request: Request, job: Job) -> Exposure:
    """Opacity and reach of a Job: those of its request, plus inputs that are not shown in full and the secret
    of its proxy.
    """
    secret = secret_name(job.tool, job.proposal_sha256)
    return exposure_of(replace(request, action=job.action)).with_unread(job.unread).with_secret(secret)


def exposure_items(exposure: Exposure) -> Iterator[Item]:
    """Both facts, and the inputs that must be read in full for the first one to hold. A reason may contain
    foreign names.
    """
    if exposure.reach:
        yield Field("reach", "\n".join(exposure.reach), LIMIT)
    else:
        yield Fact("reach", "nothing")
    if exposure.opaque:
        yield Fact("opacity", "opaque: code may run that is not on the screen, because")
        yield Field("", exposure.why)
    elif exposure.scripts:
        yield Fact("opacity", "transparent, once you have read whole:")
        yield Field("", "\n".join(f"/in/{name}" for name in exposure.scripts), LIMIT)
    else:
        yield Fact("opacity", f"transparent ({exposure.why})")


def read_all(file_name: str, name: str) -> Field:
    """The command that pages through a whole input of a request. Neither name contains shell syntax."""
    return Field("read with", f"threegate show {file_name} --input={name}", LIMIT)


def _card(view: ShownRequest) -> Iterator[Item]:
    exposure = job_exposure(view.request, view.job)
    yield from exposure_items(exposure)
    yield from view.job.action.card()
    if view.request.deliver is not None:
        yield Fact("chosen", f"{_CHOSEN[view.request.deliver]} (deliver: {view.request.deliver})")
    declared, effective = view.request.risk_level, view.job.effective_risk
    if declared == effective:
        risk = f"{effective}, as declared"
    else:
        does = replace(view.request, action=view.job.action)
        why = [why for level, why in risk_reasons(does, exposure) if level == effective]
        risk = f"{effective}, declared {declared}: {' and '.join(why) or 'its tool changes things outside'}"
    yield Fact("risk", risk)
    if view.named_by_text:
        yield Field("asked by", f"{view.requester} (as the file says)")
    else:
        yield Fact("asked by", f"{view.requester}, {view.run}" if view.run else view.requester)
    signed = "1 signature is" if view.signatures == 1 else f"{view.signatures} signatures are"
    yield Fact("you sign as", f"{view.operator}; {signed} needed")


def _own_words(view: ShownRequest) -> Iterator[Item]:
    request = view.request
    yield Field("file", request.file_name)
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


def _warnings(view: ShownRequest) -> Iterator[Warning_]:
    request, job = view.request, view.job
    if request.unusual_program:
        yield (Note("the program is not among request.programs, or comes from /in: nobody here vouches for it"),)
    for item in job.action.texts():  # letters that may look like others: a name with a look-alike is a different name
        strange = sorted({char for char in item.text if char > "~"})
        if strange:
            names = ", ".join(f"U+{ord(char):04X}" for char in strange[:6])
            kinds = f"{len(strange)} kinds of characters outside ASCII ({names})"
            yield (Note(f"{item.name} has {kinds}: they may look like others"),)
    if view.requester == view.operator:
        yield (Note("you asked for this yourself: it cannot run with your approval"),)


def size_text(size: int) -> str:
    """Bytes for people: whole MiB, else KiB with one digit, else bytes; with the number of bytes if that is exact."""
    if size and size % limits.MIB == 0:
        return f"{size // limits.MIB} MiB"
    if size >= limits.MIB:
        return f"{size / limits.MIB:.1f} MiB ({size} bytes)"
    return f"{size / limits.KIB:.1f} KiB ({size} bytes)" if size >= 10 * limits.KIB else f"{size} bytes"


def _foreign(label: str, text: str | None) -> list[Item]:
    """What the request chose; options it left out are not mentioned."""
    return [Field(label, text, LIMIT)] if text else []


def _ours(label: str, text: str | None) -> list[Item]:
    """What ThreeGate, its settings or this machine decide, and words of a closed set."""
    return [Fact(label, text)] if text else []


def _runtime(job: Job) -> list[Item]:
    if job.platform.engine:
        return _ours("OCI runtime", job.runtime)
    return [
        Fact("sandbox", f"{job.runtime}, without a container engine"),
        Fact("memory", f"{WATCHED}, where the daemon has no cgroup of its own"),
    ]


def action_texts(action: Action, most: int | None = None) -> Iterator[Item]:
    """The code or command, whole; `most` as in `Quote` is for what is not code."""
    for item in action.texts():
        if item.listing and item.head:
            yield Listing(item.head, item.text, item.name)
        elif item.head:
            yield Quote(item.text, item.head, most, item.name)


def _inputs(job: Job, beside: Beside) -> list[Item]:
    items: list[Item] = []
    for item in job.inputs:
        unpacked = " (unpacked)" if item.unpack else ""
        items.append(Field("input", f"/in/{item.name}{unpacked}, {size_text(item.size)}"))
        items += beside.inputs.get(item.name, ())
    return items


def _doing(job: Job) -> list[Item]:
    """The call and the state that it finds, the tool whose contract applies, and the project."""
    named, tool = list(job.action.names()), _foreign("tool", job.tool)
    return [*named, *tool] if job.action.own_tool else [*tool, *named]


def _limits(job: Job) -> list[Item]:
    """What this request asked for, and what is unusual about it."""
    held = job.limits
    if not job.action.runs_code:
        return [Fact("limits", f"{held.time_sec} s")]
    cores = "core" if held.cpu == "1" else "cores"
    asked = Fact("limits", f"{held.cpu} {cores}, {held.memory_mb} MiB, {held.time_sec} s")
    return [asked, *(fact for fact in _more_limits(held) if fact not in _USUAL_LIMITS)]


def _more_limits(held: JobLimits) -> list[Item]:
    """What no request can ask for."""
    return [
        Fact("processes", f"{held.processes}"),
        Fact("open files", f"{held.open_files}"),
        Fact("/out", f"{size_text(held.out_bytes)} together, {size_text(held.file_bytes)} each"),
        Fact("/out files", f"{held.out_files}"),
        Fact("streams", f"{size_text(held.stream_bytes)} of stdout and stderr"),
    ]


_USUAL_LIMITS: Final = _more_limits(JobLimits("1", 1, 1))
"""What is the same for all requests."""

JOB_FIELDS: Final[Mapping[str, Callable[[Job], Iterable[Item]]]] = {
    "backend": lambda job: _ours("backend", job.backend),
    "action": lambda job: action_texts(job.action),
    "workdir": lambda job: _foreign("starts in", None if job.workdir == "/in" else job.workdir),
    "inputs": lambda job: _inputs(job, _NOTHING),
    "unread": lambda job: _foreign("not shown", "\n".join(f"/in/{name}" for name in job.unread)),
    "outputs": lambda job: _foreign("files out", "\n".join(job.outputs)),
    "network": lambda job: _foreign("network", "\n".join(job.network)),
    "limits": _limits,
    "tool": _doing,
    "session_id": lambda job: _foreign("session", job.session_id),
    "labels": lambda job: _foreign("labels", "\n".join(job.labels)),
    "workflow": lambda job: _foreign("workflow", job.workflow),
    "role": lambda job: _foreign("role", job.role),
    "data_sensitivity": lambda job: _ours("data", job.data_sensitivity),
    "environment": lambda job: [
        Fact("environment", f"{name}={text}") for name, text in sorted(job.environment.items())
    ],
    "image": lambda job: _ours("image" if job.platform.engine else "root", job.image),
    "egress_image": lambda job: _ours("egress image", job.egress_image),
    "runtime": _runtime,
    "seccomp_sha256": lambda job: _ours("seccomp", job.seccomp_sha256),
    "requested_by": lambda job: _foreign("requester", job.requested_by),
    "effective_risk": lambda job: _ours("risk", job.effective_risk),
    "proposal_sha256": lambda job: _ours("proposal", job.proposal_sha256),
}
"""How each field of the Job is shown."""

_WALLS: Final = frozenset(
    (
        *("environment", "image", "egress_image", "seccomp_sha256"),
        *("requested_by", "effective_risk", "proposal_sha256"),
    )
)
"""Fields that are the same for every request of its kind, or that the card shows; folded to one line."""


_NO_WIDTH: Final = 1 << 30
"""Columns: no line is wrapped."""


def requesters(settings: Settings, run: KnownRun | None) -> Mapping[str, str]:
    """Names by uid, and the name of the requesting run: a run is named by its registration, never by its file."""
    return settings.requesters if run is None else {**settings.requesters, run.run: run.requester}


def shown_request(
    request: Request,
    job: Job,
    settings: Settings,
    *,
    operator: str,
    owner: Owner | None,
    run: KnownRun | None = None,
) -> ShownRequest:
    """What the text is made from. `owner` is the draft's owner, None if unknown; `run` is the agent run, if any."""
    names = requesters(settings, run)
    return ShownRequest(
        request=request,
        job=job,
        operator=operator,
        requester=requester_of(request, names, owner),
        named_by_text=str(owner) not in names,
        run=f"run {run.run} of the agent {run.profile}" if run is not None else "",
        signatures=getattr(settings.approval.quorum, job.effective_risk),
        settings=tuple(_settings(request, job, settings)),
    )


def _settings(request: Request, job: Job, settings: Settings) -> Iterator[Item]:
    """Where its secrets come from, and the engine of a container: in the signed text, so that a change of them voids
    approvals of the requests that it matters to, and no others.
    """
    era = settings.runners.era
    jailed = BACKENDS[job.backend].container
    if era.engine and (job.action.in_container or (jailed and job.platform.engine)):
        yield Field("engine", era.engine, LIMIT)
    if era.require_readback and (job.action.in_container or jailed):
        yield Fact("readback", "refused if one of its walls cannot be read back (runners.era.require_readback)")
    for name in job_exposure(request, job).secrets:
        given = settings.secrets.get(name)
        if given is None:
            yield Field("secret", f"{name}: secrets.{name} is not set")
        else:
            kept = f"the variable {given.env}" if given.env else f"the file {given.file}"
            yield Field("secret", f"{name}: {kept}; for {given.method} {given.host}{given.path}", LIMIT)


def signed_text(view: ShownRequest) -> bytes:
    """The text, in UTF-8, each line ended by a line feed."""
    lines = render_sections(request_sections(view), width=_NO_WIDTH, full=True)
    return "".join(f"{line}\n" for line in lines).encode()


_SETTINGS: Final = {
    "risk": "request.programs",
    "the program": "request.programs",
    "asked by": "requesters",
    "you sign as": "approval.quorum",
    "engine": "runners.era.engine",
    "readback": "runners.era.require_readback",
    "secret": "secrets",
}
"""The labels whose text depends on the settings, with these."""
_LABEL: Final = slice(2, 14)
"""Where a line has its label, which is ours: foreign text is behind a gutter."""


def changed_settings(signed: bytes, today: bytes) -> tuple[str, ...]:
    """The settings because of which the text of a request is another one than was signed, as far as its lines tell."""
    differing = set(signed.splitlines()) ^ set(today.splitlines())
    labels = {line.decode("utf-8", "replace")[_LABEL].strip() for line in differing}
    return tuple(dict.fromkeys(setting for label, setting in _SETTINGS.items() if label in labels))


def shown_sha256(view: ShownRequest) -> str:
    """Its sha256, as the statement names it."""
    return sha256_hex(signed_text(view))
