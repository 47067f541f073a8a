"""Masking: neighbours share the character between them, and every one of them is masked."""

from __future__ import annotations

import pytest

from threegate.aana.leaks import masked

ADDRESS = "ada@example.com"


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_neighbours_are_masked_each(count: int) -> None:
    text = masked(" ".join([ADDRESS] * count))
    assert text == " ".join(["[email]"] * count)
