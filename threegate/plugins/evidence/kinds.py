"""Kinds of events of witnesses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from threegate.trail.event import Event
from threegate.trail.index import TrailIndex
from threegate.trail.payloads.payload import Payload, because, frozen_fields, named


@frozen_fields
class Witnessed(Payload):
    """A witness answered to a trail checkpoint: it cosigned it, or refused to."""

    kind = "witnessed"

    size: int | None
    """Of the checkpoint."""
    witness: str | None
    """The witness's name in the settings."""
    vkey: str | None
    """Its public key, as a C2SP verifier key."""
    cosignature: str | None = None
    """The cosignature (C2SP cosignature/v1): key id, time and signature, in hex, which looks like no secret."""
    files: Mapping[str, str] | None = None
    """Digest of ``audit/checkpoints/<size>.<witness>``, which is the checkpoint with the cosignature, by its path."""
    reason: str | None = None
    """The reason of its refusal, in its words."""

    def sentence(self) -> str:
        of = f" the trail checkpoint at {self.size} events" if self.size is not None else " a trail checkpoint"
        if self.cosignature is None:
            return f"the witness{named(self.witness)} refused to cosign{of}{because(self.reason)}"
        return f"the witness{named(self.witness)} cosigned{of}"

    def learn(self, index: TrailIndex, event: Event) -> None:
        index.answers += 1
        if self.cosignature is not None:
            index.cosigned = event.data


def cosigned_path(size: int, witness: str) -> str:
    """Where the checkpoint of this size with the cosignature of a witness is, below tool-exec/."""
    return f"audit/checkpoints/{size:012d}.{witness}"


KINDS: Final = (Witnessed,)
