"""The section [tools] of threegate.toml.

Invariant: it imports nothing heavy, because every command may read it. Nothing here decides what may run: the client of
a login is signed with its server.
"""

from __future__ import annotations

from threegate.core.settings import Section
from threegate.core.toml_table import Table, setting


class ToolsSettings(Table):
    """Logins to remote tool servers (docs/tools-login.md)."""

    client_metadata_url: str = setting(
        default="",
        pattern=r"(https://[a-z0-9.-]+(:[0-9]{1,5})?/[!-~]{1,1000})?",
        description="URL of a Client ID Metadata Document of yours, the client id where an authorization server takes "
        "one; empty: ThreeGate registers itself",
    )


TOOLS = Section(ToolsSettings)
