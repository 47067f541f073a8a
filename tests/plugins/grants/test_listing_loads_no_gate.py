"""Listing grants loads no gate."""

from __future__ import annotations

from pathlib import Path

from tests.support import make_place
from tests.whole.test_imports import HEAVY, loaded


def test_listing_grants_loads_no_gate(tmp_path: Path) -> None:
    count, names = loaded(make_place(tmp_path), "grant", "list")
    assert count <= 302
    assert not (HEAVY - {"cryptography"}) & names
