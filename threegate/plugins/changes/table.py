"""The table of a change set: what each path is before and after. Everything else about a change follows from it.

Invariant: a table that `read_table` gives is sorted, has each path once, and each row's change is the one that its
before and after make. Its bytes are the only rendering of its rows, so its sha256, the change set's digest, stands for
all of them. A path has the same grammar as in a tar (`request/tar_reader.py`).
Source: docs/spec/8-agents.md, "Change sets".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

from threegate.core import canonical, limits
from threegate.request.characters import visible

Change = Literal["add", "modify", "delete", "mode", "type"]
Mode = Literal["100644", "100755", "120000", "040755"]
"""As git names them: a file, an executable file, a symlink, a folder."""

FILE: Final[Mode] = "100644"
EXECUTABLE: Final[Mode] = "100755"
LINK: Final[Mode] = "120000"
FOLDER: Final[Mode] = "040755"
_FILES: Final = frozenset({FILE, EXECUTABLE})
_MODES: Final = frozenset({FILE, EXECUTABLE, LINK, FOLDER})
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_KEYS: Final = frozenset({"path", "change", "before_sha256", "after_sha256", "before_mode", "after_mode"})


class ChangeSetError(ValueError):
    """The bytes are not a change set that may be applied; the message says which path and why, in one visible line."""

    def __init__(self, message: str) -> None:
        super().__init__(visible(message.replace("\n", "\\n")))


@dataclass(frozen=True, slots=True)
class TableNode:
    """What a path is. `sha256` is that of a file's bytes or of a link's target; empty for a folder."""

    mode: Mode
    sha256: str = ""

    @property
    def folder(self) -> bool:
        """Whether it is a folder."""
        return self.mode == FOLDER

    @property
    def file(self) -> bool:
        """Whether it is a regular file."""
        return self.mode in _FILES


@dataclass(frozen=True, slots=True)
class Row:
    """One path that changes. At least one of `before` and `after` is there, and they differ."""

    path: str
    before: TableNode | None
    after: TableNode | None

    @property
    def parts(self) -> tuple[str, ...]:
        """The path's names, from the project's root."""
        return tuple(self.path.split("/"))

    @property
    def change(self) -> Change:
        """The kind of change; ``type`` is a file, a link and a folder becoming one of the others."""
        if self.before is None:
            return "add"
        if self.after is None:
            return "delete"
        if self.before.file != self.after.file or self.before.folder != self.after.folder:
            return "type"
        return "mode" if self.before.sha256 == self.after.sha256 else "modify"

    def as_json(self) -> dict[str, Any]:
        """The row as the table has it."""
        before, after = self.before, self.after
        return {
            "path": self.path,
            "change": self.change,
            "before_sha256": None if before is None else before.sha256 or None,
            "after_sha256": None if after is None else after.sha256 or None,
            "before_mode": None if before is None else before.mode,
            "after_mode": None if after is None else after.mode,
        }

    def turned(self) -> Row:
        """The change that takes this one back."""
        return Row(self.path, self.after, self.before)


def render_table(rows: Iterable[Row]) -> bytes:
    """The table's bytes: one canonical JSON object a line (RFC 8785), sorted by path."""
    ordered = sorted(rows, key=_order)
    return b"".join(canonical.canonical_bytes(row.as_json()) + b"\n" for row in ordered)


def read_table(data: bytes) -> tuple[Row, ...]:
    """The rows of a table. Raises ChangeSetError, also where the bytes are not the rendering of their own rows."""
    if len(data) > limits.CHANGE_TABLE_BYTES:
        raise ChangeSetError(f"its table has more than {limits.CHANGE_TABLE_BYTES} bytes")
    lines = data.split(b"\n")
    if lines.pop() != b"" or not lines:
        raise ChangeSetError("its table is empty or cut off")
    if len(lines) > limits.CHANGE_ROWS:
        raise ChangeSetError(f"its table has more than {limits.CHANGE_ROWS} rows; propose the change in parts")
    rows = tuple(_row(number, line) for number, line in enumerate(lines, 1))
    for one, other in pairwise(rows):
        if not _order(one) < _order(other):
            raise ChangeSetError(f"{other.path}: its rows are not sorted, or the path occurs twice")
    if render_table(rows) != data:
        raise ChangeSetError("its table is not the canonical form of its rows")
    return rows


def table_digest(rows: Sequence[Row]) -> str:
    """The change set's digest: the sha256 of its table."""
    return canonical.sha256_hex(render_table(rows))


def count_changes(rows: Iterable[Row]) -> dict[Change, int]:
    """How many paths each kind of change has, all five kinds named."""
    counted = Counter(row.change for row in rows)
    kinds: tuple[Change, ...] = ("add", "modify", "delete", "mode", "type")
    return {kind: counted[kind] for kind in kinds}


def same_bytes(rows: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """A deleted path and an added one of the same bytes and mode, each at most once: of several those whose names are
    the same, otherwise in the order of the table.
    """
    gone: dict[TableNode, list[Row]] = {}
    come: list[Row] = []
    for row in rows:
        if row.before is None and row.after is not None and not row.after.folder:
            come.append(row)
        elif row.before is not None and row.after is None and not row.before.folder:
            gone.setdefault(row.before, []).append(row)
    for named in (True, False):
        left = []
        for new in come:
            assert new.after is not None
            found = (old for old in gone.get(new.after, ()) if not named or old.parts[-1] == new.parts[-1])
            old = next(found, None)
            if old is None:
                left.append(new)
                continue
            gone[new.after].remove(old)
            yield old, new
        come = left


def folders_above(path: str) -> Iterator[str]:
    """The folders that a path is in, the highest first, without the project's root."""
    parts = path.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts)))


def _order(row: Row) -> tuple[str, ...]:
    return row.parts  # by parts, so that a folder comes right before what is in it


def _row(number: int, line: bytes) -> Row:
    try:
        value = canonical.loads_strict(line, max_bytes=limits.CHANGE_TABLE_BYTES, max_depth=2)
    except ValueError as error:
        raise ChangeSetError(f"row {number} of its table is not a JSON object: {error}") from None
    if not isinstance(value, dict) or value.keys() != _KEYS or not isinstance(value["path"], str):
        raise ChangeSetError(f"row {number} of its table does not have exactly the keys {', '.join(sorted(_KEYS))}")
    before, after = _node(number, value, "before"), _node(number, value, "after")
    if before == after:
        raise ChangeSetError(f"row {number} of its table changes nothing")
    row = Row(value["path"], before, after)
    if row.change != value["change"]:
        raise ChangeSetError(f"row {number} of its table is not {str(value['change'])[:20]!r} but {row.change!r}")
    return row


def _node(number: int, value: Mapping[str, Any], when: str) -> TableNode | None:
    mode, digest = value[f"{when}_mode"], value[f"{when}_sha256"]
    if mode is None and digest is None:
        return None
    if mode not in _MODES:
        raise ChangeSetError(f"row {number} of its table has a mode other than {', '.join(sorted(_MODES))}")
    if (digest is None) != (mode == FOLDER) or not (
        digest is None or (isinstance(digest, str) and _SHA256.fullmatch(digest))
    ):
        raise ChangeSetError(f"row {number} of its table has no sha256, or a folder with one")
    return TableNode(mode, digest or "")
