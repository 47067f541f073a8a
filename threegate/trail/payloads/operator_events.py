"""Events of the operators' keys."""

from __future__ import annotations

from threegate.trail.payloads.payload import Payload, Signature, because, frozen_fields, named, nested


@frozen_fields
class OperatorsChanged(Payload):
    """What the files are from now on."""

    operators_sha256: str | None
    """Digest of the operators file; None: there is none."""
    revoked_sha256: str | None
    """Digest of operators.revoked; None: there is none."""
    operator: str | None = None
    passkeys_sha256: str | None = None
    """Digest of operators.passkeys; None: there is none."""


@frozen_fields
class OperatorAdded(OperatorsChanged):
    """An operator got a key, or the files were recorded unchanged."""

    kind = "operator_added"

    key: str | None = None
    """Fingerprint of the key, ``SHA256:…``."""
    authority: bool | None = None
    """Whether the key certifies others."""
    names: tuple[str, ...] | None = None
    """All operators, when the files were recorded unchanged."""
    origin: str | None = None
    """The web origin that a passkey is pinned to; None for every other key."""
    signed: Signature | None = nested(default=None, read=Signature.read)
    """Of a passkey: the operator's own key signed its enrolment."""

    def sentence(self) -> str:
        if self.names is not None:
            return f"recorded the operators as they are{because(', '.join(self.names))}"
        key = f" ({self.key})" if self.key else ""
        if self.origin:
            return f"enrolled a passkey of the operator{named(self.operator)} for {self.origin}{key}"
        return f"added a key of the operator{named(self.operator)}{key}"


@frozen_fields
class OperatorRevoked(OperatorsChanged):
    """Keys were revoked."""

    kind = "operator_revoked"

    keys: tuple[str, ...] | None = None
    """Their fingerprints."""

    def sentence(self) -> str:
        keys = f" ({', '.join(self.keys)})" if self.keys else ""
        return f"revoked the operator{named(self.operator)}{keys}"
