"""What the trail says, typed: one frozen payload for each kind of event of the core.

Invariant: every kind has exactly one class, and a line's bytes are what its class renders (`payload.py`). To add a kind
to the core: write its class in the family that it belongs to, and name it here. The kinds of a plugin are its own, in
the place `kinds` (`trail.event`).
"""

from typing import Final

from threegate.trail.payloads.approval_events import (
    ApprovalAbandoned,
    Approved,
    Countersigned,
    Covering,
    CoveringEnded,
    Uses,
    under_grant,
)
from threegate.trail.payloads.draft_events import Observed, Proposed, Validated
from threegate.trail.payloads.operator_events import OperatorAdded, OperatorRevoked, OperatorsChanged
from threegate.trail.payloads.payload import Payload, Placed, Signature, SignedAct
from threegate.trail.payloads.run_events import (
    Applied,
    Cancelled,
    CancelRequested,
    Claimed,
    Cleared,
    End,
    Finished,
    Interrupted,
    Quarantined,
    Refused,
    Rejected,
    Replayed,
    Started,
    Stopped,
    Waiting,
)
from threegate.trail.payloads.session_events import (
    ContractCheckpointAnswered,
    ContractMove,
    SessionKilled,
    SessionOpened,
)
from threegate.trail.payloads.workspace_events import (
    Pruned,
    Rotated,
    SettingsChanged,
    TrailCheckpointSigned,
    TreeAnnounced,
    WorkspaceAdopted,
    WorkspaceCreated,
)

PAYLOADS: Final[dict[str, type[Payload]]] = {
    cls.kind: cls
    for cls in list(vars().values())
    if isinstance(cls, type) and issubclass(cls, Payload) and "kind" in vars(cls)
}
"""The class of each kind of event of the core, by the event's `type`."""

__all__ = [
    "PAYLOADS",
    "Applied",
    "ApprovalAbandoned",
    "Approved",
    "CancelRequested",
    "Cancelled",
    "Claimed",
    "Cleared",
    "ContractCheckpointAnswered",
    "ContractMove",
    "Countersigned",
    "Covering",
    "CoveringEnded",
    "End",
    "Finished",
    "Interrupted",
    "Observed",
    "OperatorAdded",
    "OperatorRevoked",
    "OperatorsChanged",
    "Payload",
    "Placed",
    "Proposed",
    "Pruned",
    "Quarantined",
    "Refused",
    "Rejected",
    "Replayed",
    "Rotated",
    "SessionKilled",
    "SessionOpened",
    "SettingsChanged",
    "Signature",
    "SignedAct",
    "Started",
    "Stopped",
    "TrailCheckpointSigned",
    "TreeAnnounced",
    "Uses",
    "Validated",
    "Waiting",
    "WorkspaceAdopted",
    "WorkspaceCreated",
    "under_grant",
]
