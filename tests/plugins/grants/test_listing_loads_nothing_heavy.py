"""Listing grants loads no server and no compiler of contracts."""

from __future__ import annotations

from pathlib import Path

from tests.support import make_place
from tests.whole.test_imports import HEAVY, loaded


def test_listing_grants_loads_nothing_heavy(tmp_path: Path) -> None:
    assert not HEAVY & loaded(make_place(tmp_path), "grant", "list")
