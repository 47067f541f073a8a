"""The result for a proposal: one verdict, every error, the reasons, and what it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from threegate.plugins.changes.project_paths import ProjectPath
from threegate.plugins.proposals.form import FormProblem, Proposal
from threegate.plugins.proposals.tools import Lane, ProposalRisk, VerdictName
from threegate.plugins.proposals.urls import URL

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class ProposalVerdict(NamedTuple):
    """The one verdict on a proposal.

    `errors` are all that reject or block it; `reasons` say in a sentence each why a human must look, and how
    high the risk is. `proposal` is set if the form is valid; `paths` and `urls` are its arguments as they
    were judged, by their names, if it is allowed.
    """

    verdict: VerdictName
    risk: ProposalRisk | None
    errors: tuple[FormProblem, ...]
    reasons: tuple[str, ...]
    becomes: Lane
    proposal: Proposal | None = None
    paths: Mapping[str, ProjectPath] = _NONE
    urls: Mapping[str, URL] = _NONE

    @property
    def schema_valid(self) -> bool:
        """Whether the published schema (formats asserted) accepts it, whatever the verdict says."""
        return self.proposal is not None

    @property
    def allowed(self) -> bool:
        """Whether it may become a draft."""
        return isinstance(self, AllowedProposal)

    def to_json(self) -> dict[str, Any]:
        """`{verdict, schema_valid, risk, errors, reasons, becomes}`, and the tool if it is known."""
        return {
            "verdict": self.verdict,
            "schema_valid": self.schema_valid,
            "risk": self.risk,
            "tool": self.proposal.tool.name if self.proposal else None,
            "errors": [problem._asdict() for problem in self.errors],
            "reasons": list(self.reasons),
            "becomes": self.becomes,
        }


class AllowedProposal(ProposalVerdict):
    """A verdict of `auto` or `approval`: the only one that a lane accepts."""

    __slots__ = ()
    if TYPE_CHECKING:
        proposal: Proposal

    @property
    def args(self) -> Mapping[str, Any]:
        """The proposal's arguments."""
        return self.proposal.args
