"""`threegate reject`."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.acts.approve_group import group_paths
from threegate.acts.reject import REJECT, reject_about, reject_draft
from threegate.cli import tab_completion
from threegate.cli.invocation import JsonFlag, argument, context_here, emit_json, say, wants_json, warn
from threegate.cli.signing_options import KeyOption, NameOption, actor_here, decision_here
from threegate.cli.signing_screens import reveal
from threegate.review.named_request import find_draft
from threegate.review.reviewed_draft import read_draft


def reject(
    which: Annotated[list[str], argument("ID|FILE", "Drafts: their ids, files or slugs.", tab_completion.drafts)],
    reason: Annotated[str, typer.Option("--reason", help="The reason, for the agent and the trail.")] = "",
    group: Annotated[bool, typer.Option("--group", help="Also reject all drafts of the same shape.")] = False,
    name: NameOption = "",
    key: KeyOption = None,
    json_: JsonFlag = False,
) -> None:
    """Refuse drafts, with a reason for the agent.

    A copy goes to refused/, and the agent gets a verdict and a result. The rejection is signed if your key
    needs no passphrase.

    Example: threegate reject TR-20261122-101500Z-sum --reason 'Reads more than it needs.'
    """
    context = context_here()
    workspace = context.workspace
    found = [find_draft(workspace, one, trail=context.trail) for one in which]
    drafts = {draft.path: draft for draft in (read_draft(workspace, path) for path in found)}
    if group:
        for draft in [draft for draft in drafts.values() if draft.placed is None]:
            drafts |= {path: read_draft(workspace, path) for path in group_paths(context, draft)}
    rows: list[dict[str, object]] = []
    for draft in drafts.values():
        if (placed := draft.placed) is not None:
            actor = actor_here(context, name, key)
            rows.append(reveal(context, draft, placed, yes=False, actor=actor, reason=reason, quiet=wants_json(json_)))
            continue
        by = decision_here(context, REJECT, reject_about(draft, reason), name, key)
        done = reject_draft(context, draft, reason=reason, by=by)
        rows.append({"file": str(done.path), "request_id": done.request_id, "draft_removed": done.draft_removed})
        if not wants_json(json_):
            # A beginning of its name was enough, so the whole id is named.
            say(f"rejected {done.path} ({done.request_id or 'its id is of another request, or none'})")
            if not done.draft_removed:
                warn("the draft's file changed after it was read, so it was not moved")
    if wants_json(json_):
        emit_json(rows if group or len(which) > 1 else rows[0])
