"""Whether a command can run in bubblewrap here: what files say of it, for a screen that cannot wait.

Invariant: nothing heavy is imported and nothing is started. Whether a jail can really be made is tried by its runner.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from threegate.core.errors import Unavailable
from threegate.core.settings import EraSettings
from threegate.runners.backend import DoctorLine
from threegate.runners.era.platforms import PROGRAM
from threegate.runners.era.root_identity import Root, identify

FORBIDDEN: Final = (
    ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
    ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
)
"""Files below /proc/sys, what they say where an ordinary account gets no user namespace, and what changes that."""


def bubblewrap_line(settings: EraSettings) -> DoctorLine:
    """Whether it is installed, user namespaces are allowed, and the root is known."""
    if not os.access(PROGRAM, os.X_OK):
        return DoctorLine("bubblewrap", "warning", f"{PROGRAM} is not installed", "apt-get install bubblewrap")
    for name, forbidden, fix in FORBIDDEN:
        if os.geteuid() != 0 and _says(Path("/proc/sys", name)) == forbidden:
            seen = f"user namespaces are forbidden here ({name.replace('/', '.')} is {forbidden})"
            return DoctorLine("bubblewrap", "warning", seen, fix)
    try:
        root = identify(settings)
    except Unavailable as error:
        return DoctorLine("bubblewrap", "warning", str(error))
    return DoctorLine("bubblewrap", "ok", f"runs commands on {place_of(root)} ({short_digest(root.digest)})")


def place_of(root: Root) -> str:
    """Which root it is, in words."""
    return "this machine's packages" if root.path is None else f"the unpacked root {root.path.parent}"


def short_digest(digest: str) -> str:
    """As much of the digest of a root or image as a line of text has place for."""
    kind, _, value = digest.rpartition(":")
    return f"{kind}:{value[:12]}…"


def _says(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""  # this kernel has no such switch
