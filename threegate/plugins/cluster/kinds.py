"""Kinds of events of a cluster."""

from __future__ import annotations

from typing import Final

from threegate.trail.payloads.payload import SignedAct, frozen_fields


@frozen_fields
class OperatorsDistributed(SignedAct):
    """An operator signed the operators files as they are, for the workers that take them."""

    kind = "cluster.operators_distributed"

    number: int | None = None
    """Rises: a worker takes no lower one than it has taken."""
    operators_sha256: str | None = None
    revoked_sha256: str | None = None
    passkeys_sha256: str | None = None

    def sentence(self) -> str:
        return f"signed the operators files for the workers{f' (number {self.number})' if self.number else ''}"


KINDS: Final = (OperatorsDistributed,)
