"""The call of an mcp request in its workspace: checked against the pinned manifest of its server.

Invariant: a call whose server, tool and manifest are not pinned here exactly has no Job. Neither has one whose
arguments do not fit the pinned schema, nor one of a run for which other tools were chosen. The error is a refusal with
a code (`tools_unknown`, `tools_changed`, `arguments_unfit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from threegate.core import canonical
from threegate.core.errors import InvalidInput, Refused, ThreeGateError, Unavailable
from threegate.core.screen_parts import Section
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.action import BoundCall, JobServer, ServerState, ToolCall
from threegate.plugins.tools.argument_schema import why_unfit
from threegate.plugins.tools.manifest import (
    Manifest,
    PinnedTool,
    manifest_bytes,
    manifest_name,
    parse_manifest,
    read_manifest,
)
from threegate.plugins.tools.process_states import read_state
from threegate.plugins.tools.server_card import tool_claims
from threegate.plugins.tools.server_start import existing_account, refuse_changed_program, refuse_missing_secret
from threegate.request.action import Action
from threegate.request.backend import Bound
from threegate.runners.backend import DoctorLine
from threegate.trail.index import TrailIndex
from threegate.trail.payloads.payload import Owner

_RULES: Final = {"tools_unknown": "TG906", "tools_changed": "TG907", "arguments_unfit": "TG908"}


@dataclass(frozen=True, kw_only=True)
class RequestedCall(Bound):
    """What an mcp request calls, with the tool as its server described it."""

    tool: PinnedTool

    def claims(self) -> Section:
        """What the server says about its tool."""
        assert isinstance(self.action, BoundCall)
        return tool_claims(self.tool, of_function=self.action.by_caller)


def requested_call(workspace: Workspace, index: TrailIndex, call: Action, owner: Owner | None) -> RequestedCall:
    """What is pinned about a call's server and tool, and what a stateful server has done for `owner`, the
    requester; `index` is of the locked trail. Raises Refused.

    An unreadable manifest counts as changed: this call is refused, and no other.
    """
    assert isinstance(call, ToolCall)
    try:
        manifest = read_manifest(workspace, index, call.server)
    except (Unavailable, InvalidInput) as error:
        raise Refused("tools_changed", str(error)) from None
    if manifest.digest != call.manifest_sha256:
        raise Refused(
            "tools_changed",
            f"{call.server}: its tools were signed again since this call was written; list the tools again and "
            "repeat it",
        )
    tool = manifest.tool(call.tool)
    if tool is None:
        see = f"threegate tools show {call.server}"
        raise Refused("tools_unknown", f"{call.server} has no tool {call.tool}; see: {see}")
    if manifest.place == "caller" and isinstance(owner, str):
        raise Refused("tools_unknown", f"{call.server}: functions of a program; a run of an agent cannot call them")
    run = index.run(owner)
    if isinstance(owner, str) and owner not in index.known_runs:
        raise Refused(
            "tools_unknown", f"{call.server}: the run {owner} is not in the trail, so what it may call is unknown"
        )
    if run is not None and not is_chosen(run.tools, call.server, call.tool):
        raise Refused(
            "tools_unknown", f"{call.server}/{call.tool} is not among the tools of this run ({', '.join(run.tools)})"
        )
    check_arguments(tool, call)
    state = read_state(workspace, owner, manifest.digest) if manifest.stateful else None
    return RequestedCall(action=call.bound(_server(manifest, state)), tool=tool)


def call_lacks(workspace: Workspace, settings: Settings, call: Action) -> DoctorLine | None:
    """Why its server could not be started now: a secret or an account is missing, or its program is another one."""
    assert isinstance(call, ToolCall)
    try:
        manifest = pinned_manifest(workspace, call)
    except (ThreeGateError, OSError):
        return None  # another finding, or this account may not read it
    if manifest.place == "caller":
        return None  # nothing is started
    try:
        refuse_missing_secret(settings, manifest.secrets)
        if manifest.place == "remote":
            return None  # whether it can be reached is known when it is
        if manifest.place != "era" and manifest.account:
            existing_account(manifest.account)
        refuse_changed_program(manifest)
    except (Refused, Unavailable, OSError) as error:
        return DoctorLine("tools", "warning", f"{call.server} cannot be started: {error}")
    return None


def call_problem(workspace: Workspace, index: TrailIndex, call: Action, owner: Owner | None) -> tuple[str, str] | None:
    """The rule and words about a call that matches nothing pinned here, or that is not for this requester."""
    try:
        requested_call(workspace, index, call, owner)
    except Refused as error:
        return _RULES.get(error.code, "TG906"), str(error)
    return None


def is_stateful(workspace: Workspace, call: Action) -> bool:
    """Whether the server keeps something between calls, or is another one now."""
    assert isinstance(call, ToolCall)
    try:
        return pinned_manifest(workspace, call).stateful
    except ThreeGateError:
        return True


def is_chosen(choice: Sequence[str], server: str, tool: str) -> bool:
    """Whether a run may call a tool, by what was chosen for it: words SERVER or SERVER/GLOB, or none for all tools."""
    for word in choice:
        name, slash, pattern = word.partition("/")
        if name == server and (not slash or fnmatchcase(tool, pattern)):
            return True
    return not choice


def check_arguments(tool: PinnedTool, call: ToolCall) -> None:
    """Check a call against the pinned schema of its tool. Raises Refused (`arguments_unfit`)."""
    why = why_unfit(tool.input_schema, call.arguments())
    if why is not None:
        raise Refused("arguments_unfit", f"{call.name} does not take these arguments: {why}")


def pinned_manifest(workspace: Workspace, call: ToolCall) -> Manifest:
    """The manifest that a cleared call names by its digest, read now. Raises Refused (tools_changed), Unavailable."""
    data = manifest_bytes(workspace, call.server)
    if data is None or canonical.sha256_hex(data) != call.manifest_sha256:
        file = manifest_name(call.server)
        raise Refused("tools_changed", f"tools/{file}: differs from what was signed; nothing was called")
    return parse_manifest(data)


def _server(manifest: Manifest, state: ServerState | None) -> JobServer:
    return JobServer(
        place=manifest.place,
        argv=manifest.argv,
        hosts=manifest.hosts,
        binds=tuple(f"{item.path} ({'may be written' if item.writable else 'read-only'})" for item in manifest.binds),
        secrets=manifest.secrets,
        account=manifest.account,
        state=state,
        image=manifest.image,
        url=manifest.url,
    )
