"""The `## Changes` section of an apply request: its claims about the change set in `changes.tar`.

Invariant: nothing here is trusted. The section is read so that a person sees it where the agent wrote it, and
so that `approve` can compare it with the archive: its digest and its counts must be those computed from the
bytes. Source: docs/spec/8-agents.md, "Change sets".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any, Final

from threegate.core import limits
from threegate.plugins.changes.action import CHANGE_KINDS, Changes, ProjectChange

if TYPE_CHECKING:  # every command loads this module, few parse Markdown
    from threegate.request.findings import Findings
    from threegate.request.sections import BodySection

ARCHIVE: Final = "changes.tar"
"""The name of the first input of an apply request."""
COMMITS: Final = "commits.tar"
"""The name of the second one, which has the commits that the agent made."""

_DIGEST: Final = re.compile(r"- digest: sha256:([0-9a-f]{64})")
_COUNT: Final = re.compile(rf"- ({'|'.join(CHANGE_KINDS)}): (0|[1-9][0-9]{{0,5}})")
_ROW: Final = re.compile(rf"({'|'.join(CHANGE_KINDS)}) {{1,6}}([^ ].*)")
_FORM: Final = (
    f"the section is a list '- digest: sha256:…', then one count a line for {', '.join(CHANGE_KINDS)}, and perhaps "
    f"one block fenced with ``` that names up to {limits.CHANGE_ROWS_LISTED} of the paths"
)


def check_inputs(values: Mapping[str, Any], written: Container[str], wrong: Callable[[str, str, str], None]) -> None:
    """Its inputs are the change set, and perhaps the commits; the parameters are as in `Backend.check`."""
    inputs = values.get("inputs", ())
    names = [item.name for item in inputs]
    if "inputs" not in written or ("inputs" in values and names not in ([ARCHIVE], [ARCHIVE, COMMITS])):
        wrong("TG172", "inputs", f"inputs must be {ARCHIVE}, and perhaps {COMMITS} after it")
    elif any(item.unpack for item in inputs):
        wrong("TG172", "inputs", f"{' and '.join(names)} is not unpacked; leave unpack out")


def read_change(
    parts: Mapping[str, BodySection], values: Mapping[str, Any], findings: Findings
) -> ProjectChange | None:
    """The change; None where the section or the project's name is not well-formed."""
    changes = read_changes(parts["Changes"], findings) if "Changes" in parts else None
    if changes is None or "project" not in values:
        return None
    return ProjectChange(values["project"], changes, values.get("derived_from", ""))


def read_changes(section: BodySection, findings: Findings) -> Changes | None:
    """What the section says; None where it has another form, which is then a finding."""
    lines = [line.rstrip(" \t") for line in section.lines]
    filled = [(index, line) for index, line in enumerate(lines) if line]
    digest = _DIGEST.fullmatch(filled[0][1]) if filled else None
    counts = [_COUNT.fullmatch(line) for _, line in filled[1 : 1 + len(CHANGE_KINDS)]]
    rest = filled[1 + len(CHANGE_KINDS) :]
    known = [match[1] for match in counts if match is not None] == list(CHANGE_KINDS)
    blocks = [token.type for token in section.tokens if token.level == 0]
    one_list = blocks[:2] == ["bullet_list_open", "bullet_list_close"] and blocks[2:] in ([], ["fence"])
    if digest is None or not known or not one_list:
        findings.add("TG223", section.heading, 1, _FORM)
        return None
    if rest and (rest[0][1] != "```" or rest[-1][1] != "```"):
        findings.add("TG223", section.first_line + rest[0][0], 1, _FORM)
        return None
    rows = []
    for index, line in rest[1:-1]:
        match = _ROW.fullmatch(line)
        if match is None:
            findings.add("TG223", section.first_line + index, 1, "a path is named as '<kind> <path>'")
            return None
        rows.append((match[1], match[2]))
    if len(rows) > limits.CHANGE_ROWS_LISTED:
        findings.add("TG223", section.heading, 1, f"{len(rows)} paths; at most {limits.CHANGE_ROWS_LISTED} are named")
        return None
    numbers = {match[1]: int(match[2]) for match in counts if match is not None}
    return Changes(sha256=digest[1], rows=tuple(rows), **numbers)
