"""The results that went back to CORE, as they are in `results/`."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import Any

from threegate.core import durable, limits
from threegate.core.workspace import RequesterFolders
from threegate.request.source import FrontMatter, SourceRefused

_LINE = re.compile(r'^(status|reason|request_id|result_id|created_utc): (?:"([^"\\]*)"|([a-z_]+))$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One result file. `problem` is set if it cannot be read."""

    file: str
    result_id: str
    request_id: str
    status: str
    reason: str
    created_utc: str
    text: str

    def to_json(self, *, with_text: bool = False) -> dict[str, Any]:
        """The row as a JSON object, with the file's text on request."""
        value = {
            "file": self.file,
            "result_id": self.result_id,
            "request_id": self.request_id,
            "status": self.status,
            "reason": self.reason or None,
            "created_utc": self.created_utc,
        }
        return {**value, "text": self.text} if with_text else value


def list_results(
    requester_folders: RequesterFolders, wanted: str | None = None, *, shared: bool = False
) -> list[ResultRow]:
    """All results, oldest first, or those of one request or result id. An unreadable file is listed as such.

    `shared`: leave out the operator's copies of results of agent runs.
    """
    rows = []
    try:
        names = sorted(
            name for name in os.listdir(requester_folders.results) if name.startswith("TS-") and (wanted or "") in name
        )
    except OSError:
        return []
    for name in names:
        if shared and not (requester_folders.results / name).lstat().st_mode & stat.S_IWUSR:
            continue
        try:
            data = durable.read_regular(requester_folders.results / name, max_bytes=limits.RESULT_BYTES)
            text = data.decode("utf-8", "backslashreplace")
        except OSError as error:
            text = f"(cannot be read: {error.strerror or error})"
        try:
            values = _short_values(FrontMatter(text, max_bytes=limits.RESULT_BYTES).text)
        except SourceRefused:
            values = {}
        reason = values.get("reason", "")
        row = ResultRow(
            file=name,
            result_id=values.get("result_id", ""),
            request_id=values.get("request_id", ""),
            status=values.get("status", "unreadable"),
            reason="" if reason == "null" else reason,
            created_utc=values.get("created_utc", ""),
            text=text,
        )
        if wanted is None or wanted in (row.request_id, row.result_id, name):
            rows.append(row)
    return rows


def _short_values(front: str) -> dict[str, str]:
    """What a row shows. YAML would take a hundred times as long, and a folder has thousands of results."""
    return {match[1]: match[2] if match[2] is not None else match[3] for match in _LINE.finditer(front)}
