"""The Job's effective risk: what is declared, or what the request can do, whichever is higher."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.request.examples import era, read
from threegate.request.exposure import Exposure
from threegate.request.job import effective_risk

SHOWN = Exposure("transparent", "x")
OPAQUE = Exposure("opaque", "x")
REACHES = ("network a.example.com:443",)


@pytest.mark.parametrize(
    ("changes", "exposure", "expected"),
    [
        ({"data_sensitivity": "public"}, SHOWN, "low"),
        ({"data_sensitivity": "internal"}, SHOWN, "medium"),
        ({"data_sensitivity": "public", "network": "allowlist"}, replace(SHOWN, reach=REACHES), "medium"),
        ({"data_sensitivity": "public", "risk_level": "high"}, SHOWN, "high"),
        ({"data_sensitivity": "public", "unusual_program": True}, SHOWN, "high"),
        ({"data_sensitivity": "public"}, OPAQUE, "medium"),
        ({"data_sensitivity": "public"}, replace(OPAQUE, reach=REACHES), "high"),
        ({"data_sensitivity": "public", "risk_level": "high"}, OPAQUE, "high"),
    ],
)
def test_effective_risk_is_never_below_what_is_declared_or_computed(
    changes: dict[str, object], exposure: Exposure, expected: str
) -> None:
    request = read(era()).request
    assert request is not None
    changed = replace(request, **{"risk_level": "low", **changes})  # type: ignore[arg-type]
    assert effective_risk(changed, exposure) == expected
