"""A note as large as a proposal may be is stored and found again, and makes no other note unreadable."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tests.acts.bench_workspace import Bench
from tests.plugins.proposals.test_memory_store import stored
from threegate.acts.signed_acts import sign_act
from threegate.acts.signing_key import Acting
from threegate.core import limits
from threegate.plugins.proposals.memory import APPLY, ProposedNote, store_note
from threegate.plugins.proposals.proposal_draft import draft_from_proposal

SEARCH = {"schemaVersion": "clawguard.agentActionProposal.v1", "tool": "memory.search", "args": {"query": "x"}}


@pytest.mark.parametrize("content", ["x" * 65_430, "é" * 32_700], ids=["ascii", "two bytes each"])
def test_stored_and_searched(bench: Bench, content: str) -> None:
    assert len(json.dumps({"content": content}, ensure_ascii=False).encode()) <= limits.PROPOSAL_BYTES
    about = {"request_id": "large", "approval_sha256": "a" * 64, "note_sha256": "b" * 64}
    note = {"content": content, "scope": None, "sensitive": False, "type": None}
    signed = sign_act(bench.context, Acting("alice", bench.keys["alice"]), APPLY, about)
    store_note(bench.context, ProposedNote(note, about), signed)
    assert stored(bench) == ["large"]
    result = draft_from_proposal(
        json.dumps(SEARCH).encode(), settings=bench.context.policy.settings, workspace=bench.workspace,
        now=datetime.now(UTC),
    )  # fmt: skip
    assert result.problem is None and json.loads(result.inputs["memory.jsonl"])["content"] == content
