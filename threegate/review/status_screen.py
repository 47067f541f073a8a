"""Lists of requests: drafts of one shape are one row with their number, and what does not fit on a screen is counted.

Invariant: a row with a number stands for drafts that differ in nothing that a list tells but time, name, purpose and
plain values: one with another risk, reach, requester or state has a row of its own. On a screen of `height` rows the
open requests take at most these, as long as these hold a heading for each part; each request has a row of its own, is
in the row of its group, or is in the count of the last row, with the command that shows all. In a row our words come
first, and foreign text is behind the gutter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
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
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_TURNS: Final = (("running", 3), ("others", 1), ("operator", None), ("running", None), ("others", None))
"""Which part gets the next rows, and up to how many of its entries."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a list: a request, or the drafts of a group."""

    members: tuple[Line, ...]
    name: str = ""
    """For a group: what it is called while a list is shown, in ASCII."""

    @property
    def line(self) -> Line:
        """The request, or the first one of the group."""
        return self.members[0]

    @property
    def count(self) -> int:
        """How many requests it stands for."""
        return len(self.members)

    def differing(self) -> list[str]:
        """For each member, the plain values and the purpose if they differ from another's: foreign text."""
        from threegate.review.group_shape import differing  # late: a list without groups loads no gate

        rows = [line.asked.values if line.asked is not None else () for line in self.members]
        columns = differing(rows)
        columns.sort(key=lambda at: rows[0][at].label == "purpose")  # a value is shorter, and it is what runs
        return [mask_secrets("  ".join(row[at].text for at in columns)) for row in rows]


def folded(lines: Sequence[Line]) -> list[Entry]:
    """The lines in their order, with the drafts that nothing tells apart at the place of the first one."""
    parts: dict[object, list[Line]] = {}
    for line in lines:
        parts.setdefault(_told(line) if line.together else line.entry.path, []).append(line)
    names: Counter[str] = Counter()
    entries = []
    for part in parts.values():
        shape = part[0].asked.shape if part[0].asked is not None else None
        if len(part) == 1 or shape is None:
            entries += [Entry((line,)) for line in part]
            continue
        names[shape] += 1
        entries.append(Entry(tuple(part), f"{shape}-{names[shape]}"))
    return entries


def in_turn(entries: Sequence[Entry]) -> list[Entry]:
    """Entries in the order of their lines, but of one risk a group first: it is one decision for many."""
    return sorted(entries, key=lambda entry: (entry.line.urgency, entry.count == 1))


def _told(line: Line) -> Line:
    """The line without what may differ in a group. A fact that is added to lines keeps drafts apart by itself."""
    entry = replace(line.entry, path=Path(), changed=_NEVER, since=_NEVER)
    asked = replace(line.asked, purpose="", values=()) if line.asked is not None else None
    return replace(line, entry=entry, asked=asked, request_id=None, output=None)


def screen_rows(lines: Sequence[Line], *, now: datetime, width: int, height: int) -> list[str]:
    """The rows of open requests, in at most `height` rows; what has ended comes behind them, whole."""
    parts = _parts(in_turn(folded(lines)))
    ended = {"ended": parts.pop("ended")} if "ended" in parts else {}
    shown = {group: len(entries) for group, entries in parts.items()}
    total = sum(entry.count for entries in parts.values() for entry in entries)
    least = 2 * sum(shown.values())  # rows of the whole form, which need not be made if they cannot fit
    rows = _whole(parts, now, width) if least <= height else []
    if least > height or len(rows) + (total > sum(shown.values())) > height:
        left_for_parts = max(0, height - len(_count(total, total, width)))
        rows, shown = _short(parts, _Names(lines), now, width, left_for_parts)
    if left := total - sum(shown.values()):
        rows += _count(left, total, width)
    return rows + _whole(ended, now, width)


def all_rows(lines: Sequence[Line], *, now: datetime, width: int) -> list[str]:
    """Every line as other lists show it, and none folded."""
    return _whole(_parts([Entry((line,)) for line in lines]), now, width)


def list_rows(entries: Sequence[Entry], *, now: datetime, width: int, height: int) -> list[list[str]]:
    """The rows of each entry for a list that can be scrolled: whole if all fit in `height` rows, else most in one."""
    if 2 * len(entries) <= height:
        whole = [line_rows(entry.line, now=now, width=width, alike=entry.count) for entry in entries]
        if sum(map(len, whole)) <= height:
            return whole
    names = _Names([line for entry in entries for line in entry.members])
    return _in_short({"": entries}, names, now, width)[""]


def member_rows(entry: Entry, *, now: datetime, width: int) -> list[str]:
    """One row for each member of a group: what differs first, then its name."""
    names = _Names(entry.members)
    heads = [f"  {at} of {entry.count}" for at in range(1, entry.count + 1)]
    column = len(heads[-1]) + 1
    heads = [
        f"{head:<{column}}{age_text(line.entry, now):>7} " for head, line in zip(heads, entry.members, strict=True)
    ]
    indent = max(map(len, heads))
    return [
        head.ljust(indent) + foreign_row(f"{differs}  {names.name(line)}", width=width, indent=indent)[indent:]
        for head, differs, line in zip(heads, entry.differing(), entry.members, strict=True)
    ]


def _parts(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    parts: dict[str, list[Entry]] = {}
    for entry in entries:
        parts.setdefault(entry.line.next, []).append(entry)
    return parts


def _count(left: int, total: int, width: int) -> list[str]:
    return own(f"folded: {left} of {total}; all of them: {SHOW_ALL}", width=width, indent=0)


def _title(group: str, entries: Sequence[Entry], more: str = "") -> str:
    return f"{TITLES[group]} ({sum(entry.count for entry in entries)}){more}"


def _whole(parts: Mapping[str, Sequence[Entry]], now: datetime, width: int) -> list[str]:
    """Each entry as other lists show it."""
    rows = []
    for group, entries in parts.items():
        rows += ["", *own(_title(group, entries), width=width, indent=0)]
        for entry in entries:
            rows += line_rows(entry.line, now=now, width=width, alike=entry.count)
    return rows


def _short(
    parts: Mapping[str, Sequence[Entry]], names: _Names, now: datetime, width: int, height: int
) -> tuple[list[str], dict[str, int]]:
    """As many entries as fit, most of them in one row; and how many these are of each part."""
    drawn = _in_short({group: entries[:height] for group, entries in parts.items()}, names, now, width)
    titles = {}
    for group, entries in parts.items():
        more = f", decide with: {_DECIDE}" if any(each.line.for_whom == WHOM["draft"] for each in entries) else ""
        titles[group] = ["", *own(_title(group, entries, more), width=width, indent=0)]
    room = height - sum(map(len, titles.values()))
    taken = dict.fromkeys(parts, 0)
    for group, most in _TURNS:
        for rows in drawn.get(group, [])[taken.get(group, 0) : most]:
            if len(rows) > room:
                break
            room -= len(rows)
            taken[group] += 1
    shown = [[title, *drawn[group][: taken[group]]] for group, title in titles.items()]
    return [row for part in shown for rows in part for row in rows], taken


def _in_short(
    parts: Mapping[str, Sequence[Entry]], names: _Names, now: datetime, width: int
) -> dict[str, list[list[str]]]:
    """Most entries in one row, foreign text in one column."""
    heads = {group: [_head(entry, now, width) for entry in entries] for group, entries in parts.items()}
    sizes = [cells(head[0]) + 1 for part in heads.values() for head in part if len(head) == 1]
    column = max((size for size in sizes if size <= min(_OWN_CELLS, width - _FOREIGN_CELLS)), default=0)
    return {
        group: [
            _with_foreign(head, names.text(entry.line), width, column)
            for head, entry in zip(heads[group], entries, strict=True)
        ]
        for group, entries in parts.items()
    }


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
    what = line.state if entry.count == 1 else f"{entry.count} {'alike' if line.state == 'draft' else line.state}"
    return own(f"{what:<9} {age_text(line.entry, now):>7}  {' '.join(facts)}", width=width, indent=0)


def _with_foreign(head: Sequence[str], text: str, width: int, column: int) -> list[str]:
    if len(head) == 1 and cells(head[0]) < column:
        return [head[0].ljust(column) + foreign_row(text, width=width, indent=column)[column:]]
    return [*head, foreign_row(text, width=width)]


class _Names:
    """What to call each line of a list: its slug if no other one has it, else the file's name."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._slugs = Counter(slug_of(line.shown_file) for line in lines)

    def name(self, line: Line) -> str:
        """The name, which is foreign."""
        slug = slug_of(line.shown_file)
        return slug if slug and self._slugs[slug] == 1 else line.shown_file.removesuffix(".md")

    def text(self, line: Line) -> str:
        """The name and the purpose, both foreign."""
        name = self.name(line)
        return name if line.asked is None else f"{name}  {mask_secrets(line.asked.purpose)}"
