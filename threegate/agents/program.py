"""Where an agent's program is, and which folders the jail must have so that it runs.

Invariant: what is bound for a program is read-only, and is never the home folder or a folder that contains it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.agents.jail import Bound
from threegate.agents.profile import Profile
from threegate.core import limits
from threegate.core.errors import InvalidInput, Unavailable

_SYSTEM: Final = Path("/usr")


@dataclass(frozen=True, slots=True)
class Program:
    """A program as the jail starts it."""

    words: tuple[str, ...]
    """Its absolute path and what goes before the agent's own arguments."""
    sha256: str
    bound: tuple[Bound, ...]
    path: tuple[str, ...]
    """Folders for PATH, before those of the system."""


def find_program(profile: Profile, arguments: Sequence[str]) -> tuple[Program, tuple[str, ...]]:
    """The program of a profile and its arguments. Raises InvalidInput, Unavailable with the line that installs it."""
    if profile.program:
        name, rest = profile.program, tuple(arguments)
    elif arguments:
        name, rest = arguments[0], tuple(arguments[1:])
    else:
        raise InvalidInput(f"{profile.name}: no program; {profile.install}")
    place = shutil.which(name)
    if place is None:
        raise Unavailable(f"{name}: {profile.title} is not there; {_how(profile)}")
    real = Path(place).resolve()
    bound = dict.fromkeys((_folder_of(real),))
    path = dict.fromkeys((str(real.parent),))
    interpreter = _interpreter(real)
    if interpreter is not None:
        bound[_folder_of(interpreter)] = None
        path[str(interpreter.parent)] = None
    folders = [folder for folder in bound if folder is not None]
    return (
        Program(
            (str(real),),
            _digest(real),
            tuple(Bound(folder, str(folder)) for folder in folders),
            tuple(place for place in path if not place.startswith("/usr/")),
        ),
        rest,
    )


def _how(profile: Profile) -> str:
    return f"install it with: {profile.install}" if profile.program else profile.install


def _folder_of(real: Path) -> Path | None:
    """What has to be bound for a program: its node_modules, the prefix with bin and lib, or the file. None: it is in /usr."""
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
    inside = (
        candidate == home
        or candidate in home.parents
        or candidate == home / ".local"
        or candidate == Path("/")
    )
    return real if inside else candidate


def _interpreter(program: Path) -> Path | None:
    """The interpreter that the first line names, where it is outside of /usr."""
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
        raise Unavailable(f"{program}: needs {name}, which is not there; on Debian: apt-get install nodejs")
    real = Path(place).resolve()
    return None if _SYSTEM in real.parents else real


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
