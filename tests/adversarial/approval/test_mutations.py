"""At least a thousand mutations of an approval: none runs, each has its reason code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adversarial.approval import mutations
from tests.approval import material
from tests.approval.material import Approved
from threegate.approval.launch import check_launch
from threegate.core.errors import Refused
from threegate.core.settings import QuorumSettings
from threegate.review.code_descriptions import APPROVAL

WHOLE = b"---\nrequest_id: req-1\n---\n## Code\n\n```python\nprint(1)\n```\n" * 8


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator's key."""
    return material.make_key(tmp_path_factory.mktemp("keys"), "operator")


@pytest.fixture(scope="module")
def other_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody else's key."""
    return material.make_key(tmp_path_factory.mktemp("keys"), "other", "ecdsa")


@pytest.fixture(scope="module")
def approved(key: Path) -> Approved:
    """An approval that passes."""
    return material.approve(key, material.make_request(data=WHOLE))


FAMILIES = {
    "signature_bytes": (lambda approved, other: mutations.signature_bytes(approved), 900),
    "statement_fields": (lambda approved, other: mutations.statement_fields(approved), 41),
    "request_bytes": (lambda approved, other: mutations.request_bytes(approved, WHOLE), 75),
    "job_fields": (lambda approved, other: mutations.job_fields(approved), 36),
    "times": (lambda approved, other: mutations.times(approved), 158),
    "uses": (lambda approved, other: mutations.uses(approved), 45),
    "operators_bytes": (lambda approved, other: mutations.operators_bytes(approved), 190),
    "swapped": (mutations.swapped, 18),
    "countersignature_bytes": (mutations.countersignature_bytes, 190),
}
"""Each family, and how many mutations it makes at least: together more than 1,000."""


def test_what_is_mutated_passes_as_it_is(approved: Approved, other_key: Path) -> None:
    assert sum(least for _, least in FAMILIES.values()) >= 1000
    check_launch(approved.facts())
    check_launch(approved.facts(signature=None, mode="optional"))
    both = approved.operators + material.line("other", other_key).encode()
    digest = check_launch(approved.facts()).approval_sha256
    word = material.countersigned(str(digest), "other", other_key)
    facts = approved.facts(operators=both, quorum=QuorumSettings(low=2), countersignatures={"other": word})
    assert [signer.name for signer in check_launch(facts).signers] == ["operator", "other"]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_mutation_runs(family: str, approved: Approved, other_key: Path) -> None:
    make, least = FAMILIES[family]
    found: Iterator[mutations.Mutation] = make(approved, other_key)
    wrong, count = [], 0
    for mutation in found:
        count += 1
        try:
            check_launch(mutation.facts)
            wrong.append(f"{mutation.name}: ran")
        except Refused as refusal:
            assert refusal.code in APPROVAL
            if refusal.code != mutation.code:
                wrong.append(f"{mutation.name}: {refusal.code} ({refusal}), expected {mutation.code}")
    assert wrong == []
    assert count >= least
