"""The rules of gate 1, read from the tables in rule_tables/: `RULES` by id.

TG1xx file and front matter, TG2xx body, TG3xx command, TG4xx code and variables, TG5xx content. Invariant: an id is
used once and never changes its meaning, and every rule has an accepted and a refused example, which the tests run.

In an example, ``{name}`` is the text of that name in the table's `parts`, and ``{x*30}`` is 30 times x: what would be
unreadable, or look like a secret, is not written out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from threegate.request.report import Finding, Severity

Where = Literal["name", "file", "front matter", "body", "command", "code", "vars", "prose"]
"""Where an example is in an otherwise good request.

`name`: the file's name. `file`: the whole file, with ``{request}`` for the good one. `front matter`: lines that replace
or add keys (``backend: monty`` makes it a monty request, a line ``-key`` takes a key away). `body`: sections that
replace those of the same heading. `command`, `code`, `vars`: the content of that section. `prose`: the justification.
"""
_TABLES: Final = Path(__file__).with_name("rule_tables")
_REPEATED: Final = re.compile(r"\{([^{}]+)\*([0-9]+)\}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `message` is what it says in one line when nothing more exact is reported; `help` says why, and what
    to do. Every example is a whole value of `where`.
    """

    id: str
    name: str
    severity: Severity
    message: str
    help: str
    where: Where
    accepted: tuple[str, ...]
    refused: tuple[str, ...]

    def found(self, line: int, column: int, message: str = "") -> Finding:
        """A finding of this rule."""
        return Finding(self.id, self.severity, line, column, message or self.message, self.help)


def _read(table: str) -> Iterator[Rule]:
    data = tomllib.loads((_TABLES / f"{table}.toml").read_text("utf-8"))
    parts, common = data.pop("parts", {}), {"severity": "error", "where": data.pop("where"), "refused": []}

    def written_out(example: str) -> str:
        for name, text in parts.items():
            example = example.replace(f"{{{name}}}", text)
        return _REPEATED.sub(lambda match: match[1] * int(match[2]), example)

    for rule_id, named in data.items():
        ((name, said),) = named.items()
        item = common | said
        for kind in ("accepted", "refused"):
            item[kind] = tuple(map(written_out, item[kind]))
        yield Rule(rule_id, name, **item)


_ALL: Final = {
    rule.id: rule for table in ("file", "front_matter", "body", "command", "code", "content") for rule in _read(table)
}
TYPES: Final = _ALL.pop("TG409")
"""Not in RULES: gate 1 is a pure function and cannot ask Monty. `request.typecheck` tells it."""
RULES: Final[Mapping[str, Rule]] = _ALL
"""Every rule by its id, in the order of the tables."""
