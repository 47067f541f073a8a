"""How a test answers a drill, and runs what the daemon does for them."""

from __future__ import annotations

from typing import Any

from threegate.daemon.log import Log
from threegate.daemon.plugin_work import DaemonParts
from threegate.launch.context import Context
from threegate.plugins.drills.drill_watch import DrillWatch
from threegate.review.draft_sources import Answer
from threegate.review.reviewed_draft import Draft


def answer_drill(context: Context, draft: Draft, *, yes: bool, **more: Any) -> Answer:
    """An operator's yes or no to a draft that was read as a drill."""
    assert draft.placed is not None
    return draft.placed.answer(context, draft.data, yes=yes, **more)


def drill_watch(context: Context, told: list[Any]) -> DrillWatch:
    """A watch that puts its notices into `told`."""
    parts = DaemonParts(
        context.workspace,
        context.trail,
        Log(quiet=True),
        lambda: context.policy.settings,
        lambda *draft: told.append(draft),
    )
    return DrillWatch(parts)
