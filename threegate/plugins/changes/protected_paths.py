"""The paths that agents neither see nor change: those of the setting `agents.protected`, and ThreeGate's own.

Invariant: judged by spelling alone, ignoring case and compatibility forms. A pattern without a slash is a name at any
depth, one with a slash a path below the project's root; whatever is below one is protected, too.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from threegate.plugins.changes.project_paths import folded, is_own


class ProtectedPaths:
    """What a list of patterns protects."""

    def __init__(self, patterns: Sequence[str]) -> None:
        plain = [pattern.rstrip("/") for pattern in patterns]
        self._names = _any_of([pattern for pattern in plain if "/" not in pattern])
        self._paths = _any_of([pattern for pattern in plain if "/" in pattern])

    def has(self, path: str) -> bool:
        """Whether a path is protected, by itself or by a folder above it."""
        parts = path.split("/")
        if is_own(tuple(parts)):
            return True
        if self._names is None and self._paths is None:
            return False
        names = [folded(part) for part in parts]
        if self._names is not None and any(map(self._names.fullmatch, names)):
            return True
        above = ("/".join(names[:depth]) for depth in range(2, len(names) + 1))
        return self._paths is not None and any(map(self._paths.fullmatch, above))


def _any_of(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """One expression for all patterns; None for none."""
    if not patterns:
        return None
    spelled = ("/".join(folded(part) for part in pattern.split("/")) for pattern in patterns)
    return re.compile("|".join(map(fnmatch.translate, spelled)))
