"""Remove what is no longer needed: runs of requests that ended long ago, inputs that only they had, and the
files of drafts that are gone: their inputs in the inbox, and snapshots of proposals.

Invariant: the event that names the files is on disk before anything is removed; nothing is touched that an
open request, or one that ended later than the given time, refers to; trail, results and state files are never
pruned, nor the run of a finished request that a contract session is folded from, until the operator has
closed that session, nor what a plugin still needs, nor a run of a backend that is not here.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from threegate.core import durable, limits, removal
from threegate.core.durable import disk_reserve
from threegate.core.held_folder import HeldFolder
from threegate.core.plugins import Place
from threegate.core.workspace import Workspace
from threegate.request.backend import BACKENDS
from threegate.trail import payloads
from threegate.trail.history import RequestHistory
from threegate.trail.index import TrailIndex
from threegate.trail.payloads import Approved, Finished, SessionKilled, SessionOpened, Started
from threegate.trail.trail import LockedTrail, Trail

_SHA256 = re.compile(r"[0-9a-f]{64}")
_BATCH = 200
_DOOMED = ".pruned-"


class PluginFiles:
    """What a plugin, also one that is off, has to do with what is removed. The first two are called under the trail's
    lock. Raises OSError.
    """

    def unneeded(self, workspace: Workspace) -> list[Path]:
        """Its files that nothing needs any more."""
        return []

    def keeps(self, workspace: Workspace, history: RequestHistory, now: datetime) -> bool:
        """Whether it still needs the run's folder of a request that has ended."""
        return False

    def prune_folders(self, workspace: Workspace, *, before: datetime, actor: str, dry_run: bool) -> Mapping[str, int]:
        """Remove its folders of requesters that ended before `before`; return their names with the bytes that each had.
        Raises TrailError.
        """
        return {}


FILES: Final = Place[PluginFiles]("files")


@dataclass(frozen=True, slots=True)
class Pruned:
    """What went, or would go."""

    runs: tuple[str, ...]
    inputs: tuple[str, ...]
    bytes: int
    kept: tuple[str, ...] = ()
    """Runs as old that stay: something still needs them, or what they were for is not here."""
    snapshots: tuple[str, ...] = ()
    """Files of drafts that no longer exist: inputs in inbox/files/ that are named by their sha256; project snapshots,
    arguments and the proposal of those that were made from proposals.
    """
    requesters: tuple[str, ...] = ()
    """Folders of agents' runs."""


def prune(workspace: Workspace, *, before: datetime, actor: str, dry_run: bool = False) -> Pruned:
    """Remove runs of requests that ended before `before`, and inputs that nothing else names. Raises TrailError,
    OSError.
    """
    trail, plugins = Trail(workspace), FILES.given().values()
    # With the reserve, because it makes room on a full disk. What an agent puts in the place of the folder of its files
    # meanwhile is not looked at.
    with disk_reserve(workspace.reserve), trail.locked() as held, workspace.hold(workspace.files) as draft_files:
        if not dry_run:
            _remove_leftovers(workspace)
        index = held.index
        old = [history for history in index.histories() if _ended_before(history, before)]
        there = [history for history in old if workspace.run_folder(history.request_id).is_dir()]
        given_back = _closed_sessions(index)
        kept = [
            history.request_id
            for history in there
            if _folded(history, given_back)
            or _is_foreign(history)
            or any(files.keeps(workspace, history, held.now) for files in plugins)
        ]
        gone = [history.request_id for history in there if history.request_id not in set(kept)]
        inputs = _unneeded_inputs(workspace, index, {history.request_id for history in old}, before)
        drafted = _unneeded_draft_inputs(workspace, draft_files, before)
        of_plugins = [path for files in plugins for path in files.unneeded(workspace)]
        snapshots = [*sorted(drafted), *(path.name for path in of_plugins)]
        doomed = [workspace.inputs / name for name in inputs] + of_plugins
        size = sum(_size(workspace.run_folder(name)) for name in gone) + sum(drafted.values())
        size += sum(path.lstat().st_size for path in doomed)
        if not dry_run:
            _announce(workspace, held, gone, inputs, snapshots, actor)
            for name in drafted:
                with suppress(FileNotFoundError):  # another account may remove its own
                    draft_files.unlink(name)
            durable.sync_folder_at(draft_files.fileno(), draft_files.path)
            for path in doomed:
                durable.unlink(path)
            for folder in sorted({path.parent for path in doomed}):
                durable.sync_folder(folder)
            for name in gone:
                _remove_run(workspace, workspace.run_folder(name))
    folders: dict[str, int] = {}
    for files in plugins:
        folders |= files.prune_folders(workspace, before=before, actor=actor, dry_run=dry_run)
    size += sum(folders.values())
    return Pruned(tuple(gone), tuple(inputs), size, tuple(kept), tuple(snapshots), tuple(folders))


def _announce(
    workspace: Workspace,
    held: LockedTrail,
    runs: list[str],
    inputs: list[str],
    snapshots: list[str],
    actor: str,
) -> None:
    for name in runs:
        files = sum(len(files) for _, _, files in os.walk(workspace.run_folder(name)))
        held.append(payloads.Pruned(what="run", removed=files), request_id=name, actor=actor)
    for what, names in (("inputs", inputs), ("snapshots", snapshots)):
        for start in range(0, len(names), _BATCH):
            part = names[start : start + _BATCH]
            gone = payloads.Pruned.from_data({"what": what, "removed": len(part), what: part})
            held.append(gone, actor=actor)
    held.sync()


def _ended_before(history: RequestHistory, before: datetime) -> bool:
    return history.end is not None and history.last.when < before and history.end.when < before


def _closed_sessions(index: TrailIndex) -> set[str]:
    """Sessions that gave their totals back and are in no workflow: nothing depends on their runs any more."""
    closed: set[str] = set()
    bound: set[str] = set()
    for event in index.session_events_after(0):
        match event.payload:
            case SessionKilled(scope="close", name=str(name)):
                closed.add(name)
            case SessionOpened(session=str(name)) as opened if opened.workflow or opened.role:
                bound.add(name)
    return closed - bound


def _is_foreign(history: RequestHistory) -> bool:
    """Whether its backend, or an event of it, is not known here: then nobody can say what its folder is needed for."""
    started = Started.of(history.started)
    return history.unknown is not None or (
        started is not None and started.backend is not None and started.backend not in BACKENDS
    )


def _folded(history: RequestHistory, given_back: set[str]) -> bool:
    """Whether a session is folded from this run's record (`contracts.session`): without it the session is lost."""
    finished = Finished.of(history.end)
    contract = finished.contract if finished else None
    return contract is not None and contract.session not in given_back


def _unneeded_inputs(workspace: Workspace, index: TrailIndex, old: set[str], before: datetime) -> list[str]:
    """Pinned inputs that only `old` requests name, and old ones that no approval names (it was abandoned or
    never completed). Empty if a kept request's list was cut.
    """
    needed = {path.removeprefix("inputs/") for path in index.files}  # a plugin announced them
    named: set[str] = set()
    for history in index.histories():
        approved = Approved.of(history.approved)
        pinned = approved.pinned if approved is not None else frozenset[str]()
        if history.request_id in old:
            named.update(pinned or ())
        elif pinned is not None:
            needed.update(pinned)
        else:
            return []
    there = {name for name in os.listdir(workspace.inputs) if _SHA256.fullmatch(name)}
    moment = before.timestamp()
    # By the change time, which nobody can set.
    lost = {name for name in there - named if (workspace.inputs / name).lstat().st_ctime < moment}
    return sorted(((named & there) | lost) - needed)


def _unneeded_draft_inputs(workspace: Workspace, files: HeldFolder, before: datetime) -> dict[str, int]:
    """Names and sizes of the files of inbox/files/ that are named by a sha256 and came there before `before`, if
    neither a draft nor a request that was refused since then names them. Empty if a draft cannot be read: what it names
    is unknown.
    """
    named: set[str] = set()
    moment = before.timestamp()
    for folder, since in ((workspace.inbox, 0.0), (workspace.refused, moment)):
        with workspace.hold(folder) as held, held.entries() as entries:
            for entry in entries:
                try:
                    facts = entry.stat(follow_symlinks=False)
                    # A larger file is not a request.
                    if not stat.S_ISREG(facts.st_mode) or facts.st_size > limits.REQUEST_BYTES:
                        continue
                    data = held.read(entry.name, max_bytes=limits.REQUEST_BYTES)[0] if facts.st_ctime >= since else b""
                except FileNotFoundError:  # its writer removed it
                    continue
                except OSError:
                    return {}
                named.update(_SHA256.findall(data.decode("ascii", "replace")))
    found = {}
    with files.entries() as entries:
        for entry in entries:
            if _SHA256.fullmatch(entry.name) and entry.name not in named:
                with suppress(FileNotFoundError):
                    facts = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(facts.st_mode) and facts.st_ctime < moment:
                        found[entry.name] = facts.st_size
    return found


def _size(folder: Path) -> int:
    return sum((Path(place) / name).lstat().st_size for place, _, files in os.walk(folder) for name in files)


def _remove_leftovers(workspace: Workspace) -> None:
    """What an earlier prune had announced, put out of sight, and was stopped before it was gone."""
    for folder in sorted(workspace.runs.glob(f"{_DOOMED}*")):
        removal.remove_tree(folder)


def _remove_run(workspace: Workspace, folder: Path) -> None:
    """Remove a run's folder and its returned outputs; they are renamed first, so that no reader sees a part
    of them.
    """
    released = workspace.results / folder.name
    if released.is_dir():
        removal.remove_tree(released)
    doomed = folder.with_name(f"{_DOOMED}{folder.name}")
    durable.rename(folder, doomed)
    durable.sync_folder(folder.parent)
    removal.remove_tree(doomed)
