"""The statements of the published texts that were tried and did not hold, each as a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., None])


def differs(statement: str) -> Callable[[Test], Test]:
    """Marks the test of a row of docs/differences.md; `statement` is the row's first cell, as it is there."""
    return lambda test: test
