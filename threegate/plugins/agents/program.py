"""Where an agent's program is, and which folders the jail needs to run it.

Invariant: folders bound for a program are read-only, and are never the home folder or a folder that contains it.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from threegate.core.errors import InvalidInput, Unavailable
from threegate.plugins.agents.profile import Profile
from threegate.plugins.jail.jail import Bound
from threegate.plugins.jail.program_folder import folder_of, interpreter_of


@dataclass(frozen=True, slots=True)
class Program:
    """A program as the jail starts it."""

    words: tuple[str, ...]
    """Its absolute path and the arguments that precede the agent's own."""
    sha256: str
    bound: tuple[Bound, ...]
    path: tuple[str, ...]
    """Folders for PATH, before the system's."""


def find_program(profile: Profile, arguments: Sequence[str]) -> tuple[Program, tuple[str, ...]]:
    """The program of a profile, and its arguments. Raises InvalidInput, Unavailable with how to install it."""
    if profile.program:
        name, rest = profile.program, tuple(arguments)
    elif arguments:
        name, rest = arguments[0], tuple(arguments[1:])
    else:
        raise InvalidInput(f"{profile.name}: no program; {profile.install}")
    place = shutil.which(name)
    if place is None:
        raise Unavailable(f"{name}: {profile.title} is not installed; {_how(profile)}")
    real = Path(place).resolve()
    bound = dict.fromkeys((folder_of(real),))
    path = dict.fromkeys((str(real.parent),))
    interpreter = interpreter_of(real)
    if interpreter is not None:
        bound[folder_of(interpreter)] = None
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


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
