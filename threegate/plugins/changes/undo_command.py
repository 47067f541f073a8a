"""`threegate project undo`: show what reverting a change would do, ask, sign, and revert it."""

from __future__ import annotations

from typing import Annotated

from threegate.acts.signed_acts import sign_act
from threegate.approval.shown.escaped_lines import render_sections
from threegate.cli import tab_completion
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    context_here,
    emit_json,
    put,
    say,
    screen_width,
    wants_json,
)
from threegate.cli.signing_options import KeyOption, NameOption, YesOption, acting_here, ask
from threegate.core.screen_parts import Item, Section
from threegate.plugins.changes.action import branch_undo_facts, change_facts
from threegate.plugins.changes.change_screen import change_items
from threegate.plugins.changes.undo import UNDO, plan_undo, undo_change
from threegate.review.named_request import finished_id


def undo(
    which: Annotated[str, argument("ID|FILE", "The request that made the change.", tab_completion.ran)],
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    json_: JsonFlag = False,
) -> None:
    """Revert a change that was made to a project.

    Every file must still be as the change left it, and a branch must still be where it was put. A folder stays if
    something else is in it.

    Example: threegate project undo TR-20261123-140501Z-changes-9be8da
    """
    context = context_here()
    quiet = wants_json(json_)
    acting = acting_here(context, name, key)
    request_id = finished_id(context, which, exact=yes)
    plan = plan_undo(context, request_id)
    items: tuple[Item, ...]
    if plan.requested is None or plan.originals is None:
        items = tuple(branch_undo_facts(plan.about))
    else:
        items = (*change_facts(plan.requested.job), *change_items(plan.requested, plan.originals))
    put(
        render_sections([Section("UNDO", items)], width=screen_width(to_stderr=quiet), full=True),
        err=quiet,
    )
    stays = [
        f"{path}/ stays, because {stays} in it is not of this change" for path, stays in sorted(plan.stays.items())
    ]
    for line in stays:
        say(f"      {line}", err=quiet)
    ask(f"Sign as {acting.name} and revert the change in {plan.place.path}?", yes)
    message = undo_change(context, plan, sign_act(context, acting, UNDO, plan.about))
    if quiet:
        emit_json(
            {"request_id": request_id, "undone": dict(plan.about), "stays": sorted(plan.stays), "message": message}
        )
    else:
        say(f"undone    {request_id}: {message}")
