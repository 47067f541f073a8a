"""The section [grants] of threegate.toml.

Invariant: it imports nothing heavy, because every command may read it.
"""

from __future__ import annotations

from threegate.core.settings import Section
from threegate.core.toml_table import Table, setting


class GrantSettings(Table):
    """Standing grants, which cover several requests with one signature (docs/grants.md)."""

    allow: bool = setting(default=False, description="whether standing grants may be given and used")
    allow_write: bool = setting(
        default=False,
        description="whether a standing grant may cover calls of tools whose contract does not say `side_effect: read`",
    )


SECTION = Section(GrantSettings, decides=("allow", "allow_write"), bound=("allow", "allow_write"))
