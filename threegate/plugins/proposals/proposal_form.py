"""Proposals as a kind of document that a surface judges: its address, and the model of the answer."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import ConfigDict, Field, WithJsonSchema

from threegate.core.forms import Form, JudgedDocument
from threegate.core.record import Record, without_null
from threegate.core.settings import Settings
from threegate.plugins.proposals.proposal_draft import links_of
from threegate.plugins.proposals.rules import judge_proposal
from threegate.plugins.proposals.tools import TOOLS, Lane, ProposalRisk, VerdictName

_Tool = Annotated[str, WithJsonSchema({"enum": list(TOOLS)})]


class _Answer(Record):
    model_config = ConfigDict(extra="ignore", json_schema_extra=without_null)


class ProposalProblem(_Answer):
    """One reason to reject or block a proposal."""

    path: str
    code: str
    message: str


class ProposalVerdict(_Answer):
    """The verdict on a proposal."""

    verdict: VerdictName
    schema_valid: bool = Field(
        description="Whether the published schema accepts the proposal, whatever the verdict is."
    )
    risk: ProposalRisk | None
    tool: _Tool | None
    errors: list[ProposalProblem]
    reasons: list[str]
    becomes: Lane


def _judge(data: bytes, settings: Settings) -> JudgedDocument:
    verdict = judge_proposal(data, settings=settings, links=links_of(settings))
    proposal = verdict.proposal
    return JudgedDocument(
        answer=verdict.to_json(),
        verdict=verdict.verdict,
        codes=[problem.code for problem in verdict.errors],
        value=None if proposal is None else dict(proposal.args),
        names={
            "request_id": proposal.said("id") if proposal else None,
            "tool_name": proposal.tool.name if proposal else None,
        },
    )


FORM: Final = Form(
    log_type="proposal_verdict/1",
    path="/proposals/validate",
    operation="validateProposal",
    asks="What is the verdict on this proposal?",
    says="Judges one JSON action proposal. This runs nothing: auto and approval mean that it may become a draft.",
    schema="agent-action-proposal",
    answer=ProposalVerdict,
    judge=_judge,
)
