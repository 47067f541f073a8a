"""What is said of a request while it is on its way: its verdict file, and why it waits.

Invariant: what is told is derived from the trail or from what was just decided, never state itself; a verdict that was
told by the end of a request is the last one.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.judgement.judge import Judgement
from threegate.launch.approved_file import Prepared, Waiting
from threegate.launch.context import Context
from threegate.launch.launch_facts import file_identity
from threegate.results import Verdict, put_verdict, read_verdict
from threegate.results.verdict import State
from threegate.trail import moves, payloads


def tell_state(
    workspace: Workspace, file_name: str, state: State, reason: str | None, judgement: Judgement | None = None
) -> None:
    """Bring the verdict file up to date; what validation found stays in it."""
    try:
        old = read_verdict(workspace, file_name)
    except InvalidInput:
        old = None  # derived and broken: made anew
    assessment = judgement.assessment.to_json() if judgement and judgement.assessment else None
    known = old or Verdict(
        file=file_name, sha256="", request_id=None, stage="approved", valid=True, state=state
    )
    new = replace(
        known, state=state, reason=reason, stage="approved", judgement=assessment or known.judgement
    )
    if new != old:
        put_verdict(workspace, new)


class RunningNotice:
    """The word that a request runs: told for a run that lasts, and never after its end was told.

    A run of a moment has its end in the verdict before anybody could have read that it ran.
    """

    def __init__(self, workspace: Workspace, file_name: str, judgement: Judgement) -> None:
        self._workspace = workspace
        self._file_name = file_name
        self._judgement = judgement
        self._lock = threading.Lock()
        self._over = False

    def tell(self) -> None:
        """Say it, unless the run is over. Raises OSError."""
        with self._lock:
            if not self._over:
                tell_state(self._workspace, self._file_name, "running", None, self._judgement)

    def over(self) -> None:
        """The run has ended; when this returns nothing more is told here."""
        with self._lock:
            self._over = True


def is_there(prepared: Prepared) -> bool:
    """Whether the file that was prepared still lies in approved/, the same one."""
    try:
        return file_identity(prepared.path) == prepared.identity
    except FileNotFoundError:
        return False


def tell_waiting(context: Context, prepared: Prepared, answer: Waiting) -> None:
    """Say in trail and verdict why a request waits; nothing when it went away meanwhile (cancelled, replaced)."""
    with context.trail.locked() as held:
        if not is_there(prepared):
            return
        moves.announce(
            held,
            payloads.Waiting(reason=answer.code, file=prepared.path.name),
            request_id=prepared.request_id,
            actor="daemon",
        )
    tell_state(context.workspace, prepared.path.name, "waiting", answer.code, answer.judgement)
