"""A draft in parts, before it is written, and the args.json that its program reads.

Invariant: a plan is a value; `draft.py` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from threegate.changes.make import MadeChangeSet
from threegate.core import limits
from threegate.plugins.proposals.proposal_verdict import AllowedProposal
from threegate.plugins.proposals.urls import URL
from threegate.request.model import Backend, Sensitivity


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """One draft in parts. `derived` are input files that follow from the verdict and the primary files."""

    backend: Backend
    code: str = ""
    argv: tuple[str, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    """The arguments that the program reads from args.json."""
    derived: Mapping[str, bytes] = field(default_factory=dict)
    outputs: tuple[tuple[str, str], ...] = ()
    workdir: str = ""
    network: URL | None = None
    rationale: str = ""
    time_sec: int = limits.PROPOSAL_MONTY_SECONDS
    memory_mb: int = 128
    sensitivity: Sensitivity = "internal"
    notes: tuple[str, ...] = ()
    change: MadeChangeSet | None = None
    """For backend apply: the change set. Such a plan has no other parts."""


def given_bytes(verdict: AllowedProposal, plan: DraftPlan, proposal_sha256: str) -> bytes:
    """args.json: the proposal's own words and the program's arguments. Sorted, so that it can be derived
    again identically.
    """
    proposal = verdict.proposal
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
