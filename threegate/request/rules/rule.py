"""A rule: a permanent id, words for people, and examples that the tests run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from threegate.request.report import Severity

Where = Literal["name", "file", "front matter", "body", "command", "code", "vars", "prose"]
"""Where an example is in an otherwise good request.

`name`: the file's name. `file`: the whole file, with ``{request}`` for the good one. `front matter`: lines that replace
or add keys (``backend: monty`` makes it a monty request, a line ``-key`` takes a key away). `body`: sections that
replace those of the same heading. `command`, `code`, `vars`: the content of that section. `prose`: the justification.
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of gate 1. `id` never changes its meaning and is never used again; `message` is what it says in one
    line when nothing more exact is reported; `help` says why, and what to do. Every example is a whole value of
    `where`.
    """

    id: str
    name: str
    severity: Severity
    message: str
    help: str
    where: Where
    accepted: tuple[str, ...]
    refused: tuple[str, ...]
