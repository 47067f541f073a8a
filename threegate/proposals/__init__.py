"""JSON action proposals: what an agent wants, judged once, and turned into an ordinary draft of a tool
request.

Invariant: a proposal has one verdict (`reject`, `block`, `approval`, `auto`); only the last two become a
draft, and the draft's bytes follow only from the proposal's bytes and the pinned files, so that `approve` can
derive them again. Source: docs/spec/5-proposals.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.core.on_demand import on_demand

if TYPE_CHECKING:
    from threegate.proposals.draft_places import draft_inputs_folder, proposal_file
    from threegate.proposals.form import FormProblem, Proposal
    from threegate.proposals.proposal_draft import (
        DraftResult,
        derive_again,
        draft_from_proposal,
        links_of,
    )
    from threegate.proposals.proposal_verdict import AllowedProposal, ProposalVerdict
    from threegate.proposals.rules import judge_proposal
    from threegate.proposals.tools import TOOLS, ProposalTool
else:
    __getattr__ = on_demand(
        __name__,
        {
            "draft_places": "draft_inputs_folder proposal_file",
            "form": "FormProblem Proposal",
            "proposal_draft": "DraftResult derive_again draft_from_proposal links_of",
            "proposal_verdict": "AllowedProposal ProposalVerdict",
            "rules": "judge_proposal",
            "tools": "TOOLS ProposalTool",
        },
    )

__all__ = [
    "TOOLS",
    "AllowedProposal",
    "DraftResult",
    "FormProblem",
    "Proposal",
    "ProposalTool",
    "ProposalVerdict",
    "derive_again",
    "draft_from_proposal",
    "draft_inputs_folder",
    "judge_proposal",
    "links_of",
    "proposal_file",
]
