"""What the trail says, typed: one frozen payload for each kind of event.

Invariant: every kind has exactly one class here, and a line's bytes are what its class renders (`payload.py`). To add a
kind: write its class in the family that it belongs to, and name it in `PAYLOADS`.
"""

from collections.abc import Mapping
from typing import Final

from threegate.trail.payloads.agent_events import AgentEnded, AgentStarted
from threegate.trail.payloads.approval_events import (
    ApprovalAbandoned,
    Approved,
    Countersigned,
    Granted,
    GrantRevoked,
    Promoted,
)
from threegate.trail.payloads.draft_events import Observed, Proposed, Validated
from threegate.trail.payloads.operator_events import OperatorAdded, OperatorRevoked, OperatorsChanged
from threegate.trail.payloads.payload import Payload
from threegate.trail.payloads.placed import Placed, Signature, SignedAct
from threegate.trail.payloads.run_events import (
    Applied,
    Cancelled,
    CancelRequested,
    Claimed,
    Cleared,
    Delivered,
    End,
    Finished,
    Interrupted,
    Quarantined,
    Refused,
    Rejected,
    Replayed,
    Started,
    Stopped,
    Undone,
    UndoStarted,
    Waiting,
)
from threegate.trail.payloads.session_events import (
    CheckpointAnswered,
    ContractMove,
    SessionKilled,
    SessionOpened,
)
from threegate.trail.payloads.workspace_events import (
    CheckpointSigned,
    ProjectAdded,
    ProjectRemoved,
    ProjectsChanged,
    Pruned,
    Rotated,
    SettingsChanged,
    TreeAnnounced,
    Witnessed,
    WorkspaceAdopted,
    WorkspaceCreated,
)

PAYLOADS: Final[Mapping[str, type[Payload]]] = {
    cls.kind: cls
    for cls in (
        WorkspaceCreated,
        Observed,
        Validated,
        Quarantined,
        Proposed,
        Approved,
        Countersigned,
        Rejected,
        Promoted,
        Refused,
        Waiting,
        Cleared,
        Claimed,
        Started,
        Finished,
        Interrupted,
        CancelRequested,
        Cancelled,
        ApprovalAbandoned,
        Replayed,
        Applied,
        UndoStarted,
        Undone,
        ProjectAdded,
        ProjectRemoved,
        Pruned,
        WorkspaceAdopted,
        Granted,
        GrantRevoked,
        SessionOpened,
        SessionKilled,
        CheckpointAnswered,
        Rotated,
        Delivered,
        OperatorAdded,
        OperatorRevoked,
        SettingsChanged,
        CheckpointSigned,
        Witnessed,
        AgentStarted,
        AgentEnded,
    )
}
"""By the event's `type`, in the order in which a workspace's life brings them."""

__all__ = [
    "PAYLOADS",
    "AgentEnded",
    "AgentStarted",
    "Applied",
    "ApprovalAbandoned",
    "Approved",
    "CancelRequested",
    "Cancelled",
    "CheckpointAnswered",
    "CheckpointSigned",
    "Claimed",
    "Cleared",
    "ContractMove",
    "Countersigned",
    "Delivered",
    "End",
    "Finished",
    "GrantRevoked",
    "Granted",
    "Interrupted",
    "Observed",
    "OperatorAdded",
    "OperatorRevoked",
    "OperatorsChanged",
    "Payload",
    "Placed",
    "ProjectAdded",
    "ProjectRemoved",
    "ProjectsChanged",
    "Promoted",
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
    "TreeAnnounced",
    "UndoStarted",
    "Undone",
    "Validated",
    "Waiting",
    "Witnessed",
    "WorkspaceAdopted",
    "WorkspaceCreated",
]
