"""The Job's effective risk: what is declared, or what the request can do, whichever is higher."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.request.examples import era, read
from threegate.request.job import effective_risk


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"data_sensitivity": "public"}, "low"),
        ({"data_sensitivity": "internal"}, "medium"),
        ({"data_sensitivity": "public", "network": "allowlist"}, "medium"),
        ({"data_sensitivity": "public", "risk_level": "high"}, "high"),
        ({"data_sensitivity": "public", "unusual_program": True}, "high"),
    ],
)
def test_effective_risk_is_never_below_what_is_declared_or_computed(
    changes: dict[str, object], expected: str
) -> None:
    request = read(era()).request
    assert request is not None
    assert effective_risk(replace(request, **{"risk_level": "low", **changes})) == expected  # type: ignore[arg-type]
