"""Workflows: sessions with roles, their handoffs, what they share, and how they end.

Invariant: a session has a role only because it was admitted under the handoffs and limits of workflow.yaml; a
shared resource's mode applies across all sessions of its workflow, claimed calls included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from threegate.contracts.calls import plans_of
from threegate.contracts.decimals import EXACT, exact
from threegate.contracts.state import Call, Reason, Session
from threegate.contracts.totals import canonical_text
from threegate.core.errors import Refused

if TYPE_CHECKING:
    from threegate.contracts.model_workflow import ClosePolicy, Handoff, WorkflowContract


@dataclass(slots=True)
class Member:
    """A session's place in a workflow."""

    workflow: str
    role: str
    contract: str
    """File of the role's session contract."""
    parent: str | None = None
    closing: bool = False
    """Its parent ended with request_cancel: no new step."""
    artifacts: set[str] = field(default_factory=set)
    """Output paths of its finished requests."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {**asdict(self), "artifacts": sorted(self.artifacts)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Member:
        """The inverse of `to_json`. Raises TypeError."""
        return cls(**{**value, "artifacts": set(value["artifacts"])})


@dataclass(slots=True)
class Workflow:
    """What a workflow remembers beyond its sessions."""

    killed: bool = False
    owners: dict[str, str] = field(default_factory=dict)
    """single_writer: resource id: the session that owns it."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Workflow:
        """The inverse of `to_json`. Raises TypeError."""
        return cls(**value)

    def admit(
        self,
        contract: WorkflowContract,
        members: Mapping[str, Member],
        sessions: Mapping[str, Session],
        workflow: str,
        role: str | None,
        parent: str | None,
    ) -> Member:
        """The place of a new session. Raises Refused."""
        if self.killed:
            raise Refused("workflow_killed", f"workflow {workflow} was killed; open another one")
        files = {item.name: item.session_contract for item in contract.roles}
        if role not in files:
            raise Refused("unknown_role", f"workflow.yaml declares no role {role}; it has {', '.join(files)}")
        if parent is not None:
            above = members.get(parent)
            if above is None or above.workflow != workflow:
                raise Refused("unknown_session", f"no session {parent} in workflow {workflow}")
            if _handoff(contract, above.role, role) is None:
                raise Refused("handoff_undeclared", f"workflow.yaml has no handoff from {above.role} to {role}")
        _admission_limits(contract, members, sessions, workflow, parent)
        return Member(workflow, role, files[role], parent)


def _admission_limits(
    contract: WorkflowContract,
    members: Mapping[str, Member],
    sessions: Mapping[str, Session],
    workflow: str,
    parent: str | None,
) -> None:
    """Check that one more session fits. Raises Refused."""
    bounds = contract.workflow_limits
    ours = {key: member for key, member in members.items() if member.workflow == workflow}
    active = [key for key in ours if sessions[key].killed is None]
    handoffs = [key for key in active if ours[key].parent is not None]
    for name, limit, used in (
        ("max_sessions", bounds.max_sessions, len(ours)),
        ("max_active_sessions", bounds.max_active_sessions, len(active)),
        ("max_open_handoffs", None if parent is None else bounds.max_open_handoffs, len(handoffs)),
    ):
        if limit is not None and used >= limit:
            raise Refused("workflow_limit_exceeded", f"workflow {workflow} has {used} of {limit} ({name})")


def _handoff(contract: WorkflowContract, source: str, target: str) -> Handoff | None:
    return next((item for item in contract.handoffs if (item.from_, item.to) == (source, target)), None)


def closed_children(
    contract: WorkflowContract, members: Mapping[str, Member], parent: str
) -> Iterator[tuple[str, ClosePolicy]]:
    """The children of a session that ended, and what is done with each (abandoned ones are left out)."""
    for key, member in members.items():
        if member.parent == parent:
            handoff = _handoff(contract, members[parent].role, member.role)
            named = None if handoff is None else handoff.parent_close_policy
            policy = named or contract.parent_close_policy.default
            if policy != "abandon":
                yield key, policy


@dataclass(frozen=True, slots=True)
class WorkflowGuard:
    """The workflow around one session, as the engine uses it."""

    contract: WorkflowContract
    workflow: Workflow
    member: Member
    members: Mapping[str, Member]
    sessions: Mapping[str, Session]

    def _siblings(self) -> list[tuple[str, Member, Session]]:
        return [
            (key, member, self.sessions[key])
            for key, member in self.members.items()
            if member.workflow == self.member.workflow
        ]

    def reasons(self, session: Session, call: Call) -> list[Reason]:
        """Why the workflow does not allow a call."""
        if self.workflow.killed:
            return [Reason(0, "workflow_killed", "workflow", "the workflow was killed by the operator")]
        reasons = []
        if self.member.closing:
            reasons.append(Reason(0, "parent_closed", "workflow", "the parent session ended: no new step"))
        reasons.extend(self._limits(call))
        reasons.extend(self._artifacts(call))
        reasons.extend(self._shared(session, call))
        return reasons

    def _limits(self, call: Call) -> list[Reason]:
        bounds = self.contract.workflow_limits
        steps = 0
        cost = exact(call.cost)
        for _, _, session in self._siblings():
            waiting = [item for item in session.pending.values() if not item.moved]
            steps += session.tally.steps + len(waiting)
            cost = EXACT.add(cost, session.tally.cost)
            for item in waiting:
                cost = EXACT.add(cost, exact(item.call.cost))
        reasons = []
        if bounds.max_total_steps is not None and steps >= bounds.max_total_steps:
            reasons.append(_used_up("max_total_steps", bounds.max_total_steps, steps))
        if bounds.max_total_cost is not None and cost > exact(bounds.max_total_cost):
            reasons.append(_used_up("max_total_cost", str(bounds.max_total_cost), str(cost)))
        return reasons

    def _artifacts(self, call: Call) -> list[Reason]:
        """Outputs that the parent must have handed over."""
        if self.member.parent is None:
            return []
        parent = self.members[self.member.parent]
        handoff = _handoff(self.contract, parent.role, self.member.role)
        there = parent.artifacts | call.artifacts
        names = {form for path in there for form in (path, path.removeprefix("/out/"), PurePosixPath(path).stem)}
        wanted = handoff.requires_artifacts if handoff is not None else []
        return [
            Reason(0, "handoff_artifact_missing", "handoffs", f"the parent has not delivered {name}", name)
            for name in wanted
            if name not in names
        ]

    def _shared(self, session: Session, call: Call) -> list[Reason]:
        modes = {item.alias: item.mode for item in self.contract.shared_resources}
        mutates = _mutates(session, call)
        reasons = []
        for alias, resource in _resources(session, call):
            mode = modes.get(alias)
            if mode == "single_writer" and mutates:
                owner = self.workflow.owners.get(resource)
                if owner not in (None, session.session_id) and self.sessions[str(owner)].killed is None:
                    message = f"{alias} belongs to another session until that one ends"
                    reasons.append(Reason(0, "resource_owned", f"shared_resources.{alias}", message))
            if mode in ("exclusive_pending", "serial_only") and self._pending_elsewhere(
                session, resource, mutating=mode == "serial_only"
            ):
                message = f"another session has a step pending on {alias}"
                reasons.append(Reason(0, "resource_busy", f"shared_resources.{alias}", message))
        return reasons

    def _pending_elsewhere(self, session: Session, resource: str, *, mutating: bool) -> bool:
        """Whether another session of the workflow has claimed a call on a resource."""
        return any(
            resource in {name for _, name in _resources(other, item.call)}
            for _, _, other in self._siblings()
            if other is not session
            for item in other.pending.values()
            if not mutating or _mutates(other, item.call)
        )

    def own(self, session: Session, call: Call) -> None:
        """Record the owner of each resource that this call writes to."""
        modes = {item.alias: item.mode for item in self.contract.shared_resources}
        if _mutates(session, call):
            for alias, resource in _resources(session, call):
                if modes.get(alias) == "single_writer":
                    owner = self.workflow.owners.get(resource)
                    if owner is None or self.sessions[owner].killed is not None:
                        self.workflow.owners[resource] = session.session_id


def _used_up(name: str, limit: Any, used: Any) -> Reason:
    message = f"{name} of the workflow is used up"
    return Reason(0, "workflow_limit_exceeded", f"workflow_limits.{name}", message, limit, used)


def _mutates(session: Session, call: Call) -> bool:
    asked = plans_of(session.rules, call)
    # A call that no contract describes any more is taken for a write.
    return not isinstance(asked, list) or any(plan.contract.side_effect != "read" for plan, _ in asked)


def _resources(session: Session, call: Call) -> Iterator[tuple[str, str]]:
    """(alias, resource id) of everything that a call affects."""
    asked = plans_of(session.rules, call)
    roots = [arguments for _, arguments in asked] if isinstance(asked, list) else []
    for alias, resource in sorted(session.rules.contract.resources.items()):
        for root in roots:
            for value in resource.extract_from.at.select(root):
                yield alias, f"{resource.type}:{canonical_text(value)}"
