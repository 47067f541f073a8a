"""Adopt a workspace that was restored, copied or moved: an operator's signed act that begins a new epoch.

Invariant: only a trail that verifies is adopted; after adoption every approval of an earlier epoch is void
(`workspace_mismatch`), so that nothing that ran before the restored backup was made can run again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threegate.acts.signed_acts import checked_act, sign_act
from threegate.acts.signing_key import Acting
from threegate.audit.audit_verify import verify_workspace
from threegate.core.errors import Refused, Unavailable
from threegate.core.user_state import UserState
from threegate.launch.context import Context
from threegate.trail.payloads import WorkspaceAdopted
from threegate.trail.trail import LockedTrail
from threegate.trail.workspace_key import load_key, make_key

ADOPT = "threegate-adopt/1"


@dataclass(frozen=True, slots=True)
class Adopted:
    """The result of an adoption: why it was necessary, and the epoch that begins."""

    problem: str
    epoch: int
    new_key: bool


def adopt_about(context: Context) -> Mapping[str, Any]:
    """What the act states: the workspace's current location, the end of its trail, and the reason. Raises
    Refused if there is nothing to adopt.
    """
    with context.trail.locked() as held:
        problem = held.outside_problem()
        if problem is None:
            raise Refused("nothing_to_adopt", "the workspace was not moved or changed; nothing to adopt")
        return _about(context, held, problem)


def adopt(context: Context, acting: Acting, about: Mapping[str, Any]) -> Adopted:
    """Verify the trail, sign the act, raise the epoch, store the new head outside. Raises Refused,
    Unavailable, TrailError.
    """
    result = verify_workspace(context.workspace)
    # That the outside head disagrees is what an adoption is for.
    bad = [item for item in result.problems if "head kept outside" not in item.message]
    if bad:
        raise Refused("trail_invalid", f"{bad[0]}; only a workspace that verifies can be adopted")
    signed = sign_act(context, acting, ADOPT, about)
    with context.trail.locked() as held:
        problem = held.outside_problem()
        # The second look, under the lock: the signature is about the trail's end as it was shown.
        if problem is None or _about(context, held, problem) != about:
            raise Refused("statement_mismatch", "the workspace changed meanwhile; try again")
        actor, act = checked_act(context, held, signed, ADOPT, about)
        new_key = _own_key(held)
        epoch = held.index.epoch + 1
        held.append(WorkspaceAdopted(**{**about, **act, "epoch": epoch, "vkey": new_key}), actor=actor)
        held.keep_head(replace=True)
    return Adopted(problem, epoch, new_key is not None)


def _about(context: Context, held: LockedTrail, problem: str) -> dict[str, Any]:
    return {
        "path": str(context.workspace.root),
        "seq": held.index.head.seq,
        "head": held.index.head.hash,
        "problem": problem,
        "epoch": held.index.epoch + 1,
    }


def _own_key(held: LockedTrail) -> str | None:
    """The verifier key of a new workspace key, created if this user has none; None if there is one."""
    try:
        load_key(held.index.workspace_id)
    except Unavailable:
        if UserState.of(held.index.workspace_id).key_file.exists():
            raise
        return make_key(held.index.workspace_id).public.render()
    return None
