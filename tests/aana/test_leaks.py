"""Masking: neighbours share the character between them, and every one of them is masked."""

from __future__ import annotations

import pytest

from threegate.aana.leaks import masked


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize(("value", "kind"), [("ada@example.com", "[email]"), ("078-05-1120", "[number]")])
def test_neighbours_are_masked_each(value: str, kind: str, count: int) -> None:
    assert masked(" ".join([value] * count)) == " ".join([kind] * count)
