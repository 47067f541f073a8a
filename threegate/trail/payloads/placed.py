"""What several families share: an event about a request's file, and an act that an operator signed.

Invariant: `state` and `file` are set by `trail.moves`, just before the event is appended, to where the file then goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from threegate.trail.payloads.payload import Fields, History, Payload, frozen_fields

Owner = int | str
"""The requester: uid of the owner of the draft's file; for a draft of an agent's run that run's id, whoever
owns the file.
"""


def owner_fields(owner: Owner | None) -> dict[str, Any]:
    """The fields of an event that say who asks."""
    return {"run": owner} if isinstance(owner, str) else {"owner_uid": owner}


@frozen_fields
class Placed(Payload):
    """An event that says where a request's file goes, or whose it is."""

    state: str | None = None
    """The state folder that the file goes to."""
    file: str | None = None
    """The file's name; there, when there is a `state`."""
    owner_uid: int | None = None
    """uid of the owner of the file."""
    run: str | None = None
    """Id of the requesting agent's run, instead of a uid: the file was in that run's inbox."""
    proposal_sha256: str | None = None
    """Digest of the proposal that the draft was made of."""
    files: Mapping[str, str] | None = None
    """Digest of the file ("") and of its companions, by their suffix (".sig", ".sig.NAME", ".proposal.json")."""

    @property
    def owner(self) -> Owner | None:
        """Who asks, as far as this event says."""
        return self.owner_uid if self.run is None else self.run

    def change(self, history: History, event: object) -> None:
        Payload.change(self, history, event)
        if self.state is not None and self.file is not None:
            history.state, history.file = self.state, self.file
        if history.owner is None:
            # The first event that names an owner determines the requester: a later file with the same id is
            # another party's attempt.
            history.owner = self.owner
        if self.proposal_sha256 is not None:
            history.proposal_sha256 = self.proposal_sha256


@frozen_fields
class Signature(Fields):
    """That a decision, which needs no signature, was signed all the same."""

    nonce: str
    """Used up by this event."""
    key: str
    """Fingerprint of the key, ``SHA256:…``."""
    act_sha256: str
    """Digest of the signed statement."""


@frozen_fields
class SignedAct(Payload):
    """An act that an operator signed; unsigned where the fields are None."""

    nonce: str | None = None
    """Used up by this event."""
    key: str | None = None
    """Fingerprint of the key, ``SHA256:…``."""
    act_sha256: str | None = None
    """Digest of the signed statement."""
