"""Drills of change sets: a change of a registered project as an agent proposes one, with one planted line.

Invariant: the project is only read. Its own files give the change, so that no agent has to run: what an agent would not
get to change (protected, ignored, links, secrets) is never in it. The request is written by the function that writes
those of agents, and its requester is a run that worked on the project, where there is one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Final

from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, Refused
from threegate.core.secretscan.scan import mask_secrets
from threegate.launch.context import Context
from threegate.plugins.changes.action import ProjectPlace
from threegate.plugins.changes.change_draft import draft_change_set
from threegate.plugins.changes.ignored import IgnoreRules, Ignoring
from threegate.plugins.changes.make import MadeChangeSet, make_change_set
from threegate.plugins.changes.merge import MergedFile, MergedTree
from threegate.plugins.changes.path_rules import path_problem
from threegate.plugins.changes.projects import find_project, hold_project, project_names
from threegate.plugins.changes.protected_paths import ProtectedPaths
from threegate.plugins.changes.section import AgentsSettings
from threegate.plugins.changes.table import ChangeSetError
from threegate.plugins.changes.trees import HeldTree, TreeEntry
from threegate.plugins.drills.change_plants import PlantedFile, file_plants, harmless_edits, is_edited
from threegate.plugins.drills.placed_drill import OF_PROJECT, Drill
from threegate.request.characters import has_hidden
from threegate.trail.event import trail_text
from threegate.trail.payloads.payload import Owner

_LEAST_PATHS: Final = 2
"""So that the file with the planted line can be left out of it."""


@dataclass(frozen=True, slots=True)
class _Requester:
    """Whom a change seems to come from."""

    folder: str
    owner: Owner
    profile: str
    says: str


def change_drills(context: Context, chance: Random) -> Iterator[tuple[Drill, bytes, bytes]]:
    """A drill for each kind of line that fits a registered project, each with the bytes of its draft and of its
    `changes.tar`. Raises TrailError.
    """
    workspace, settings = context.workspace, context.policy.settings
    with context.trail.locked() as held:
        moment = held.now.replace(microsecond=0)
    for name in chance.sample(names := list(projects(context)), len(names)):
        with suppress(InvalidInput, Refused, OSError, ChangeSetError):
            place = find_project(workspace, settings, name)
            asks = _requester(context, place, chance)
            with hold_project(place) as folder:
                protected = ProtectedPaths(settings.section(AgentsSettings).protected)
                texts = _texts(HeldTree(folder), protected)
                edited, purpose = harmless_edits(texts, chance)
                for planted in file_plants({**texts, **edited}, chance):
                    made = _made(HeldTree(folder), protected, edited, planted)
                    if made is not None:
                        yield *_drill(context, place, asks, moment, made, planted, purpose), made.data


def projects(context: Context) -> tuple[str, ...]:
    """The names of the registered projects; none if they cannot be read."""
    try:
        return project_names(context.workspace, context.policy.settings)
    except InvalidInput:
        return ()


def _requester(context: Context, place: ProjectPlace, chance: Random) -> _Requester:
    """A run that has this project, and else whoever drafts for it."""
    with context.trail.locked() as held:
        runs = held.index.runs
    there = [run for run in runs if run.project == place.name and context.workspace.agent_run(run.run).inbox.is_dir()]
    if not there:
        return _Requester("inbox", place.uid, "agent", "made in a copy of the project")
    run = chance.choice(there[-limits.DRILL_RUNS :])
    says = f"made by the agent {run.profile} in its work copy, run {run.run}"
    return _Requester(run.run, run.run, run.profile, says)


def _texts(tree: HeldTree, protected: ProtectedPaths) -> dict[str, str]:
    """The texts of a project that an agent could edit, by path. Raises OSError."""
    found: dict[str, str] = {}
    rules = IgnoreRules(tree, tree, Ignoring())
    left, seen = [""], 0
    while left:
        folder = left.pop()
        for name, entry in sorted(tree.names(folder).items()):
            seen += 1
            if seen > limits.DRILL_PROJECT_NAMES or len(found) >= limits.DRILL_PROJECT_TEXTS:
                return found
            path = f"{folder}/{name}" if folder else name
            is_folder = entry.kind == "folder"
            if path_problem(path) is not None or protected.has(path) or rules.why(path, folder=is_folder) is not None:
                continue
            if is_folder and (name == ".github" or not name.startswith(".")):
                left.append(path)
            elif is_edited(path) and not is_folder and (text := _text(tree, path, entry)) is not None:
                found[path] = text
    return found


def _text(tree: HeldTree, path: str, entry: TreeEntry) -> str | None:
    """A file's text; None for what is no plain text, is large, or has a secret in it. Raises OSError."""
    if entry.kind != "file" or entry.why or entry.links > 1 or not 0 < entry.size <= limits.DRILL_TEXT_BYTES:
        return None
    try:
        text = b"".join(tree.chunks(path)).decode()
    except UnicodeDecodeError:
        return None
    plain = not has_hidden(text) and ": " not in path and trail_text(path) == path
    return text if plain and mask_secrets(text) == text else None


def _made(
    tree: HeldTree, protected: ProtectedPaths, edited: dict[str, str], planted: PlantedFile
) -> MadeChangeSet | None:
    """The change set; None where not all of it could be proposed. Raises ChangeSetError, OSError."""
    changed = {**edited, planted.path: planted.text}
    files: dict[str, MergedFile] = {}
    for path, text in changed.items():
        entry = tree.look(path)
        files[path] = MergedFile(text.encode(), entry is not None and entry.executable)
    made = make_change_set(tree, MergedTree(tree, files), candidates=files, protected=protected.has)
    return made if {row.path for row in made.rows} == changed.keys() and len(changed) >= _LEAST_PATHS else None


def _drill(
    context: Context,
    place: ProjectPlace,
    asks: _Requester,
    moment: datetime,
    made: MadeChangeSet,
    planted: PlantedFile,
    purpose: str,
) -> tuple[Drill, bytes]:
    """The drill and its draft. Raises InvalidInput if gate 1 refuses a word of it."""
    request_id = f"TR-{moment:%Y%m%d-%H%M%SZ}-changes-{secrets.token_hex(3)}"
    draft = draft_change_set(
        made,
        project=place.name,
        request_id=request_id,
        requested_by=asks.profile,
        purpose=purpose,
        justification=asks.says,
        now=moment,
        settings=context.policy.settings.request,
    )
    drill = Drill(
        name=draft.name,
        folder=asks.folder,
        owner=asks.owner,
        request_id=request_id,
        request_sha256=sha256_hex(draft.data),
        source=f"{OF_PROJECT}{place.name}",
        planted=planted.kind,
        line=trail_text(planted.line),
        salt=secrets.token_hex(16),
    )
    return drill, draft.data
