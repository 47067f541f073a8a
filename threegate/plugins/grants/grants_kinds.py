"""Kinds of events of standing grants. How often one was used is the core's (`claimed`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from threegate.trail.event import Event
from threegate.trail.index import TrailIndex
from threegate.trail.payloads import Covering, CoveringEnded
from threegate.trail.payloads.payload import frozen_fields, named


@frozen_fields
class Granted(Covering):
    """An operator signed a standing grant."""

    kind = "granted"

    from_: str | None = None
    """The finished request that it was made from. None: it was made from a tool's schema."""
    calls: str | None = None
    """The tool whose calls it is for, as SERVER.TOOL. None: it is for no calls."""
    inputs: tuple[str, ...] | None = None
    """Names of the inputs whose bytes may differ, in lines of before 0.1.0."""
    widened: tuple[str, ...] | None = None
    """The parts of the request that may differ."""
    key: str | None = None
    """Fingerprint of the key, ``SHA256:…``."""
    nonce: str | None = None
    files: Mapping[str, str] | None = None
    """Digest of the grant's file, and of its policy as it is kept among the pinned inputs, by their paths. Lines of an
    earlier version have no policy.
    """

    def sentence(self) -> str:
        uses = f", for at most {self.max_uses} runs" if self.max_uses is not None else ""
        source = f", made from {self.from_}" if self.from_ else ""
        source += f", for calls of {self.calls}" if self.calls else ""
        widened = f", with {', '.join(self.widened)} widened" if self.widened else ""
        return f"gave the standing grant{named(self.grant)}{uses}{source}{widened}"

    def learn(self, index: TrailIndex, event: Event) -> None:
        if self.grant is not None:
            index.grants.setdefault(self.grant, 0)


@frozen_fields
class GrantRevoked(CoveringEnded):
    """A standing grant was revoked."""

    kind = "grant_revoked"

    def sentence(self) -> str:
        return f"revoked the standing grant{named(self.grant)}"

    def learn(self, index: TrailIndex, event: Event) -> None:
        if self.grant is not None:
            index.grants.pop(self.grant, None)


def grant_path(grant: str) -> str:
    """Where the file of a grant is, below tool-exec/."""
    return f"grants/{grant}.grant"


def policy_path(sha256: str) -> str:
    """Where the policy of a grant is kept, below tool-exec/."""
    return f"inputs/{sha256}"


KINDS: Final = (Granted, GrantRevoked)
