"""Checks of workflow.yaml beyond its fields."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePosixPath

from threegate.contracts.build import Scope
from threegate.contracts.model_workflow import WorkflowContract
from threegate.contracts.tool_plan import Rules


def check_workflow(
    scope: Scope, workflow: WorkflowContract, sessions: Mapping[str, Rules], files: Collection[str]
) -> None:
    """Report every error in roles, handoffs, limits and shared resources."""
    roles = [role.name for role in workflow.roles]
    for index, role in enumerate(workflow.roles):
        if role.name in roles[:index]:
            scope.error("DUPLICATE_NAME", ("roles", index, "name"), f"{role.name!r} stands twice")
        path = PurePosixPath(role.session_contract)
        if role.session_contract not in files or path.suffix != ".yaml" or ".." in path.parts:
            message = f"{role.session_contract!r} is no session file of this folder"
            scope.error("SESSION_CONTRACT_MISSING", ("roles", index, "session_contract"), message)
    for index, handoff in enumerate(workflow.handoffs):
        for key, name in (("from", handoff.from_), ("to", handoff.to)):
            if name not in roles:
                scope.error("ROLE_UNDECLARED", ("handoffs", index, key), f"{name!r} is no declared role")
    for name, number in workflow.workflow_limits.model_dump().items():
        if number is not None and number <= 0:
            scope.error("LIMIT_NOT_POSITIVE", ("workflow_limits", name), "must be above zero")
    aliases = {alias for rules in sessions.values() for alias, _, _ in rules.resources}
    seen: set[str] = set()
    for index, resource in enumerate(workflow.shared_resources):
        where = ("shared_resources", index, "alias")
        if resource.alias in seen:
            scope.error("DUPLICATE_NAME", where, f"{resource.alias!r} stands twice")
        seen.add(resource.alias)
        if resource.alias not in aliases:
            scope.error("UNKNOWN_RESOURCE", where, f"no session declares the resource {resource.alias!r}")
