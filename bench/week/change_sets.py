"""What an agent's change sets add to the week: each is made of a project's files, drafted, and read as it is shown.

No grant and no group may cover a change set, so each is a decision of its own. Some have one planted line, as drills
have: how many of these lines have a mark is counted, for a mark is what a reader in a hurry sees.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.changes.applying import own
from threegate.approval.shown.escaped_lines import render_sections
from threegate.core.canonical import sha256_hex
from threegate.core.held_folder import hold_path
from threegate.plugins.changes.change_draft import draft_change_set
from threegate.plugins.changes.change_facts import file_change
from threegate.plugins.changes.make import make_change_set
from threegate.plugins.changes.marks import marks_of
from threegate.plugins.changes.merge import MergedFile, MergedTree
from threegate.plugins.changes.registered_projects import add_project
from threegate.plugins.changes.run_later import why_runs_later
from threegate.plugins.changes.trees import HeldTree
from threegate.plugins.drills.change_plants import FILE_PLANTS, PlantedFile, file_plants, harmless_edits, is_edited
from threegate.review.review_sections import review_sections
from threegate.review.reviewed_draft import read_draft, view_draft

ROOT = Path(__file__).parents[2]
_GUTTER = re.compile(r"^[ !>0-9+-]*\| ")


@dataclass(frozen=True)
class ReadChange:
    """One change set as the operator reads it."""

    paths: int
    words: int
    """On its whole screen: what has a letter or a digit, without the numbers before lines."""
    planted: str = ""
    """The kind of the planted line; empty for an ordinary one."""
    marked: bool = False
    """Whether the planted line has a mark."""
    covered: bool = False
    """Whether a grant or a group could cover it."""


def change_sets(recipe: Mapping[str, Any]) -> list[ReadChange]:
    """The change sets of `recipe["changes"]`, read one by one in a workspace of their own."""
    asked = recipe["changes"]
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(Path(folder))
        project = _project(Path(folder) / "project", asked["of"])
        add_project(bench.workspace, "project", str(project), actor="bench")
        texts = {
            path.relative_to(project).as_posix(): path.read_text()
            for path in sorted(project.rglob("*"))
            if path.is_file()
        }
        kinds = [kind for kind in sorted(FILE_PLANTS) if kind in asked["planted"]]
        number = len(asked["days"]) * asked["each_day"]
        planted = {at * number // len(kinds): kind for at, kind in enumerate(kinds)}
        return [_read(bench, project, texts, seed, planted.get(seed, "")) for seed in range(number)]


def _project(folder: Path, paths: list[str]) -> Path:
    """A project with files of this repository."""
    for path in _files(paths):
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return own(folder)


def _files(paths: list[str]) -> Iterator[Path]:
    for path in paths:
        found = [ROOT / path] if (ROOT / path).is_file() else sorted((ROOT / path).rglob("*"))
        yield from (one for one in found if one.is_file() and is_edited(one.name))


def _read(bench: Bench, project: Path, texts: Mapping[str, str], seed: int, kind: str) -> ReadChange:
    """Make one, draft it, and render its screen as `threegate approve` does."""
    edited, purpose = harmless_edits(texts, Random(seed))
    seen = {**texts, **edited}
    plant = next((one for one in file_plants(seen, Random(seed)) if one.kind == kind), None)
    if kind and plant is None:
        raise ValueError(f"{kind}: fits no file of the project")
    if plant is not None:
        edited[plant.path] = plant.text
    with hold_path(project) as held:
        tree = HeldTree(held)
        files = {path: MergedFile(text.encode(), False) for path, text in edited.items()}
        made = make_change_set(tree, MergedTree(tree, files), candidates=files)
    now = datetime.now(UTC).replace(microsecond=0)
    draft = draft_change_set(
        made,
        project="project",
        request_id=f"TR-{now:%Y%m%d-%H%M%SZ}-changes-{seed:06x}",
        requested_by="codex",
        purpose=purpose,
        justification="made by the agent codex in its work copy",
        now=now,
        settings=bench.context.policy.settings.request,
    )
    (bench.workspace.files / sha256_hex(made.data)).write_bytes(made.data)
    path = bench.workspace.inbox / draft.name
    path.write_bytes(draft.data)
    context = bench.context
    with view_draft(context, read_draft(bench.workspace, path)) as reviewed:
        lines = render_sections(review_sections(reviewed, context.policy.settings, operator="alice"))
        action = reviewed.request.action
    said = [word for line in lines for word in _GUTTER.sub("", line).split()]
    words = sum(any(map(str.isalnum, word)) for word in said)
    covered = action.grouped or not action.never_granted
    marked = plant is not None and _is_marked(texts[plant.path], seen[plant.path], plant)
    return ReadChange(len(made.rows), words, kind, marked, covered)


def _is_marked(old: str, seen: str, plant: PlantedFile) -> bool:
    """Whether a line of the diff that is the planted one has a mark."""
    before, after = seen.split("\n"), plant.text.split("\n")
    number = next(at for at, line in enumerate(after, 1) if at > len(before) or line != before[at - 1])
    text = file_change(old.encode(), plant.text.encode())
    assert text is not None
    runs = why_runs_later(plant.path, executable=False, head=plant.text.encode()[:64]) is not None
    return any(not mark.removed and mark.line == number for mark in marks_of(plant.path, text, runs=runs))
