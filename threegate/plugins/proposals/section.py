"""The section [proposals] of threegate.toml.

Invariant: it imports nothing heavy, because every command may read it.
"""

from __future__ import annotations

from threegate.core.settings import Section
from threegate.core.toml_table import Table, setting


class ProposalSettings(Table):
    """Action proposals (docs/spec/5-proposals.md)."""

    search_url: str = setting(default="", description="search page for web.search, with {query}; empty: no draft")
    github_api: str = setting(
        default="https://api.github.com", description="API that the github tools of proposals speak to"
    )


SECTION = Section(ProposalSettings)
