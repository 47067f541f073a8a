"""Families of mutations whose outcome is known one by one (the byte flips are in tests/adversarial/approval)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adversarial.approval import mutations
from tests.approval.material import Approved
from threegate.approval.launch import check_launch
from threegate.core.errors import Refused

FAMILIES = {
    "armor": (lambda approved, other: mutations.armor(approved), 28),
    "statement_spelling": (lambda approved, other: mutations.statement_spelling(approved), 22),
    "operator_lines": (lambda approved, other: mutations.operator_lines(approved), 36),
    "countersignatures": (mutations.countersignatures, 12),
    "unsigned": (lambda approved, other: mutations.unsigned(approved), 16),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_is_refused_with_its_code(family: str, approved: Approved, other_key: Path) -> None:
    make, least = FAMILIES[family]
    found = list(make(approved, other_key))
    assert len(found) >= least
    for mutation in found:
        with pytest.raises(Refused) as caught:
            check_launch(mutation.facts)
        assert caught.value.code == mutation.code, (mutation.name, str(caught.value))
