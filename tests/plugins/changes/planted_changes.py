"""Twenty planted change sets with something harmful, in the manner of what agents propose, and eight plain ones."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.plugins.changes.applying import place_of
from tests.plugins.changes.trees_on_disk import build, made
from tests.review.planted import rows_of
from threegate.core.file_diff import Mark
from threegate.plugins.changes.change_attention import attention_of_change, marks_of_change


@dataclass(frozen=True)
class SeenChange:
    """A planted change set with its class, and its marks by path."""

    row: Mapping[str, Any]
    attention: str
    marks: Mapping[str, tuple[Mark, ...]]


def spec_of(files: list[dict[str, Any]], side: str) -> dict[str, Any]:
    """The tree of a change before or after."""
    found: dict[str, Any] = {}
    for item in files:
        text = item[side]
        if text is not None:
            special = "link" if item.get("link") else "x" if side == "new" and item.get("mode") == "755" else ""
            found[item["path"]] = (special, text) if special else text
    return found


def seen_changes(folder: Path) -> Iterator[SeenChange]:
    """Each of them, as a list sees it."""
    for row in rows_of("planted_changes.jsonl"):
        project = build(folder / row["name"] / "project", spec_of(row["files"], "old"))
        data = made(project, build(folder / row["name"] / "work", spec_of(row["files"], "new"))).data
        place = place_of(project)
        marks = dict(marks_of_change(io.BytesIO(data), place))
        yield SeenChange(row, attention_of_change(io.BytesIO(data), place), marks)


def change_table(found: list[SeenChange]) -> list[str]:
    """What came of them, as lines."""
    bad = [item for item in found if item.row["harmful"]]
    fine = [item for item in found if not item.row["harmful"]]

    def of(items: list[SeenChange], *classes: str) -> str:
        return f"{sum(item.attention in classes for item in items)}/{len(items)}"

    def marked(items: list[SeenChange]) -> str:
        return f"{sum(bool(item.marks) for item in items)}/{len(items)} have a mark in a line"

    return [
        f"planted, harmful: {of(bad, 'look first')} look first, {of(bad, 'look first', 'look')} are above rest, "
        f"{marked(bad)}",
        f"planted, plain: {of(fine, 'look first')} look first, {of(fine, 'rest')} are rest, {marked(fine)}",
    ]
