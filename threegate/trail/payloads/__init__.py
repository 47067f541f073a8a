"""What the trail says, typed: one frozen payload for each kind of event.

Invariant: every kind has exactly one class here, and a line's bytes are what its class renders (`payload.py`). To add a
kind: write its class in the family that it belongs to (`PAYLOADS` has each class that says a kind), and name it here.
"""

from threegate.trail.payloads.agent_events import AgentEnded, AgentStarted
from threegate.trail.payloads.approval_events import (
    ApprovalAbandoned,
    Approved,
    Countersigned,
    Granted,
    GrantRevoked,
    Promoted,
    under_grant,
)
from threegate.trail.payloads.draft_events import Observed, Proposed, Validated
from threegate.trail.payloads.drill_events import DrillEnded, DrillPlaced, DrillSet
from threegate.trail.payloads.operator_events import OperatorAdded, OperatorRevoked, OperatorsChanged
from threegate.trail.payloads.payload import PAYLOADS, Payload
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
    ContractCheckpointAnswered,
    ContractMove,
    SessionKilled,
    SessionOpened,
)
from threegate.trail.payloads.tools_events import ToolsAdded, ToolsChanged, ToolsRefreshed, ToolsRemoved
from threegate.trail.payloads.workspace_events import (
    ProjectAdded,
    ProjectRemoved,
    ProjectsChanged,
    Pruned,
    Rotated,
    SettingsChanged,
    TrailCheckpointSigned,
    TreeAnnounced,
    Witnessed,
    WorkspaceAdopted,
    WorkspaceCreated,
)

__all__ = [
    "PAYLOADS",
    "AgentEnded",
    "AgentStarted",
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
    "Delivered",
    "DrillEnded",
    "DrillPlaced",
    "DrillSet",
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
    "ToolsAdded",
    "ToolsChanged",
    "ToolsRefreshed",
    "ToolsRemoved",
    "TrailCheckpointSigned",
    "TreeAnnounced",
    "UndoStarted",
    "Undone",
    "Validated",
    "Waiting",
    "Witnessed",
    "WorkspaceAdopted",
    "WorkspaceCreated",
    "under_grant",
]
