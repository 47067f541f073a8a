"""Exact arithmetic: totals, bounds and tolerances are the decimals that are written, never rounded."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Final

EXACT: Final = Context(prec=1200)
"""Enough digits that the sum of doubles is never rounded: totals do not depend on the order of calls."""


def exact(number: int | float) -> Decimal:
    """A JSON number as the decimal that is written."""
    return Decimal(number) if isinstance(number, int) else Decimal(repr(number))
