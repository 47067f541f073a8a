"""Which ThreeGate this is: the version, and the commit that it was built from.

Invariant: `commit` never raises and starts no process; what cannot be known is "unknown".
"""

from __future__ import annotations

import re
from pathlib import Path

from threegate import __version__

PACKAGE = Path(__file__).resolve().parents[1]
"""The package's folder."""
_COMMIT = re.compile(r"[0-9a-f]{40}")

__all__ = ["__version__", "commit", "described", "shipped"]


def shipped(folder: str) -> Path:
    """A folder of the repository that the package needs: next to it in a checkout, inside it when installed."""
    installed = PACKAGE / "_data" / folder
    return installed if installed.is_dir() else PACKAGE.parent / folder


def commit() -> str:
    """Forty hex digits: written into the package by the build, or read from a checkout's .git."""
    try:
        built = PACKAGE / "_data" / "commit"
        text = built.read_text("ascii") if built.is_file() else _checked_out(PACKAGE.parent / ".git")
    except (OSError, ValueError):
        return "unknown"
    return text.strip() if _COMMIT.fullmatch(text.strip()) else "unknown"


def described() -> str:
    """``0.1.0 (commit 0123456789ab)``."""
    return f"{__version__} (commit {commit()[:12]})"


def _checked_out(place: Path) -> str:
    """What HEAD of a repository names. Raises OSError, ValueError."""
    if place.is_file():  # a worktree: `gitdir: PATH`
        place = (place.parent / place.read_text("utf-8").removeprefix("gitdir:").strip()).resolve()
    head = (place / "HEAD").read_text("utf-8").strip()
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    common = place / "commondir"
    folder = (place / common.read_text("utf-8").strip()).resolve() if common.is_file() else place
    for root in (place, folder):
        if (root / name).is_file():
            return (root / name).read_text("utf-8")
    for line in (folder / "packed-refs").read_text("utf-8").splitlines():
        if line.endswith(f" {name}"):
            return line.split(" ")[0]
    return ""
