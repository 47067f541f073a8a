"""The type checker's warnings reach the verdict, after it was given, and never make a draft invalid."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import Place, make_place, monty_draft, request_id


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def test_a_type_error_is_a_warning_in_the_verdict(place: Place) -> None:
    wrong, right = request_id("wrong"), request_id("right")
    bad = place.drop(monty_draft(wrong, "x = 1 + 'a'\nx"))
    good = place.drop(monty_draft(right, "x = 1 + 2\nx"))
    place.once()
    verdict = place.verdict(bad.name)
    assert (verdict["state"], verdict["valid"]) == ("draft", True)
    warnings = [item for item in verdict["findings"] if item["rule"] == "TG409"]
    assert warnings
    assert all(item["severity"] == "warning" for item in warnings)
    assert bad.read_text().splitlines()[warnings[0]["line"] - 1] == "x = 1 + 'a'"
    assert place.verdict(good.name)["findings"] == []
