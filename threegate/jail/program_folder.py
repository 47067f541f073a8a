"""Which folders a jail needs to run a program.

Invariant: none of them is the home folder, or a folder that contains it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from threegate.core import limits
from threegate.core.errors import Unavailable

_SYSTEM: Final = Path("/usr")


def folder_of(real: Path) -> Path | None:
    """What must be bound for a program: its node_modules, the prefix with bin and lib, or the file. None: it
    is in /usr.
    """
    if _SYSTEM in real.parents:
        return None
    home = Path.home().resolve()
    parts = real.parts
    if "node_modules" in parts:
        candidate = Path(*parts[: parts.index("node_modules") + 1])
    elif real.parent.name == "bin" and (real.parent.parent / "lib").is_dir():
        candidate = real.parent.parent
    else:
        return real
    inside = candidate == home or candidate in home.parents or candidate == home / ".local" or candidate == Path("/")
    return real if inside else candidate


def interpreter_of(program: Path) -> Path | None:
    """The interpreter in the first line, if it is outside /usr."""
    try:
        with program.open("rb") as file:
            first = file.read(limits.AGENT_PROGRAM_HEAD_BYTES).split(b"\n", 1)[0]
    except OSError as error:
        raise Unavailable(f"{program}: cannot be read ({error.strerror})") from None
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode("utf-8", "replace").split()
    if not words:
        return None
    name = words[-1] if os.path.basename(words[0]) == "env" else words[0]
    place = shutil.which(name)
    if place is None:
        raise Unavailable(f"{program}: needs {name}, which is not installed; on Debian: apt-get install nodejs")
    real = Path(place).resolve()
    return None if _SYSTEM in real.parents else real
