"""Standing grants for calls of a tool: made from its pinned schema and an operator's rules for each argument.

Invariant: what is signed is the Job of a call that an agent's MCP server would write, with its arguments left
open by the rules; so a launch compares it like every other grant. The call on the screen was validated
against the schema, and the near misses against the grant.
"""

from __future__ import annotations

import pwd
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from threegate.approval.signature import KeySource
from threegate.core.errors import InvalidInput, Refused
from threegate.core.screen_parts import Fact, Field, Item, Note, Section
from threegate.launch.context import Context
from threegate.plugins.grants.call_rules import CallRules, read_rules
from threegate.plugins.grants.giving import refuse_off, sign_grant
from threegate.plugins.grants.grant import Grant, opened, refuse_write
from threegate.plugins.grants.near_misses import near_calls
from threegate.plugins.grants.section import GrantSettings
from threegate.plugins.grants.widened import ARGUMENTS
from threegate.plugins.tools.call_draft import draft_call, tool_call
from threegate.plugins.tools.manifest import Manifest, PinnedTool, read_manifest
from threegate.plugins.tools.requested_call import requested_call
from threegate.plugins.tools.server_card import reach_section, tool_claims
from threegate.request.job import Job, build_job
from threegate.review.reviewed_draft import who_asks
from threegate.runners.machine import platforms
from threegate.trail.index import KnownRun, TrailIndex
from threegate.trail.payloads.payload import Owner

_INBOX_REQUESTER = "core"
"""The requester of calls through the inbox, as drafts there name it."""


@dataclass(frozen=True, slots=True)
class GrantedCalls:
    """The calls that a grant would cover: one of them as a Job, and what may differ."""

    job: Job
    rules: CallRules
    owner: Owner
    manifest: Manifest
    tool: PinnedTool


def look_at_calls(
    context: Context,
    server: str,
    tool: str,
    *,
    where: Sequence[str],
    any_of: Sequence[str],
    absent: Sequence[str],
    by: str,
) -> GrantedCalls:
    """What a grant for a tool would cover; `by` is a run or an account. Raises Refused, InvalidInput, Unavailable,
    TrailError.
    """
    refuse_off(context)
    with context.trail.locked() as held:
        index = held.index
    manifest = read_manifest(context.workspace, index, server)
    pinned = manifest.tool(tool)
    if pinned is None:
        raise Refused("tools_unknown", f"{server} has no tool {tool}; see: threegate tools show {server}")
    owner = _owner(index, by)
    run = index.run(owner)
    rules = read_rules(pinned.input_schema, where=where, any_of=any_of, absent=absent)
    policy = context.policy
    call = tool_call(server, tool, manifest.digest, rules.example)
    request, _ = draft_call(
        call,
        requested_by=_INBOX_REQUESTER if run is None else run.profile,
        now=datetime.now(UTC),
        settings=policy.settings.request,
    )
    job = build_job(
        replace(request, action=requested_call(context.workspace, index, call, owner).action),
        input_sizes={},
        platform=platforms(policy.settings, request.backend).now[0],
        write_class=context.contracts.write_class(policy, request),
        time_cap_sec=context.contracts.time_cap_sec(policy, request),
    )
    refuse_write(job, allowed=policy.settings.section(GrantSettings).allow_write)
    opened(job, rules.widened)
    return GrantedCalls(job, rules, owner, manifest, pinned)


def calls_sections(calls: GrantedCalls) -> list[Section]:
    """The screen before the signature: what may be called, one call that would run, and three that would
    wait.
    """
    rules = calls.rules
    reads = calls.job.effective_risk != "high"
    items: list[Item] = [
        Field("calls", f"{calls.tool.name} of the server {calls.manifest.server}"),
        Field("asked by", who_asks(calls.owner)),
        Fact("effect", "read, as its contract says" if reads else "MAY WRITE (grants.allow_write is on)"),
    ]
    if calls.manifest.stateful:
        items.append(Fact("STATEFUL", "each of these calls runs whatever was called before it, and no card shows that"))
    items += [Field("argument", str(item).removeprefix(ARGUMENTS)) for item in rules.widened]
    items += [Field("not there", name) for name in rules.absent]
    if not rules.widened:
        items.append(Note("without arguments"))
    items.append(Note("names, types and lengths of lists are these at every depth; any other call waits for you"))
    near = near_calls(calls.job, rules.widened, rules.absent)
    for label, why, job in (("would run", "", calls.job), *(("would wait", f" ({why})", job) for why, job in near)):
        called = "".join(item.text for item in job.action.texts())
        items.append(Field(label, f"{called}{why}"))
    return [
        Section("WHAT MAY BE CALLED WITHOUT ASKING YOU", tuple(items)),
        reach_section(calls.manifest),
        tool_claims(calls.tool),
    ]


def grant_calls(
    context: Context, calls: GrantedCalls, *, max_uses: int, seconds: int, name: str, key: KeySource
) -> Grant:
    """Sign it. Raises Refused, InvalidInput, TrailError, Unavailable."""
    return sign_grant(
        context,
        calls.job,
        from_request="",
        widened=calls.rules.widened,
        owner=calls.owner,
        max_uses=max_uses,
        seconds=seconds,
        name=name,
        key=key,
    )


def _owner(index: TrailIndex, by: str) -> Owner:
    """Whose calls are meant: a named run or account, else the only run in progress. Raises InvalidInput."""
    live = [run for run in index.runs if not run.ended]
    if not by:
        if len(live) == 1:
            return live[0].run
        raise InvalidInput(f"--by: say whose calls: {_choices(live)}")
    if any(run.run == by for run in index.runs):
        return by
    try:
        return pwd.getpwuid(int(by)).pw_uid if by.isdigit() else pwd.getpwnam(by).pw_uid
    except (KeyError, OverflowError):
        raise InvalidInput(f"--by {by}: neither a run nor an account; name {_choices(live)}") from None


def _choices(live: Sequence[KnownRun]) -> str:
    runs = ", ".join(f"{run.run} ({run.profile})" for run in live[-8:])
    return f"a run in progress ({runs}), or an account" if runs else "an account that writes to the inbox"
