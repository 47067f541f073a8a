"""Kinds of events of tool servers: which are added, and what is pinned about each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from threegate.trail.payloads.payload import SignedAct, frozen_fields, named


@frozen_fields
class ToolsChanged(SignedAct):
    """What `tools/` has of a server from now on."""

    server: str | None
    """Its name."""
    files: Mapping[str, str | None] | None = None
    """Digest of its manifest, by its path; null: it was removed."""


@frozen_fields
class ToolsAdded(ToolsChanged):
    """An operator added a server: calls of its tools may be requested."""

    kind = "tools_added"

    place: str | None = None
    """Where it runs: ``jail``, ``era``, ``host``; ``remote``: behind a URL; ``caller``: in the program that asks."""
    hosts: tuple[str, ...] | None = None
    """Hosts that it may send anything to."""
    tools: int | None = None
    """How many tools are pinned."""

    def sentence(self) -> str:
        count = f" with {self.tools} tools" if self.tools is not None else ""
        hosts = f"; it may send anything to {', '.join(self.hosts)}" if self.hosts else ""
        return f"added the server{named(self.server)}{count}{hosts}"


@frozen_fields
class ToolsRefreshed(ToolsChanged):
    """An operator saw what differs in a server, and signed it."""

    kind = "tools_refreshed"

    before_sha256: str | None = None
    """Digest of the manifest before."""
    changed: tuple[str, ...] | None = None
    """What differs, the first ones."""

    def sentence(self) -> str:
        changed = f": {', '.join(self.changed)}" if self.changed else ""
        return f"accepted the server{named(self.server)} as it is now{changed}"


@frozen_fields
class ToolsRemoved(ToolsChanged):
    """A server was removed: its tools cannot be called any more."""

    kind = "tools_removed"

    def sentence(self) -> str:
        return f"removed the server{named(self.server)}"


def manifest_path(server: str) -> str:
    """Where the manifest of a server is, below tool-exec/."""
    return f"tools/{server}.json"


KINDS: Final = (ToolsAdded, ToolsRefreshed, ToolsRemoved)
