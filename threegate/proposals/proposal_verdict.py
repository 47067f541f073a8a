"""The result for a proposal: one verdict, every error, the reasons, and what it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threegate.changes.project_paths import ProjectPath
from threegate.proposals.form import FormProblem, Proposal
from threegate.proposals.tools import Lane, ProposalRisk, VerdictName
from threegate.proposals.urls import URL


@dataclass(frozen=True, slots=True)
class ProposalVerdict:
    """The one verdict on a proposal.

    `errors` are all that reject or block it; `reasons` say in a sentence each why a human must look, and how
    high the risk is. `proposal` is set if the form is valid.
    """

    verdict: VerdictName
    risk: ProposalRisk | None
    errors: tuple[FormProblem, ...]
    reasons: tuple[str, ...]
    becomes: Lane
    proposal: Proposal | None = None

    @property
    def allowed(self) -> bool:
        """Whether it may become a draft."""
        return isinstance(self, AllowedProposal)

    def to_json(self) -> dict[str, Any]:
        """`{verdict, risk, errors, reasons, becomes}`, and the tool if it is known."""
        return {
            "verdict": self.verdict,
            "risk": self.risk,
            "tool": self.proposal.tool.name if self.proposal else None,
            "errors": [problem.to_json() for problem in self.errors],
            "reasons": list(self.reasons),
            "becomes": self.becomes,
        }


@dataclass(frozen=True, slots=True)
class AllowedProposal(ProposalVerdict):
    """A verdict of `auto` or `approval`: the only one that a lane accepts.

    `paths` and `urls` are the proposal's arguments as they were judged, by their names.
    """

    proposal: Proposal
    paths: Mapping[str, ProjectPath]
    urls: Mapping[str, URL]

    @property
    def args(self) -> Mapping[str, Any]:
        """The proposal's arguments."""
        return self.proposal.args
