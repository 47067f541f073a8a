"""An operator's signed acts: made with their key, and checked under the trail's lock before the event is written.

Invariant: every kind of act has its own type, and its whole content is compared; docs/spec/2-approval.md, "Other acts".
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from threegate.acts.signing_key import Acting
from threegate.approval.further_signatures import check_act
from threegate.approval.signature import sign_statement
from threegate.approval.ssh_wire import NAMESPACE_ACT
from threegate.approval.statement import Act, render_signed
from threegate.core import canonical, limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.launch.context import Context
from threegate.launch.launch_problem import read_operators
from threegate.review.reviewed_draft import refuse_bad_clock
from threegate.trail.payloads import Signature
from threegate.trail.trail import LockedTrail


def sign_act(context: Context, acting: Acting, kind: str, about: Mapping[str, Any], *, ask: bool = True) -> bytes:
    """Sign an act here. ssh-keygen may `ask` on the terminal. Raises InvalidInput, Unavailable, Refused."""
    with context.trail.locked() as held:
        refuse_bad_clock(held)
        epoch, now = held.index.epoch, held.now
    act = Act(
        type=kind,
        workspace_id=context.policy.settings.workspace.id,
        epoch=epoch,
        acted_by=acting.name,
        acted_utc=max(datetime.now(UTC), now).replace(microsecond=0),
        nonce=secrets.token_hex(16),
        about=about,
    )
    data = act.to_bytes()
    return render_signed(data, sign_statement(data, acting.key, NAMESPACE_ACT, ask=ask))


@dataclass(frozen=True, slots=True)
class OperatorDecision:
    """Who rejects or stops something, with a signature if one could be made: such an act needs none."""

    actor: str
    signed: bytes | None = None
    account: str = ""
    """Who acts if the signature is invalid; empty: then the decision is refused."""

    def checked(
        self, context: Context, held: LockedTrail, kind: str, about: Mapping[str, Any]
    ) -> tuple[str, Signature | None]:
        """The actor of the event and its signature, checked under the trail's lock. Raises Refused."""
        if self.signed is None:
            return self.actor, None
        try:
            actor, fields = checked_act(context, held, self.signed, kind, about)
        except Refused:
            if not self.account:
                raise
            return self.account, None
        return actor, Signature(**fields)


def decide(
    context: Context,
    kind: str,
    about: Mapping[str, Any],
    *,
    account: str,
    acting: Acting | None,
    ask: bool = False,
) -> OperatorDecision:
    """A decision by the operator whose key is available, signed if the key needs no interaction; otherwise by
    `account`, the user who runs this.

    Rejecting and stopping must always be possible: if a key is missing, locked, unplugged or revoked, only the
    signature is left out. With `ask`, it is signed or it is an error. Raises InvalidInput, Unavailable, Refused.
    """
    if acting is None:
        return OperatorDecision(account)
    actor = f"operator:{acting.name}"
    if ask:
        return OperatorDecision(actor, sign_act(context, acting, kind, about))
    if acting.asks == "nothing":
        with suppress(InvalidInput, Unavailable, Refused):
            return OperatorDecision(actor, sign_act(context, acting, kind, about, ask=False), account)
    return OperatorDecision(actor)


def checked_act(
    context: Context, held: LockedTrail, signed: bytes, kind: str, about: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Check a signed act under the trail's lock; return the actor of its event, and the fields of a
    `SignedAct`. Raises Refused.
    """
    refuse_bad_clock(held)
    act, signer = check_act(
        signed,
        kind,
        operators=read_operators(context.workspace),
        recorded_operators=held.index.operators,
        workspace_id=context.policy.settings.workspace.id,
        epoch=held.index.epoch,
        # Stricter than for an approval: an act's nonce must be new, and not only unused.
        nonce_used=held.index.nonce_known,
        now=held.now,
        max_age_sec=limits.APPLY_SECONDS,
    )
    # The whole content is compared: a signature over more or less than was shown is about something else.
    if dict(act.about) != dict(about):
        raise Refused("statement_mismatch", "the signature is about something else")
    digest = canonical.sha256_hex(act.to_bytes())
    return f"operator:{act.acted_by}", {"nonce": act.nonce, "key": signer.fingerprint, "act_sha256": digest}
