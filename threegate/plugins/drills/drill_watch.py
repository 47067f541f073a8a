"""Drills in the daemon: places one when it is due, and checks the open one.

Invariant: the operators' notice about a drill is the same as for any draft; the log and the requester get
nothing.
"""

from __future__ import annotations

import time
from math import inf

from threegate.approval.shown.request_sections import job_exposure
from threegate.core import limits
from threegate.core.errors import ThreeGateError
from threegate.daemon.plugin_work import DaemonParts, OnDraft, Work
from threegate.launch.context import Context
from threegate.plugins.drills.drills import due_utc, place_drill, settle_drill, withdraw_drill
from threegate.plugins.drills.placed_drill import Drill
from threegate.plugins.drills.section import DrillSettings
from threegate.review.reviewed_draft import read_draft, view_draft


class DrillWatch(Work):
    """Checks now and then; if no one consented, that only reads the trail's index."""

    def __init__(self, daemon: DaemonParts) -> None:
        super().__init__(daemon)
        self._looked = -inf

    def turn(self, context: Context, *, off: bool) -> int:
        """Place or end a drill; return how many. While the plugin is `off`, an open one is withdrawn. Raises
        TrailError, Unavailable, OSError.
        """
        if time.monotonic() - self._looked < limits.DRILLS_LOOK_SECONDS:
            return 0
        self._looked = time.monotonic()
        if off:
            return int(withdraw_drill(context))
        with context.trail.locked() as held:
            index, now, behind = held.index, held.now, held.clock_behind_seconds
            due = due_utc(index, context.policy.settings.section(DrillSettings).every)
            known = bool(index.drills.last_hash)
        if not known or behind > limits.CLOCK_BEHIND_SECONDS:
            return 0
        if settle_drill(context) is not None:
            return 1
        drill = place_drill(context) if due is not None and due <= now else None
        if drill is None:
            return 0
        _tell(context, drill, self._daemon.on_draft)
        return 1


def _tell(context: Context, drill: Drill, on_draft: OnDraft) -> None:
    try:
        draft = read_draft(context.workspace, drill.listed(context.workspace))
        with view_draft(context, draft) as reviewed:
            exposure = job_exposure(reviewed.request, reviewed.job)
            on_draft(drill.name, reviewed.request, exposure, draft.owner, reviewed.run, draft.identity[-1])
    except ThreeGateError:
        return  # it was decided on already
