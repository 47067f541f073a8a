"""How a server differs from what an operator signed.

Invariant: nothing pinned is left out: two manifests without a difference have the same digest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from threegate.core.canonical import canonical_bytes
from threegate.plugins.tools.manifest import Manifest, PinnedTool


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. The texts are a server's own: show them as data."""

    what: str
    """`tool NAME`, `tool NAME: description`, `instructions`, `program PATH` and the like."""
    before: str | None
    """JSON; None if it is new."""
    after: str | None
    """JSON; None if it was removed."""


def differences(
    manifest: Manifest,
    *,
    initialize: Mapping[str, Any] | None = None,
    tools: Sequence[PinnedTool] | None = None,
    program: Mapping[str, str] | None = None,
) -> list[Difference]:
    """The differences in the given parts; empty if all are as pinned."""
    found: list[Difference] = []
    if initialize is not None:
        found += _of(manifest.initialize, initialize, "")
    if tools is not None:
        before = {tool.name: tool.to_data() for tool in manifest.tools}
        after = {tool.name: tool.to_data() for tool in tools}
        for name in dict.fromkeys((*before, *after)):
            if name in before and name in after:
                found += _of(before[name], after[name], f"tool {name}: ")
            else:
                found += _of(
                    {k: v for k, v in before.items() if k == name},
                    {k: v for k, v in after.items() if k == name},
                    "tool ",
                )
        if not found and list(before) != list(after):
            found.append(Difference("order of the tools", _text(list(before)), _text(list(after))))
    if program is not None:
        found += _of(manifest.program, program, "program ")
    return found


def _of(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str) -> list[Difference]:
    return [
        Difference(
            f"{prefix}{key}", _text(before[key]) if key in before else None, _text(after[key]) if key in after else None
        )
        for key in dict.fromkeys((*before, *after))
        if (key in before) != (key in after) or canonical_bytes(before[key]) != canonical_bytes(after[key])
    ]


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
