"""The section [drills] of threegate.toml.

Invariant: it imports nothing heavy, because every command may read it.
"""

from __future__ import annotations

from threegate.core.settings import Section, parse_duration
from threegate.core.toml_table import Table, setting


class DrillSettings(Table):
    """Drafts that must not be approved, placed now and then once an operator said `threegate operator drills on`
    (docs/drills.md).
    """

    every: int = setting(
        parse=parse_duration,
        default=3 * 86400,
        ge=3600,
        le=90 * 86400,
        description="time between two drills, on average; each comes after half to one and a half of it",
    )


SECTION = Section(DrillSettings)
