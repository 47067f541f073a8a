"""Writes the commit that a wheel or sdist is built from into it, as threegate/_data/commit.

Without git (an sdist that is built again) the file that the sdist brought is kept.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called once for each target."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file to what is built, unless the tree has it already or this is an editable install."""
        root = Path(self.root)
        if version == "editable" or (root / "threegate" / "_data" / "commit").is_file():
            return
        commit = _commit(root)
        if commit is None:
            return
        self._folder = tempfile.TemporaryDirectory(prefix="threegate-build-")
        written = Path(self._folder.name) / "commit"
        written.write_text(f"{commit}\n", "ascii")
        build_data["force_include"][str(written)] = "threegate/_data/commit"


def _commit(root: Path) -> str | None:
    if not (root / ".git").exists():
        return None
    words = ["git", "-c", f"safe.directory={root}", "-C", str(root), "rev-parse", "HEAD"]
    try:
        answer = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = answer.stdout.strip()
    return found if re.fullmatch(r"[0-9a-f]{40}", found) else None
