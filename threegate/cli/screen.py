"""The review screen: what an operator sees before signing is everything that is signed.

Invariant: every field of the Job has its place here (a test fails when one has none); words of the request stand only
behind the gutter of cli/terminal, so that none can look like a word of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from threegate.approval import format_utc
from threegate.cli.terminal import WIDTH, Title, field, numbered, quoted, wrapped
from threegate.job import Job
from threegate.operations.dossier import Dossier
from threegate.operations.preview import preview
from threegate.settings import Settings

_LIMIT = 60


def render_dossier(
    dossier: Dossier, settings: Settings, *, operator: str, width: int = WIDTH, full: bool = False
) -> list[str]:
    """The whole screen as lines. `full` leaves nothing out."""
    request = dossier.request
    limit = None if full else _LIMIT
    lines = _title(f"REQUEST {request.file_name}", width)
    lines += field("id", request.request_id, width=width)
    lines += field("asked by", _provenance(dossier), width=width)
    lines += field("created", format_utc(request.created_utc), width=width)
    lines += field("purpose", request.purpose, width=width)
    lines += _warnings(dossier, operator, width)
    lines += _title("WHAT RUNS", width)
    for show in JOB_FIELDS.values():
        lines += show(dossier, settings, width, limit)
    lines += _title("WHAT THE REQUEST SAYS ABOUT ITSELF", width)
    lines += field("declares", f"risk {request.risk_level}", width=width)
    lines += field("because", request.justification, width=width, limit=limit)
    if request.network_rationale:
        lines += field("network why", request.network_rationale, width=width, limit=limit)
    for item in request.constraints:
        lines += field("constraint", item, width=width, limit=limit)
    for output in request.outputs:
        if output.description:
            lines += field("output", f"{output.path}: {output.description}", width=width, limit=limit)
    for number, evidence in enumerate(request.evidence, start=1):
        lines += field(f"evidence {number}", repr(evidence), width=width, limit=limit)
    if request.risk_domain:
        lines += field("risk domain", request.risk_domain, width=width)
    lines += _judgement(dossier, width)
    lines += _approval(dossier, settings, operator, width)
    return lines


def _title(text: str, width: int) -> list[str]:
    return ["", *(Title(f"== {line}") for line in wrapped(text, width - 3))]


def _provenance(dossier: Dossier) -> str:
    who = f"{dossier.requester}, owner uid {dossier.owner_uid}"
    if dossier.named_by_text:
        who += " (the name is only what the file says: no requesters.<uid> in threegate.toml)"
    who += f"; in {dossier.draft.path.parent.name}/"
    if dossier.first_seen:
        who += f"; last in the trail at {dossier.first_seen}"
    if dossier.proposal_sha256:
        who += f"; made from proposal {dossier.proposal_sha256}"
    return who


def _warnings(dossier: Dossier, operator: str, width: int) -> list[str]:
    request, job = dossier.request, dossier.job
    found: list[str] = []
    if request.unusual_program:
        found.append(
            "the program is not among request.programs, or comes from /in: nobody here vouches for it"
        )
    if job.effective_risk != request.risk_level:
        found.append(f"declared risk {request.risk_level}, effective risk {job.effective_risk}")
    if job.network:
        found.append(f"it reaches the network: {', '.join(job.network)}")
    found += _foreign_letters(dossier)
    if dossier.requester == operator:
        found.append("you asked for this yourself: it cannot run with your approval")
    if request.approved_by or request.approved_utc:
        found.append("the drafter filled in approval keys; they mean nothing and are replaced")
    found += [
        f"{finding.rule} line {finding.line}: {finding.message}"
        for finding in dossier.report.findings
        if finding.severity == "warning"
    ]
    if not found:
        return []
    lines = _title(f"WARNINGS ({len(found)})", width)
    for text in found:
        lines += quoted(text, width=width)
    return lines


def _foreign_letters(dossier: Dossier) -> list[str]:
    """Letters that may look like others: a look-alike in a name is another name."""
    job = dossier.job
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


_Show = Callable[[Dossier, Settings, int, int | None], list[str]]


def _simple(label: str, value: Callable[[Job], str | None]) -> _Show:
    def show(dossier: Dossier, settings: Settings, width: int, limit: int | None) -> list[str]:
        del settings
        text = value(dossier.job)
        return field(label, text, width=width, limit=limit) if text else []

    return show


def _argv(dossier: Dossier, settings: Settings, width: int, limit: int | None) -> list[str]:
    del settings
    words = dossier.job.argv
    if words is None:
        return []
    lines = [f"  the command, {len(words)} words, run without a shell:"]
    return lines + numbered("\n".join(words), width=width, limit=limit)


def _code(dossier: Dossier, settings: Settings, width: int, limit: int | None) -> list[str]:
    del settings
    code = dossier.job.code
    if code is None:
        return []
    count = code.removesuffix("\n").count("\n") + 1
    return [f"  the code, {count} lines:", *numbered(code, width=width, limit=limit)]


def _vars(dossier: Dossier, settings: Settings, width: int, limit: int | None) -> list[str]:
    del settings
    text = dossier.job.vars_json
    if text is None:
        return []
    return [f"  the Inputs (JSON), {len(text)} characters:", *quoted(text, width=width, limit=limit)]


def _inputs(dossier: Dossier, settings: Settings, width: int, limit: int | None) -> list[str]:
    del settings
    if not dossier.job.inputs:
        return ["  no input files"]
    lines = [f"  input files ({len(dossier.job.inputs)}):"]
    for item, copy in zip(dossier.job.inputs, dossier.inputs, strict=True):
        where = f"/in/{item.name}" + (" (unpacked)" if item.unpack else "")
        lines += field("file", where, width=width)
        lines += field("size", f"{item.size} bytes", width=width)
        lines += field("sha256", item.sha256, width=width)
        kind, text = preview(copy, unpack=item.unpack)
        lines += [f"    {kind}:"]
        lines += quoted(text, width=width, limit=None if limit is None else 10, indent=4)
    return lines


def _limits(dossier: Dossier, settings: Settings, width: int, limit: int | None) -> list[str]:
    del limit
    held, most = dossier.job.limits, settings.request
    rows = (
        ("cpu", f"{held.cpu} cores (at most {most.max_cpu:g} here)"),
        ("memory", f"{held.memory_mb} MiB (at most {most.max_memory_mb} here)"),
        ("time", f"{held.time_sec} s (at most {most.max_time_sec} here)"),
        ("processes", f"{held.processes}; open files {held.open_files}"),
        ("/out", f"{held.out_files} files, {held.out_bytes} bytes together, {held.file_bytes} bytes each"),
        ("streams", f"{held.stream_bytes} bytes of stdout and stderr"),
    )
    return [line for label, text in rows for line in field(label, text, width=width)]


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


def _judgement(dossier: Dossier, width: int) -> list[str]:
    assessment = dossier.assessment
    lines = _title("WHAT THE JUDGEMENT WOULD SAY NOW", width)
    lines += field("AANA", f"{assessment.route}, gate {assessment.gate_decision}", width=width)
    for text in (*assessment.blockers, *assessment.aana_reasons):
        lines += field("reason", text, width=width)
    contract = assessment.contract
    shadow = " (shadow: blocks nothing)" if assessment.shadow else ""
    lines += field("contracts", f"{contract.verdict}{shadow}", width=width)
    for reason in contract.reasons:
        lines += field("reason", f"{reason.code} {reason.path}".strip(), width=width)
    return lines


def _approval(dossier: Dossier, settings: Settings, operator: str, width: int) -> list[str]:
    needed: int = getattr(settings.approval.quorum, dossier.job.effective_risk)
    until = dossier.now + timedelta(seconds=settings.approval.ttl)
    lines = _title("WHAT YOU WOULD SIGN", width)
    lines += field("as", operator, width=width)
    lines += field("holds until", f"{format_utc(until)} (counted from your yes)", width=width)
    lines += field("signatures", f"{needed} needed for risk {dossier.job.effective_risk}", width=width)
    lines += field("draft", dossier.request.sha256, width=width)
    lines += field("job", dossier.job.digest, width=width)
    return lines
