"""workflow.yaml: roles, handoffs, limits and shared resources above single sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from threegate.contracts.model_common import Model, Name, Number, Problem, Terms, repeated

ClosePolicy = Literal["request_cancel", "terminate", "abandon"]


class Role(Model):
    """A role, and the session contract that holds for it."""

    name: Name
    session_contract: str = Field(description="path of a session file below contracts/")


class Handoff(Model):
    """Who may open a child session for whom, and what must be there first."""

    from_: Name = Field(alias="from")
    to: Name
    requires_artifacts: list[str] = Field(default=[], description="output paths of finished requests")
    parent_close_policy: ClosePolicy | None = Field(default=None, description="instead of the default")


class WorkflowLimits(Model):
    """Bounds over all sessions of a workflow."""

    max_sessions: int | None = None
    max_active_sessions: int | None = None
    max_total_steps: int | None = None
    max_total_cost: Number | None = None
    max_open_handoffs: int | None = None

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """Limits that let nothing through."""
        return self.not_positive(*type(self).model_fields)


class SharedResource(Model):
    """How sessions share what `resources` of a session names."""

    alias: str
    mode: Literal["single_writer", "exclusive_pending", "serial_only"]


class Cancellation(Model):
    """Who may end what."""

    subtree_kill: bool = Field(default=True, description="whether a session can be ended with its children")
    workflow_kill: Literal["operator_only"] = "operator_only"


class ParentClosePolicy(Model):
    """What becomes of children when their parent ends."""

    default: ClosePolicy = "request_cancel"


class WorkflowContract(Model):
    """The rules of a workflow."""

    schema_version: Literal["1.0"]
    workflow: Name
    roles: list[Role] = Field(min_length=1)
    handoffs: list[Handoff] = []
    workflow_limits: WorkflowLimits = WorkflowLimits()
    shared_resources: list[SharedResource] = []
    cancellation: Cancellation = Cancellation()
    parent_close_policy: ParentClosePolicy = ParentClosePolicy()

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """Names that occur twice, and handoffs between roles that do not exist."""
        roles = [role.name for role in self.roles]
        yield from repeated(roles, ("roles",))
        yield from repeated([item.alias for item in self.shared_resources], ("shared_resources",), "alias")
        for index, handoff in enumerate(self.handoffs):
            for key, name in (("from", handoff.from_), ("to", handoff.to)):
                if name not in roles:
                    yield "ROLE_UNDECLARED", ("handoffs", index, key), f"{name!r} is not a declared role"
