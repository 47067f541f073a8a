"""The request for a change set: what `changes.tar` is and why, as gate 1 reads it.

Invariant: the result is a valid draft of version 2, or the reason is raised. Names of paths are the agent's: where gate
1 would refuse the words in one, the draft leaves the names away and keeps the counts, for the table has all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput
from threegate.core.settings import RequestSettings
from threegate.plugins.changes.action import Changes, ProjectChange
from threegate.plugins.changes.changes_section import ARCHIVE, COMMITS
from threegate.plugins.changes.make import MadeChangeSet, utf_8
from threegate.plugins.changes.table import Row, count_changes
from threegate.request.characters import visible
from threegate.request.model import InputFile, Risk
from threegate.request.reader import read_request
from threegate.request.render_draft import blank_draft, file_name, render_request, slug_of

_LEFT_OUT_NAMED: Final = 20
_REASONS_NAMED: Final = 8
_OUTPUTS_NAMED: Final = 8
_TIME_LIMIT_SEC: Final = 60
_DATED: Final = re.compile(r"^TR-[0-9]{8}-[0-9]{6}Z-")


@dataclass(frozen=True, slots=True)
class ChangeDraft:
    """A draft's file name and bytes. Beside it, in `files/`, belongs `changes.tar` with exactly the bytes of the
    change set, and `commits.tar` where there is one.
    """

    name: str
    data: bytes


def draft_change_set(
    made: MadeChangeSet,
    *,
    project: str,
    request_id: str,
    requested_by: str,
    purpose: str,
    justification: str,
    now: datetime,
    settings: RequestSettings,
    risk_level: Risk = "medium",
    tool: str | None = None,
    constraints: tuple[str, ...] = (),
    commits: bytes = b"",
) -> ChangeDraft:
    """Write the request. `now` is an aware datetime in UTC; `commits` is `commits.tar`, empty for none. Raises
    InvalidInput if there is nothing to propose, or if gate 1 refuses one of the given words.
    """
    if not made.rows:
        raise InvalidInput(f"{project}: nothing was changed that could be proposed")
    name = file_name(now, slug_of(_DATED.sub("", request_id)))
    inputs = [InputFile(ARCHIVE, sha256_hex(made.data))]
    if commits:
        inputs.append(InputFile(COMMITS, sha256_hex(commits)))
    for named in (True, False):  # gate 1 may refuse the words in a path, which is the agent's
        action = ProjectChange(project, said_changes(made.rows, made.sha256, named=named))
        request = replace(
            blank_draft(name, now, "apply", action),
            request_id=request_id,
            requested_by=requested_by,
            purpose=purpose,
            time_limit_sec=min(_TIME_LIMIT_SEC, settings.max_time_sec),
            inputs=tuple(inputs),
            constraints=(*constraints, *left_out_lines(made, names=named)),
            tool=tool,
            risk_level=risk_level,
            justification=justification,
        )
        data = render_request(request)
        report = read_request(data, path=name, settings=settings, now=now, stage="draft")
        if report.request is not None:
            return ChangeDraft(name, data)
    first = report.first_error
    raise InvalidInput(f"the draft is refused by {first.rule}: {first.message}")


def said_changes(rows: Sequence[Row], sha256: str, *, named: bool = True) -> Changes:
    """A request's words about a change set: its digest, how many changes of each kind, and, if `named`, the
    first of its paths. One that begins with a blank would be read as another.
    """
    listed = tuple((row.change, row.path) for row in rows[: limits.CHANGE_ROWS_LISTED] if named and row.path[0] != " ")
    return Changes(sha256, **count_changes(rows), rows=listed)


def left_out_lines(made: MadeChangeSet, *, names: bool = True) -> Iterator[str]:
    """What is not in the change set, one line each, for the draft and for the proposer."""
    named = made.left_out[:_LEFT_OUT_NAMED] if names else ()
    for item in named:
        yield f"left out: {_one_line(item.path)}: {item.reason}"[: limits.LIST_TEXT_CHARS].strip()
    more = Counter(made.more_left_out)
    more.update(item.reason for item in made.left_out[len(named) :])
    told = more.most_common(_REASONS_NAMED) if names else []
    for reason, count in told:
        yield f"left out: {count} more: {reason}"[: limits.LIST_TEXT_CHARS].strip()
    rest = more.total() - sum(count for _, count in told)
    if rest:
        yield f"left out: {rest} {'more ' if names else ''}paths that cannot be carried"
    if made.ignored:
        yield f"left out: {made.ignored} paths that git ignores in this project"
    if made.outputs:
        kinds = Counter(made.outputs)
        first = kinds.most_common(_OUTPUTS_NAMED)
        counted = ", ".join(_one_line(name) if count == 1 else f"{_one_line(name)} ({count})" for name, count in first)
        further = "" if len(kinds) <= _OUTPUTS_NAMED else ", …"
        line = f"left out: {kinds.total()} outputs of builds{f': {counted}{further}' if names else ''}"
        yield line[: limits.LIST_TEXT_CHARS]
    if made.git:
        yield f"left out: {made.git} paths of a version control system"


def _one_line(path: str) -> str:
    """A path that may have any characters, as a text that gate 1 reads."""
    return visible(utf_8(path).replace("\n", "\\n").replace("\t", "\\t"))
