"""Remove the folders of agents' runs that have ended, to free their space on the disk.

Invariant: the trail has the removal first; a run that is alive, or has a request that waits or runs, is never
removed. What the trail and the workspace's own folders have of its requests stays. It works on a full disk.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from threegate.audit.prune import PluginFiles
from threegate.core import durable, limits, removal
from threegate.core.durable import disk_reserve
from threegate.core.errors import InvalidInput
from threegate.core.file_names import is_agent_run_id
from threegate.core.workspace import AgentRun, Workspace
from threegate.plugins.agents.disk_watch import Space, used_space
from threegate.plugins.agents.runs import all_runs, lock_ended, only_run
from threegate.trail import moves
from threegate.trail.payloads import Pruned
from threegate.trail.trail import LockedTrail, Trail

_DOOMED: Final = ".pruned-"


class _AgentFiles(PluginFiles):
    def prune_folders(self, workspace: Workspace, *, before: datetime, actor: str, dry_run: bool) -> Mapping[str, int]:
        """Runs of agents."""
        gone = prune_runs(workspace, Trail(workspace), before=before, actor=actor, dry_run=dry_run)
        return {item.run: item.space.bytes for item in gone}


FILES: Final = _AgentFiles()


@dataclass(frozen=True, slots=True)
class RemovedRun:
    """A run whose folder went, or would go. `drafts` are the names of the drafts that were still in its inbox."""

    run: str
    space: Space
    drafts: tuple[str, ...]


def run_named(workspace: Workspace, name: str) -> AgentRun:
    """The run with an id, or with a unique beginning of one, whatever is left of it. Raises InvalidInput."""
    names = os.listdir(workspace.agents) if workspace.agents.is_dir() else []
    return workspace.agent_run(only_run(filter(is_agent_run_id, names), name))


def remove_run(workspace: Workspace, trail: Trail, run: AgentRun, *, actor: str) -> RemovedRun:
    """Remove a run's folder: copy, home, inbox, and what it was answered. Raises InvalidInput if it is alive or has an
    open request, TrailError, OSError.
    """
    with lock_ended(run) as ended:
        if not ended:
            raise InvalidInput(f"{run.run_id}: is running; stop it first: threegate agent stop {run.run_id}")
        removed = _measured(run)
        with disk_reserve(workspace.reserve), trail.locked() as held:
            for history in held.index.unended_histories():
                if history.owner == run.run_id and (history.approved or history.claimed):
                    raise InvalidInput(
                        f"{run.run_id}: its request {history.request_id} is not over; cancel it first: "
                        f"threegate cancel {history.request_id}"
                    )
            _put_aside(held, removed, run, actor)
        _remove_aside(workspace)
    return removed


def prune_runs(
    workspace: Workspace, trail: Trail, *, before: datetime, actor: str, dry_run: bool = False
) -> list[RemovedRun]:
    """Remove the runs that ended before a time, as all their requests did, and that have no draft left to decide on.
    Raises TrailError, OSError.
    """
    # By the time of its facts: its launcher wrote them last when it recorded the end.
    old = [run for run, facts in all_runs(workspace) if facts.ended and run.facts.stat().st_mtime < before.timestamp()]
    removed = []
    for run in old and _unneeded(trail, old, before):  # the whole trail is read only if there is something to remove
        with lock_ended(run) as ended:
            found = _measured(run)
            if not ended or found.drafts:
                continue
            removed.append(found)
            if not dry_run:
                with disk_reserve(workspace.reserve), trail.locked() as held:
                    _put_aside(held, found, run, actor)
                _remove_aside(workspace)
    return removed


def _unneeded(trail: Trail, runs: list[AgentRun], before: datetime) -> list[AgentRun]:
    """Those of the ended runs without a request that is open or ended after a time."""
    with trail.locked() as held:
        needed = {
            history.owner
            for history in held.index.histories()
            if (history.approved or history.claimed or history.end)
            and (history.end is None or history.end.when >= before)
        }
    return [run for run in runs if run.run_id not in needed]


def _measured(run: AgentRun) -> RemovedRun:
    """What a run has, as far as it can be seen."""
    space, drafts = Space(0, 0), list[str]()
    with suppress(OSError):
        space = used_space(run.folder, unlock=True)
    with suppress(OSError):
        drafts = sorted(name for name in os.listdir(run.inbox) if name.startswith("TR-") and name.endswith(".md"))
    return RemovedRun(run.run_id, space, tuple(drafts[: limits.AGENT_INBOX_ENTRIES]))


def _put_aside(held: LockedTrail, removed: RemovedRun, run: AgentRun, actor: str) -> None:
    """Announce it, and put the folder out of sight."""
    # By one rename: to remove a large tree takes long, and what is left of it after a crash must not look like a run.
    moves.announce(held, Pruned(what="agent run", run=removed.run, removed=removed.space.names), actor=actor)
    durable.rename(run.folder, run.folder.with_name(f"{_DOOMED}{removed.run}"))
    durable.sync_folder(run.folder.parent)


def _remove_aside(workspace: Workspace) -> None:
    """Remove what was put out of sight, by an earlier removal that was cut off too."""
    for doomed in sorted(workspace.agents.glob(f"{_DOOMED}*")):
        removal.remove_tree(doomed)
