"""The status file of a request (`verdicts/NAME.json`) while it waits, runs and ends.

Invariant: it is derived from the trail or from what was just decided, never state itself; the last status is
the one that the request ended with.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace

from threegate.approval.facts import VOID
from threegate.core.errors import InvalidInput
from threegate.core.workspace import RequesterFolders
from threegate.judgement.judge import Judgement
from threegate.launch.approved_file import Approved, Waiting, is_there
from threegate.launch.context import Context
from threegate.launch.results.verdict import State, Verdict, put_verdict, read_verdict
from threegate.trail import moves, payloads


def write_status(
    requester_folders: RequesterFolders,
    file_name: str,
    state: State,
    reason: str | None,
    judgement: Judgement | None = None,
) -> None:
    """Update the status file; the findings of validation stay in it. Raises OSError."""
    try:
        old = read_verdict(requester_folders, file_name)
    except InvalidInput:
        old = None  # derived and broken: recreated
    assessment = judgement.assessment.to_json() if judgement and judgement.assessment else None
    known = old or Verdict(file=file_name, sha256="", request_id=None, stage="approved", valid=True, state=state)
    new = replace(known, state=state, reason=reason, stage="approved", judgement=assessment or known.judgement)
    if new != old:
        put_verdict(requester_folders, new)


def write_void(requester_folders: RequesterFolders, file_name: str) -> None:
    """Tell the requester that an approval is void. A draft that is still there, as after a crash, keeps its status.
    Raises OSError.
    """
    with suppress(InvalidInput):
        known = read_verdict(requester_folders, file_name)
        if known is not None and known.state in ("approved", "waiting"):
            write_status(requester_folders, file_name, "refused", VOID)


class RunningStatus:
    """The `running` status: written for a run that lasts, and never after the final status.

    A short run has its final status before anyone could have read that it was running.
    """

    def __init__(self, requester_folders: RequesterFolders, file_name: str, judgement: Judgement) -> None:
        self._requester_folders = requester_folders
        self._file_name = file_name
        self._judgement = judgement
        self._lock = threading.Lock()
        self._over = False

    def write(self) -> None:
        """Write it, unless the run is over. Raises OSError."""
        with self._lock:
            if not self._over:
                write_status(self._requester_folders, self._file_name, "running", None, self._judgement)

    def close(self) -> None:
        """The run is over: when this returns, `write` no longer does anything."""
        with self._lock:
            self._over = True


def write_waiting(context: Context, approved: Approved, answer: Waiting) -> None:
    """Record in trail and status file why a request is waiting; nothing if it is gone meanwhile (cancelled,
    replaced).
    """
    with context.trail.locked() as held:
        if not is_there(approved):
            return
        moves.announce(
            held,
            payloads.Waiting(reason=answer.code, file=approved.path.name),
            request_id=approved.request_id,
            actor="daemon",
        )
    write_status(
        approved.requester_folders(context.workspace),
        approved.path.name,
        "waiting",
        answer.code,
        answer.judgement,
    )
