"""Enrol a passkey: an operator lets a browser's key approve under their own name, with an act that their SSH
key signs.

Invariant: an operator enrols passkeys only for their own name, and a passkey can enrol nothing; the trail has
the digests of both files before either changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from threegate.acts.operator import append_operator
from threegate.acts.signed_acts import checked_act
from threegate.approval.operators import Operator
from threegate.approval.passkey import Passkey, decode_base64url, passkey_of
from threegate.approval.ssh_wire import MalformedError, PublicKey
from threegate.core import canonical, limits
from threegate.core.errors import InvalidInput, Refused
from threegate.launch.context import Context
from threegate.trail.payloads import Signature

PASSKEY_ACT = "threegate-passkey/1"


@dataclass(frozen=True, slots=True)
class MadePasskey:
    """A passkey that a browser made, not yet enrolled."""

    key: PublicKey
    passkey: Passkey

    def about(self, operator: str) -> dict[str, Any]:
        """What the operator signs."""
        return {
            "operator": operator,
            "key": self.key.fingerprint,
            "rp_id": self.passkey.rp_id,
            "origin": self.passkey.origin,
            "credential": self.passkey.credential,
        }


def read_made_passkey(data: bytes, origin: str) -> MadePasskey:
    """Read what the page sent: ``{"credential": …, "public_key": …}``, both base64url. Raises InvalidInput."""
    try:
        value = canonical.loads_strict(data, max_bytes=limits.PASSKEY_REQUEST_BYTES, max_depth=2)
        if not isinstance(value, dict) or value.keys() != {"credential", "public_key"}:
            raise MalformedError("must have exactly a credential and a public key")
        credential, public_key = value["credential"], value["public_key"]
        if not (isinstance(credential, str) and isinstance(public_key, str)):
            raise MalformedError("the credential and the public key must be strings")
        return MadePasskey(*passkey_of(decode_base64url(public_key), origin, credential))
    except (canonical.StrictJSONError, MalformedError) as error:
        raise InvalidInput(f"the passkey {error}; make it again on the page") from None


def enrol_passkey(context: Context, name: str, made: MadePasskey, signed: bytes) -> Operator:
    """Add the passkey to the operators, under the trail's lock. Raises Refused, InvalidInput, TrailError, OSError."""
    with context.trail.locked() as held:
        actor, fields = checked_act(context, held, signed, PASSKEY_ACT, made.about(name))
        if actor != f"operator:{name}":
            raise Refused("statement_mismatch", f"{name}'s passkey must be enrolled by {name}'s own SSH key")
        if made.passkey.origin != context.policy.settings.approval.passkey_origin:
            raise Refused("policy_changed", "the passkey was made for another origin than approval.passkey_origin")
        entry = Operator(name, made.key, passkey=made.passkey, comment="passkey")
        append_operator(context.workspace, held, entry, actor=actor, signed=Signature(**fields))
    return entry
