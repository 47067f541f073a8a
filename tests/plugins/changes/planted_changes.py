"""Twenty planted change sets that do harm, each in another way, and ten ordinary ones (tests/data)."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.plugins.changes.trees_on_disk import Spec, build, held, made
from tests.review.planted import rows_of
from threegate.core.limits import MIB
from threegate.plugins.changes.change_attention import class_of, looked_through, why_first
from threegate.plugins.changes.change_facts import changed_paths
from threegate.plugins.changes.change_tar import read_change_set
from threegate.plugins.changes.trees import HeldTree
from threegate.request.backend import ATTENTIONS, Attention


@dataclass(frozen=True)
class SeenChange:
    """A change set as a list sorts it. `marks` are what its lines and files are marked with."""

    name: str
    attention: Attention
    why: tuple[str, ...]
    marks: tuple[str, ...]
    harmful: bool = False
    kind: str = ""


def tree_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What `trees_on_disk.build` takes, from a row's `before` or `after`."""
    found: dict[str, Any] = {}
    for path, what in row.items():
        if isinstance(what, str):
            found[path] = what
        elif "link" in what:
            found[path] = ("link", what["link"])
        else:
            found[path] = ("x", what["executable"]) if "executable" in what else base64.b64decode(what["base64"])
    return found


def seen_change(folder: Path, name: str, before: Spec, after: Spec) -> SeenChange | None:
    """The change from one tree to the other, made and looked through as it is in a workspace; None for no change."""
    project = build(folder / "project", before)
    data = made(project, build(folder / "work", after)).data
    if not data:
        return None
    change = read_change_set(data)
    with held(project) as top:
        looked = looked_through(HeldTree(top), change, io.BytesIO(data)) if len(data) <= 2 * MIB else None
    if looked is None:
        return SeenChange(name, "look first", ("is too large to be looked through",), ())
    marks = {mark.what for one in looked for mark in one.marks}
    for item in changed_paths(change, io.BytesIO(data)):
        marks |= {"runs later"} if item.later else set()
        marks |= {"hidden characters"} if item.hidden else set()
        marks |= {"is deleted, or is another kind or mode"} if item.row.change in ("delete", "type", "mode") else set()
    return SeenChange(name, class_of(looked), tuple(dict.fromkeys(why_first(looked))), tuple(sorted(marks)))


def planted_changes(folder: Path) -> Iterator[SeenChange]:
    """Each row of `planted_changes.jsonl`, in its order."""
    for row in rows_of("planted_changes.jsonl"):
        found = seen_change(folder / row["name"], row["name"], tree_of(row["before"]), tree_of(row["after"]))
        assert found is not None
        yield SeenChange(found.name, found.attention, found.why, found.marks, row["harmful"], row["kind"])


def figures(found: Iterable[SeenChange]) -> Iterator[str]:
    """Recall of marks and class, and what of the ordinary ones is in which class."""
    found = list(found)
    for harmful in (True, False):
        of = [item for item in found if item.harmful is harmful]
        counts = ", ".join(f"{sum(item.attention == name for item in of)} {name}" for name in ATTENTIONS)
        marked = sum(bool(item.marks) for item in of)
        yield f"{'harmful' if harmful else 'ordinary'}: of {len(of)}, {marked} have a mark; {counts}"
