"""Changes of projects that a crash cut off: all of one stands when the trail says that it ended well, else nothing of it does.

Invariant: the trail decides. A change stands exactly when its `finished` says so; until that is on disk, whatever the change
had made is taken back here, before its request is called `interrupted`. Doing it twice changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from threegate.core.errors import Refused
from threegate.launch.context import Context
from threegate.runners.apply.apply_journal import STAGE
from threegate.runners.apply.runner import JOURNAL, forget_stage, take_back_change
from threegate.trail import RequestHistory
from threegate.trail.payloads import Finished


@dataclass(slots=True)
class Recovered:
    """What became of changes that were cut off, by request id, in one line for the trail."""

    taken_back: dict[str, str] = field(default_factory=dict)
    stuck: dict[str, str] = field(default_factory=dict)
    """Those that cannot be taken back now: their requests stay as they are until the next start."""


def recover_changes(context: Context) -> Recovered:
    """Bring every change that was cut off to all or nothing. Raises TrailError.

    A project that cannot be reached now keeps its stage folder: until that is gone, no other change is made in it.
    """
    found = Recovered()
    with context.trail.locked() as held:
        index = held.index
        journals = sorted(context.workspace.runs.glob(f"*/{JOURNAL}"))
        histories = [index.history(journal.parent.name) for journal in journals]
    for journal, history in zip(journals, histories, strict=True):
        if history is None:
            continue
        finished = Finished.of(history.end)
        if history.end is None:
            _take_back(journal.parent, history, found)
        elif finished is not None and finished.status == "succeeded":
            forget_stage(journal.parent)
    return found


def _take_back(folder: Path, history: RequestHistory, found: Recovered) -> None:
    try:
        done = take_back_change(folder)
    except (Refused, OSError) as error:
        found.stuck[history.request_id] = f"its change cannot be taken back now: {error}"
        return
    if done.left:
        names = ", ".join(done.left[:3])
        found.taken_back[history.request_id] = (
            f"the daemon ended while the change was made; it was taken back, but {len(done.left)} paths that somebody changed "
            f"since stay ({names}), with what they were in {STAGE}/"
        )
    elif done.status != "succeeded":
        found.stuck[history.request_id] = f"its change cannot be taken back now: {done.message}"
    else:
        found.taken_back[history.request_id] = (
            "the daemon ended while the change was made; all of it was taken back, nothing of it is in the project"
        )
