"""A draft in parts, before it is written, and the args.json that its program reads.

Invariant: a plan is a value, and the same plan makes the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from threegate.core import canonical, limits
from threegate.core.settings import Settings
from threegate.plugins.changes.change_draft import draft_change_set
from threegate.plugins.changes.make import MadeChangeSet
from threegate.plugins.changes.projects import DEFAULT
from threegate.plugins.proposals.proposal_verdict import AllowedProposal
from threegate.plugins.proposals.urls import URL
from threegate.request.action import Action, Risk
from threegate.request.model import InputFile, NetworkTarget, OutputFile, Sensitivity
from threegate.request.render_draft import blank_draft, render_request


@dataclass(frozen=True, slots=True)
class DraftWords:
    """What is the same in every draft of one proposal."""

    verdict: AllowedProposal
    key: str
    """What makes two proposals the same."""
    sha256: str
    now: datetime
    settings: Settings
    requested_by: str
    purpose: str

    @property
    def request_id(self) -> str:
        """The request's id."""
        return f"proposal-{self.key[:32]}"

    @property
    def risk(self) -> Risk:
        """A request has three levels: critical becomes high there, and is named in the constraints."""
        return self.verdict.risk if self.verdict.risk in ("low", "medium") else "high"

    @property
    def justification(self) -> str:
        """Why it is asked for."""
        return f"made from an action proposal for {self.verdict.proposal.tool.name}"

    @property
    def constraints(self) -> tuple[str, ...]:
        """What the operator should know."""
        verdict = self.verdict
        return f"proposal {self.sha256}", f"verdict {verdict.verdict}, risk {verdict.risk}", *verdict.reasons


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """One draft in parts. `derived` are input files that follow from the verdict and the primary files."""

    backend: str
    action: Action
    given: Mapping[str, Any] = field(default_factory=dict)
    """The arguments that the program reads from args.json."""
    derived: Mapping[str, bytes] = field(default_factory=dict)
    outputs: tuple[tuple[str, str], ...] = ()
    workdir: str = "/in"
    network: URL | None = None
    rationale: str = ""
    time_sec: int = limits.PROPOSAL_MONTY_SECONDS
    memory_mb: int = 128
    sensitivity: Sensitivity = "internal"
    notes: tuple[str, ...] = ()

    def files(self, verdict: AllowedProposal, proposal_sha256: str) -> dict[str, bytes]:
        """Its input files besides the primary ones."""
        return {**self.derived, "args.json": _given_bytes(verdict, self, proposal_sha256)}

    def draft(self, words: DraftWords, file_name: str, inputs: Mapping[str, bytes]) -> bytes:
        """The request file."""
        bounds = words.settings.request
        targets = (NetworkTarget(self.network.host, self.network.port),) if self.network else ()
        return render_request(
            replace(
                blank_draft(file_name, words.now, self.backend, self.action),
                request_id=words.request_id,
                requested_by=words.requested_by,
                purpose=words.purpose,
                language="python",
                network="allowlist" if targets else "none",
                network_allowlist=targets,
                network_rationale=self.rationale,
                cpu_limit=Decimal(format(min(1.0, bounds.max_cpu), "g")),
                memory_limit_mb=min(self.memory_mb, bounds.max_memory_mb),
                time_limit_sec=min(self.time_sec, bounds.max_time_sec),
                tool=words.verdict.proposal.tool.name,
                inputs=tuple(
                    InputFile(name, canonical.sha256_hex(data), unpack=name.endswith(".tar"))
                    for name, data in sorted(inputs.items())
                ),
                workdir=self.workdir,
                outputs=tuple(OutputFile(path, description) for path, description in self.outputs),
                constraints=(*words.constraints, *self.notes),
                risk_level=words.risk,
                justification=f"{words.justification}; what it says is in args.json",
                data_sensitivity=self.sensitivity,
            )
        )


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """A draft that changes a project: nothing but the change set."""

    change: MadeChangeSet

    def files(self, verdict: AllowedProposal, proposal_sha256: str) -> dict[str, bytes]:
        """None."""
        return {}

    def draft(self, words: DraftWords, file_name: str, inputs: Mapping[str, bytes]) -> bytes:
        """The request file. Raises InvalidInput if gate 1 refuses it."""
        return draft_change_set(
            self.change,
            project=DEFAULT,
            request_id=words.request_id,
            requested_by=words.requested_by,
            purpose=words.purpose,
            justification=words.justification,
            now=words.now,
            settings=words.settings.request,
            risk_level=words.risk,
            tool=words.verdict.proposal.tool.name,
            constraints=words.constraints,
        ).data


def _given_bytes(verdict: AllowedProposal, plan: DraftPlan, proposal_sha256: str) -> bytes:
    """args.json: the proposal's own words and the program's arguments, sorted so that it can be derived again."""
    proposal = verdict.proposal
    # The program reads these words as data; they never become part of its code.
    value = {
        "proposal": {
            "sha256": proposal_sha256,
            "tool": proposal.tool.name,
            "args": dict(proposal.args),
            "id": proposal.said("id"),
            "risk": proposal.risk,
            "reason": proposal.said("reason"),
            "task": proposal.said("task"),
            "source": proposal.said("source"),
        },
        "given": dict(plan.given),
    }
    return json.dumps(value, ensure_ascii=True, sort_keys=True, indent=1).encode() + b"\n"
