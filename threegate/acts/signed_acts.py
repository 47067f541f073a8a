"""An operator's signed acts: made with their key, and checked under the trail's lock before the event is written.

Invariant: every kind of act has a type of its own, and what it is about is compared whole; docs/spec/2-approval.md, "Other acts".
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from threegate.acts.signing_key import Acting
from threegate.approval import NAMESPACE_ACT, Act, check_act, render_signed, sign_statement
from threegate.core import canonical, limits
from threegate.core.errors import Refused
from threegate.launch.context import Context
from threegate.launch.launch_facts import read_operators
from threegate.review.reviewed_draft import refuse_bad_clock
from threegate.trail import LockedTrail


def sign_act(context: Context, acting: Acting, kind: str, about: Mapping[str, Any]) -> bytes:
    """Sign an act of this workspace. ssh-keygen may ask on the terminal. Raises InvalidInput, Unavailable, Refused."""
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
    return render_signed(data, sign_statement(data, acting.key, NAMESPACE_ACT))


def checked_act(
    context: Context, held: LockedTrail, signed: bytes, kind: str, about: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Check a signed act under the trail's lock; the actor of its event, and the fields of a `SignedAct`. Raises Refused."""
    refuse_bad_clock(held)
    act, signer = check_act(
        signed,
        kind,
        operators=read_operators(context.workspace),
        recorded_operators=held.index.operators,
        workspace_id=context.policy.settings.workspace.id,
        epoch=held.index.epoch,
        nonce_used=held.index.nonce_known,
        now=held.now,
        max_age_sec=limits.APPLY_SECONDS,
    )
    if dict(act.about) != dict(about):
        raise Refused("statement_mismatch", "the signature is about something else")
    digest = canonical.sha256_hex(act.to_bytes())
    return f"operator:{act.acted_by}", {"nonce": act.nonce, "key": signer.fingerprint, "act_sha256": digest}
