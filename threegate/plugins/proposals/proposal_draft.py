"""From a proposal to a draft of a tool request, and back to check it.

Invariant: the draft is an ordinary request (`read_request(stage="draft")` accepts it, or there is none), and
`derive_again` makes the same bytes from the pinned proposal and the pinned files.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from threegate.changes.change_draft import draft_change_set
from threegate.changes.make import MadeChangeSet
from threegate.changes.project import Project, ProjectError
from threegate.changes.project_paths import PathBlocked
from threegate.changes.projects import DEFAULT
from threegate.core import canonical, limits
from threegate.core.errors import InvalidInput, Refused
from threegate.core.settings import RequestSettings, Settings
from threegate.core.workspace import Workspace
from threegate.plugins.proposals.draft_places import proposal_file
from threegate.plugins.proposals.draft_plan import DraftPlan, given_bytes
from threegate.plugins.proposals.form import FormProblem
from threegate.plugins.proposals.gather import ProposalSources, gather, primary_names
from threegate.plugins.proposals.lanes import make_plan
from threegate.plugins.proposals.proposal_verdict import AllowedProposal, ProposalVerdict
from threegate.plugins.proposals.rules import Links, judge_proposal
from threegate.request import read_request
from threegate.request.characters import visible
from threegate.request.model import Risk

_CREATED: Final = re.compile(rb'\ncreated_utc: "?([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"?\n')
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class DraftResult:
    """The outcome of a proposal.

    `draft` is None if the verdict refuses, if the tool makes none (shell.dry_run), or if `problem` says what
    is missing. `inputs` are the files that the draft declares, by name.
    """

    verdict: ProposalVerdict
    proposal: bytes
    proposal_sha256: str
    request_id: str | None = None
    file_name: str | None = None
    draft: bytes | None = None
    inputs: Mapping[str, bytes] = field(default_factory=dict)
    problem: str | None = None

    def deliveries(self, workspace: Workspace) -> list[tuple[Path, bytes, int]]:
        """The files to write, in this order: input files, the proposal, the draft. Empty if there is no
        draft.
        """
        if self.draft is None or self.file_name is None:
            return []
        folder = workspace.draft_files
        files = {canonical.sha256_hex(data): data for data in self.inputs.values()}
        path = workspace.drafts / self.file_name
        return [
            *((folder / digest, data, 0o600) for digest, data in sorted(files.items())),
            (proposal_file(path), self.proposal, 0o600),
            (path, self.draft, 0o600),
        ]


def draft_from_proposal(
    data: bytes, *, settings: Settings, workspace: Workspace | None = None, now: datetime
) -> DraftResult:
    """Judge a proposal and, if it is allowed, make its draft. Never raises because of its content."""
    sha256 = canonical.sha256_hex(data)
    verdict = judge_proposal(data, settings=settings, links=links_of(settings))
    result = DraftResult(verdict, data, sha256)
    if not isinstance(verdict, AllowedProposal) or verdict.becomes == "verdict only":
        return result
    sources = ProposalSources(settings, workspace.memory if workspace is not None else None)
    try:
        drafted = _render(verdict, gather(verdict, sources), data, settings, now)
        reasons = (*drafted.verdict.reasons, *sources.told)
        return replace(drafted, verdict=drafted.verdict._replace(reasons=reasons))
    except ProjectError as error:
        return replace(result, problem=str(error))
    except PathBlocked as error:
        problem = FormProblem("/args/path", error.code, str(error))
        return replace(result, verdict=_blocked(verdict, [problem]))


def derive_again(draft: bytes, proposal: bytes, inputs: Mapping[str, bytes], *, settings: Settings) -> ProposalVerdict:
    """Make the draft again from its proposal and pinned files; return the verdict behind it.

    `inputs` maps the names that the draft declares to their bytes. Raises Refused("proposal_changed") unless
    every byte of the draft and of its derived files is the same.
    """
    created = _CREATED.search(draft)
    if created is not None:
        verdict = judge_proposal(proposal, settings=settings, links=links_of(settings))
        if isinstance(verdict, AllowedProposal) and verdict.becomes != "verdict only":
            when = datetime.strptime(created[1].decode(), _TIME).replace(tzinfo=UTC)
            primary = _primary(verdict, inputs)
            try:
                again = _render(verdict, primary, proposal, settings, when)
            except (ProjectError, ValueError, KeyError):
                again = None
            if again is not None and again.draft == draft and dict(again.inputs) == dict(inputs):
                return verdict
    raise Refused(
        "proposal_changed",
        "the draft is not what its proposal makes today; reject it and have it proposed again",
    )


def _primary(verdict: AllowedProposal, inputs: Mapping[str, bytes]) -> dict[str, bytes]:
    names = primary_names(verdict.proposal.tool.name)
    return {name: data for name, data in inputs.items() if name in names}


def links_of(settings: Settings) -> Links | None:
    """The project in the form the rules use; None if none is set or it does not exist."""
    try:
        return Project.open(settings.project.root)
    except ProjectError:
        return None


def _render(
    verdict: AllowedProposal, primary: Mapping[str, bytes], data: bytes, settings: Settings, now: datetime
) -> DraftResult:
    """The draft, with the agent's own words if gate 1 accepts them, else without; blocked if it accepts
    neither.
    """
    sha256 = canonical.sha256_hex(data)
    plan = make_plan(verdict, primary, settings)
    inputs = {**primary, **plan.derived}
    if plan.change is None:
        inputs["args.json"] = given_bytes(verdict, plan, sha256)
    tool = verdict.proposal.tool.name
    key = _key(data)
    stamp = now.astimezone(UTC).replace(microsecond=0)
    slug = re.sub(r"[^a-z]", "-", tool)
    file_name = f"TR-{stamp:%Y%m%d-%H%M%S}Z-{slug}-{key[:12]}.md"
    findings: list[FormProblem] = []
    for spoken in (True, False):
        said = _said(verdict, spoken)
        if plan.change is None:
            draft = _text(verdict, plan, inputs, said, settings, stamp, key, sha256)
        else:
            try:
                draft = _change_request(verdict, plan.change, said, settings, stamp, key, sha256)
            except InvalidInput as error:
                findings = [FormProblem("/args", "gate_1", str(error))]
                continue
        report = read_request(draft, path=file_name, settings=settings.request, now=stamp, stage="draft")
        if report.request is not None:
            return DraftResult(verdict, data, sha256, f"proposal-{key[:32]}", file_name, draft, inputs)
        findings = [
            FormProblem("/args", "gate_1", f"gate 1 refuses the draft: {item.rule}: {item.message}")
            for item in report.findings
            if item.severity == "error"
        ]
    return DraftResult(_blocked(verdict, findings), data, sha256)


def _blocked(verdict: AllowedProposal, problems: list[FormProblem]) -> ProposalVerdict:
    return ProposalVerdict("block", verdict.risk, tuple(problems), verdict.reasons, "nothing", verdict.proposal)


def _key(data: bytes) -> str:
    """What makes two proposals the same: the digest of their content, ignoring spacing."""
    value = canonical.loads_strict(data, max_bytes=limits.PROPOSAL_BYTES, max_depth=limits.PROPOSAL_DEPTH)
    return canonical.digest(value)


@dataclass(frozen=True, slots=True)
class _Said:
    """A draft's words about the requester and the reason."""

    requested_by: str
    purpose: str


def _said(verdict: AllowedProposal, spoken: bool) -> _Said:
    """`spoken`: with the agent's own reason and source."""
    proposal = verdict.proposal
    why = _plain(proposal.said("reason") or proposal.said("task") or "") if spoken else ""
    source = _plain(proposal.said("source") or "")[: limits.REQUESTED_BY_CHARS] if spoken else ""
    return _Said(source or "agent", f"Proposed action {proposal.tool.name}" + (f": {why}" if why else ""))


def _constraints(verdict: AllowedProposal, sha256: str) -> tuple[str, ...]:
    return (f"proposal {sha256}", f"verdict {verdict.verdict}, risk {verdict.risk}", *verdict.reasons)


def _justification(verdict: AllowedProposal) -> str:
    return f"made from an action proposal for {verdict.proposal.tool.name}"


def _change_request(
    verdict: AllowedProposal,
    change: MadeChangeSet,
    said: _Said,
    settings: Settings,
    now: datetime,
    key: str,
    sha256: str,
) -> bytes:
    """The bytes of an apply request. Raises InvalidInput if gate 1 refuses it."""
    return draft_change_set(
        change,
        project=DEFAULT,
        request_id=f"proposal-{key[:32]}",
        requested_by=said.requested_by,
        purpose=said.purpose,
        justification=_justification(verdict),
        now=now,
        settings=settings.request,
        risk_level=_risk(verdict),
        tool=verdict.proposal.tool.name,
        constraints=_constraints(verdict, sha256),
    ).data


def _text(
    verdict: AllowedProposal,
    plan: DraftPlan,
    inputs: Mapping[str, bytes],
    said: _Said,
    settings: Settings,
    now: datetime,
    key: str,
    sha256: str,
) -> bytes:
    """The bytes of the request file."""
    proposal = verdict.proposal
    bounds: RequestSettings = settings.request
    front = [
        "request_type: tool_request",
        'schema_version: "1"',
        f"request_id: proposal-{key[:32]}",
        f'created_utc: "{now:{_TIME}}"',
        f"requested_by: {_quoted(said.requested_by)}",
        f"purpose: {_quoted(said.purpose)}",
        f"backend: {plan.backend}",
        "language: python",
        f"network: {'allowlist' if plan.network else 'none'}",
        f"cpu_limit: {_quoted(format(min(1.0, bounds.max_cpu), 'g'))}",
        f"memory_limit_mb: {min(plan.memory_mb, bounds.max_memory_mb)}",
        f"time_limit_sec: {min(plan.time_sec, bounds.max_time_sec)}",
        f"tool: {_quoted(proposal.tool.name)}",
        "inputs:",
    ]
    for name in sorted(inputs):
        front += [f"  - name: {name}", f"    sha256: {_quoted(canonical.sha256_hex(inputs[name]))}"]
        if name.endswith(".tar"):
            front.append("    unpack: true")
    if plan.workdir:
        front.append(f"workdir: {_quoted(plan.workdir)}")
    if plan.network:
        front += ["network_allowlist:", f"  - {_quoted(f'{plan.network.host}:{plan.network.port}')}"]
    front.append("constraints:")
    front += [f"  - {_quoted(line)}" for line in (*_constraints(verdict, sha256), *plan.notes)]
    body = _program(plan, inputs)
    body += ["", "## Output Expectations", ""]
    body += [f"- {path} {description}" for path, description in plan.outputs] or ["none"]
    body += [
        "",
        "## Risk Assessment",
        "",
        f"Risk level: {_risk(verdict)}",
        f"Justification: {_justification(verdict)}; what it says is in args.json",
        f"Data sensitivity: {plan.sensitivity}",
    ]
    if plan.network:
        body.append(f"Network rationale: {plan.rationale}")
    return "\n".join(["---", *front, "---", "", *body, ""]).encode()


def _program(plan: DraftPlan, inputs: Mapping[str, bytes]) -> list[str]:
    if plan.backend == "monty":
        return ["## Code", "", "```python", plan.code.rstrip("\n"), "```"]
    return [
        "## Command",
        "",
        shlex.join(plan.argv),
        "",
        "## Input Files",
        "",
        *(f"- /in/{name}" for name in sorted(inputs)),
    ]


def _risk(verdict: ProposalVerdict) -> Risk:
    """A request has three levels: critical becomes high there, and is named in the constraints."""
    if verdict.risk in ("low", "medium"):
        return verdict.risk
    return "high"


def _plain(text: str) -> str:
    """An agent's words as one short line."""
    return visible(" ".join(text.split()))[: limits.PROPOSAL_REASON_CHARS]


def _quoted(text: str) -> str:
    """A YAML double-quoted scalar (JSON's, but with letters as they are: YAML reads surrogate escapes differently)."""
    return json.dumps(text, ensure_ascii=False)
