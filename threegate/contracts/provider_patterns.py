"""The spelling of provider patterns: `field=value`, `field` or a model name, joined by ` + `."""

from __future__ import annotations

import re

_TERM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@-]*(=[^\s+]+)?")


def pattern_ok(pattern: str) -> bool:
    """Whether a provider pattern is one."""
    return all(_TERM.fullmatch(term.strip()) for term in pattern.split(" + "))
