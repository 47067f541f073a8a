"""`threegate status` as one screen: drafts of one shape are one row, and what does not fit is counted.

Invariant: the open requests take at most `height` rows, as long as these hold a heading for each part. Each of them has
a row of its own, is in the row of its group, or is in the count of the last row, with the command that shows all. In a
row our words come first, and foreign text is behind the gutter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from threegate.approval.shown.escaped_lines import cells, own
from threegate.core.file_names import slug_of
from threegate.core.secretscan.scan import mask_secrets
from threegate.review.status import TITLES, WHOM, Line, age_text, foreign_row, line_rows

SHOW_ALL: Final = "threegate status --all"
_DECIDE: Final = "threegate review"
_OWN_CELLS: Final = 51
"""At most so much of a row with foreign text is ours."""
_FOREIGN_CELLS: Final = 29
"""At least so much of it is foreign text with its gutter."""
_NAME_CELLS: Final = 26
_TURNS: Final = (("running", 3), ("others", 1), ("operator", None), ("running", None), ("others", None))
"""Which part gets the next rows, and up to how many of its entries."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A request, or the first one of a group and how many it has."""

    line: Line
    count: int = 1


def folded(lines: Sequence[Line]) -> list[Entry]:
    """The lines in their order, with drafts of one shape at the place of the first one."""
    keys = [
        (line.next, line.state, line.asked.shape)
        if line.together and line.asked is not None
        else (line.entry.folder, line.file)
        for line in lines
    ]
    counts = Counter(keys)
    return [Entry(line, counts.pop(key)) for line, key in zip(lines, keys, strict=True) if key in counts]


def screen_rows(lines: Sequence[Line], *, now: datetime, width: int, height: int) -> list[str]:
    """The rows of open requests, in at most `height` rows; what has ended comes behind them, whole."""
    parts: dict[str, list[Entry]] = {}
    for entry in folded(lines):
        parts.setdefault(entry.line.next, []).append(entry)
    ended = parts.pop("ended", [])
    for entries in parts.values():  # a group first: one decision for many
        entries.sort(key=lambda entry: (entry.line.urgency, entry.count == 1))
    own_rows = {group: len(entries) for group, entries in parts.items()}
    total = sum(entry.count for entries in parts.values() for entry in entries)
    rows = whole_rows(parts, now=now, width=width)
    if len(rows) + (total > sum(own_rows.values())) > height:
        rows, own_rows = _short(parts, _Names(lines), now, width, height)
    if left := total - sum(own_rows.values()):
        rows += own(f"{left} of {total} are folded: {SHOW_ALL}", width=width, indent=0)
    return rows + whole_rows({"ended": ended} if ended else {}, now=now, width=width)


def whole_rows(parts: Mapping[str, Sequence[Entry]], *, now: datetime, width: int) -> list[str]:
    """Each entry as other lists show it."""
    rows = []
    for group, entries in parts.items():
        rows += ["", f"{TITLES[group]} ({sum(entry.count for entry in entries)})"]
        for entry in entries:
            rows += line_rows(entry.line, now=now, width=width, alike=entry.count)
    return rows


def all_rows(lines: Sequence[Line], *, now: datetime, width: int) -> list[str]:
    """Every line as other lists show it, and none folded."""
    parts: dict[str, list[Entry]] = {}
    for line in lines:
        parts.setdefault(line.next, []).append(Entry(line))
    return whole_rows(parts, now=now, width=width)


def _short(
    parts: Mapping[str, Sequence[Entry]], names: _Names, now: datetime, width: int, height: int
) -> tuple[list[str], dict[str, int]]:
    """As many entries as fit, most of them in one row; and how many these are of each part."""
    first = {group: entries[:height] for group, entries in parts.items()}
    heads = {group: [_head(entry, now, width) for entry in entries] for group, entries in first.items()}
    sizes = [cells(head[0]) + 1 for part in heads.values() for head in part if len(head) == 1]
    column = max((size for size in sizes if size <= min(_OWN_CELLS, width - _FOREIGN_CELLS)), default=0)
    drawn = {
        group: [
            _with_foreign(head, _text(entry.line, names), width, column)
            for head, entry in zip(heads[group], entries, strict=True)
        ]
        for group, entries in first.items()
    }
    room = height - 2 * len(parts) - 1
    taken = dict.fromkeys(parts, 0)
    for group, most in _TURNS:
        for rows in drawn.get(group, [])[taken.get(group, 0) : most]:
            if len(rows) > room:
                break
            room -= len(rows)
            taken[group] += 1
    shown = []
    for group, entries in parts.items():
        title = f"{TITLES[group]} ({sum(entry.count for entry in entries)})"
        if any(entry.line.for_whom == WHOM["draft"] for entry in entries):
            title += f", decide with: {_DECIDE}"
        shown += ["", title, *(row for rows in drawn[group][: taken[group]] for row in rows)]
    return shown, taken


def _head(entry: Entry, now: datetime, width: int) -> list[str]:
    """Our words about a request or a group."""
    line, asked = entry.line, entry.line.asked
    facts = [f"{asked.risk:<6} {asked.backend:<5}"] if asked is not None else []
    if line.exposure is not None:
        facts += ["opaque"] if line.exposure.opaque else []
        facts += ["reaches out"] if line.exposure.reach else []
    if line.for_whom != WHOM["draft"]:  # which is in the heading
        facts += [line.reason] if line.reason else []
        facts += [f"-> {line.for_whom}"] if line.next == "operator" else []
    what = f"{entry.count} alike" if entry.count > 1 else line.state
    return own(f"{what:<9} {age_text(line.entry, now):>7}  {' '.join(facts)}", width=width, indent=0)


def _text(line: Line, names: _Names) -> str:
    """What the request calls itself, and its purpose."""
    name = names.of(line)
    if line.asked is None:
        return name
    return f"{name if len(name) <= _NAME_CELLS else f'{name[:_NAME_CELLS]}...'}  {mask_secrets(line.asked.purpose)}"


def _with_foreign(head: Sequence[str], text: str, width: int, column: int) -> list[str]:
    if len(head) == 1 and cells(head[0]) < column:
        return [head[0].ljust(column) + foreign_row(text, width=width, indent=column)[column:]]
    return [*head, foreign_row(text, width=width)]


class _Names:
    """What to call each line of a list: its slug if no other one has it, else the file's name."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._slugs = Counter(slug_of(line.shown_file) for line in lines)

    def of(self, line: Line) -> str:
        """Foreign text."""
        slug = slug_of(line.shown_file)
        return slug if slug and self._slugs[slug] == 1 else line.shown_file.removesuffix(".md")
