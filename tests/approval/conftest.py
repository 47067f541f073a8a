"""Keys are made once a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.approval import material


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator's key."""
    return material.make_key(tmp_path_factory.mktemp("keys"), "operator")


@pytest.fixture(scope="session")
def other_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody else's key."""
    return material.make_key(tmp_path_factory.mktemp("keys"), "other", "ecdsa")


@pytest.fixture(scope="session")
def approved(key: Path) -> material.Approved:
    """An approval that passes."""
    return material.approve(key)
