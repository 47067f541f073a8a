"""From a proposal to a draft of a tool request, and back to check it.

Invariant: the draft is an ordinary request (`read_request(stage="draft")` accepts it, or there is none), and
`derive_again` makes the same bytes from the pinned proposal and the pinned files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from threegate.core import canonical, limits
from threegate.core.errors import InvalidInput, Refused
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.changes.project import Project, ProjectError
from threegate.plugins.changes.project_paths import PathBlocked
from threegate.plugins.changes.section import ProjectSettings
from threegate.plugins.proposals.draft_plan import DraftWords
from threegate.plugins.proposals.form import FormProblem
from threegate.plugins.proposals.gather import ProposalSources, gather, primary_names
from threegate.plugins.proposals.lanes import make_plan
from threegate.plugins.proposals.proposal_verdict import AllowedProposal, ProposalVerdict
from threegate.plugins.proposals.rules import judge_proposal
from threegate.request.characters import visible
from threegate.request.reader import read_request

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
        """The files to write, in this order: input files, the proposal, the draft. Empty if there is no draft."""
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


def proposal_file(draft: Path) -> Path:
    """Where the proposal of a draft in tool-exec/drafts/ is: next to it."""
    return draft.with_name(f"{draft.name}.proposal.json")


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
            names = primary_names(verdict.proposal.tool.name)
            primary = {name: content for name, content in inputs.items() if name in names}
            try:
                when = datetime.strptime(created[1].decode(), _TIME).replace(tzinfo=UTC)
                again = _render(verdict, primary, proposal, settings, when)
            except (ProjectError, ValueError, KeyError):
                # Inputs that are not those of the lane make no plan.
                again = None
            if again is not None and again.draft == draft and dict(again.inputs) == dict(inputs):
                return verdict
    raise Refused(
        "proposal_changed", "the draft is not what its proposal makes today; reject it and have it proposed again"
    )


def links_of(settings: Settings) -> Project | None:
    """The project in which the rules follow links; None if none is set or it does not exist."""
    try:
        return Project.open(settings.section(ProjectSettings).root)
    except ProjectError:
        return None


def _render(
    verdict: AllowedProposal, primary: Mapping[str, bytes], data: bytes, settings: Settings, now: datetime
) -> DraftResult:
    """The draft, with the agent's own words if gate 1 accepts them, else without; blocked if it accepts neither."""
    sha256 = canonical.sha256_hex(data)
    plan = make_plan(verdict, primary, settings)
    inputs = {**primary, **plan.files(verdict, sha256)}
    key = _key(data)
    stamp = now.astimezone(UTC).replace(microsecond=0)
    slug = re.sub(r"[^a-z]", "-", verdict.proposal.tool.name)
    file_name = f"TR-{stamp:%Y%m%d-%H%M%S}Z-{slug}-{key[:12]}.md"
    findings: list[FormProblem] = []
    # An agent's own words can break a rule (a secret, hidden characters); the draft is then made without them.
    for spoken in (True, False):
        words = DraftWords(verdict, key, sha256, stamp, settings, *_said(verdict, spoken))
        try:
            draft = plan.draft(words, file_name, inputs)
        except InvalidInput as error:
            findings = [FormProblem("/args", "gate_1", str(error))]
            continue
        report = read_request(draft, path=file_name, settings=settings.request, now=stamp, stage="draft")
        if report.request is not None:
            return DraftResult(verdict, data, sha256, words.request_id, file_name, draft, inputs)
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
    # Of the value, not of its bytes: with other spacing it must not be drafted a second time.
    value = canonical.loads_strict(data, max_bytes=limits.PROPOSAL_BYTES, max_depth=limits.PROPOSAL_DEPTH)
    return canonical.digest(value)


def _said(verdict: AllowedProposal, spoken: bool) -> tuple[str, str]:
    """The requester and the purpose; `spoken`: with the agent's own reason and source."""
    proposal = verdict.proposal
    why = _plain(proposal.said("reason") or proposal.said("task") or "") if spoken else ""
    source = _plain(proposal.said("source") or "")[: limits.REQUESTED_BY_CHARS] if spoken else ""
    return source or "agent", f"Proposed action {proposal.tool.name}" + (f": {why}" if why else "")


def _plain(text: str) -> str:
    """An agent's words as one short line."""
    return visible(" ".join(text.split()))[: limits.PROPOSAL_REASON_CHARS]
