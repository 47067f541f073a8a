"""Programs of this machine that work on projects, wherever the caller's PATH leads."""

from __future__ import annotations

import os
import shutil
from typing import Final

PROGRAMS: Final = "/usr/local/bin:/usr/bin:/bin"
"""Where the jail has programs."""


def find_program(name: str) -> str | None:
    """A program that the jail has: one in `/usr/local/bin` may be a link to a folder that is not in the jail."""
    found = shutil.which(name, path=PROGRAMS)
    if found is None or os.path.realpath(found).startswith(("/usr/", "/bin/")):
        return found
    return shutil.which(name, path=PROGRAMS.partition(":")[2])
