"""Which folders a jail needs to run a program.

Invariant: none of them is the home folder, the user's own workspace, or a folder that contains one of these.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.core.workspace import default_workspace

_SYSTEM: Final = Path("/usr")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def folder_of(real: Path) -> Path | None:
    """What must be bound for a program: `tree_of`. None: it is in /usr."""
    return None if _SYSTEM in real.parents else tree_of(real)


def tree_of(real: Path) -> Path:
    """What a program was installed with: its node_modules, the prefix with bin and lib, or nothing but its file."""
    home = Path.home().resolve()
    parts = real.parts
    if "node_modules" in parts:
        candidate = Path(*parts[: parts.index("node_modules") + 1])
    elif real.parent.name == "bin" and (real.parent.parent / "lib").is_dir():
        candidate = real.parent.parent
    else:
        return real
    return real if is_shared(candidate, home) else candidate


def is_shared(folder: Path, home: Path) -> bool:
    """Whether a folder has what no program needs: the home folder, the user's own workspace, or ~/.local with bin and
    lib, and with them everything else that the person installed.
    """
    own = default_workspace().resolve()
    return holds_home(folder, home) or folder in (home / ".local", own, *own.parents)


def holds_home(folder: Path, home: Path) -> bool:
    """Whether a folder is a home folder or contains it, as the root folder does."""
    return folder == home or folder in home.parents


class NoInterpreter(Unavailable):
    """What a script's first line names is not on this machine."""


@dataclass(frozen=True, slots=True)
class FirstLine:
    """The interpreter that a script's first line names."""

    program: Path
    """Where it was found; may be a link."""
    words: tuple[str, ...]
    """Its options."""
    variables: tuple[str, ...] = ()
    """NAME=VALUE, which `env` sets."""
    searched: str = ""
    """The name that `env` searches in PATH; empty if the line has a path."""


def first_line(program: Path) -> FirstLine | None:
    """The interpreter of a script; None: the file starts with no such line. Raises Unavailable."""
    try:
        with program.open("rb") as file:
            first = file.read(limits.AGENT_PROGRAM_HEAD_BYTES).split(b"\n", 1)[0]
    except OSError as error:
        raise Unavailable(f"{program}: cannot be read ({error.strerror})") from None
    words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    if not words:
        return None
    name, variables, options = words[0], [], words[1:]
    by_env = os.path.basename(name) == "env"
    if by_env:
        options = [word.removeprefix("-S") for word in options if word not in ("-S", "-i", "--split-string")]
        while options and (options[0].startswith("-") or _ASSIGNMENT.match(options[0])):
            variables.append(options.pop(0))
        if not options:
            return None
        name, *options = options
    beside = f"{program.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    place = shutil.which(name, path=beside)
    if place is None:
        raise NoInterpreter(f"{program}: needs the interpreter {name}, which is not installed; install {name}")
    set_by_env = tuple(word for word in variables if _ASSIGNMENT.match(word))
    return FirstLine(Path(place), tuple(options), set_by_env, name if by_env and "/" not in name else "")


def interpreter_of(program: Path) -> Path | None:
    """The interpreter in the first line, if it is outside /usr; links are resolved. Raises Unavailable."""
    line = first_line(program)
    real = None if line is None else line.program.resolve()
    return None if real is None or _SYSTEM in real.parents else real
