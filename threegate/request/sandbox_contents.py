"""What is known of a sandbox before a run: its programs, the modules of its Python, and that Python's version.

Invariant: a value, made from foreign lists by `contents_of`, which keeps only names that can be names. What is not
known (None, 0) refuses nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from threegate.core import limits

PATH_FOLDERS: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""The PATH of a run (`request.job.ERA_ENVIRONMENT`)."""
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_+.@:~\[-]{1,100}")
_MODULE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_VERSION: Final = re.compile(r"3\.([0-9]{1,2})(?:\.[0-9]{1,3})?")
_NEAR: Final = 3


@dataclass(frozen=True, slots=True)
class Contents:
    """What a run finds. None: not known."""

    programs: frozenset[str] | None = None
    """Names of the executables on the PATH."""
    modules: frozenset[str] | None = None
    """Names of the modules that `python3` imports, the standard library included."""
    python: str = ""
    """Version of `python3` as in ``3.11`` or ``3.11.2``; empty: not known, or it has none."""
    where: str = "the sandbox"
    """What has all of this, in a message's words."""

    @property
    def minor(self) -> int | None:
        """11 for Python 3.11."""
        match = _VERSION.fullmatch(self.python)
        return int(match[1]) if match else None

    def has_program(self, program: str) -> bool | None:
        """Whether a run finds `program` (the first word of an argv); None if that is not known."""
        folder, _, name = program.rpartition("/")
        if folder and folder not in PATH_FOLDERS:
            # A file in /in is the request's own; the list does not cover other folders.
            return True if folder == "/in" or folder.startswith("/in/") else None
        return None if self.programs is None else name in self.programs


NOTHING_KNOWN: Final = Contents()


def contents_of(programs: Iterable[str], modules: Iterable[str], python: str, where: str) -> Contents:
    """From lists that others wrote: names that are none are left out, and an empty list is not known."""
    return Contents(
        _names(programs, _PROGRAM),
        _names(modules, _MODULE),
        python if _VERSION.fullmatch(python) else "",
        where,
    )


def _names(names: Iterable[str], kind: re.Pattern[str]) -> frozenset[str] | None:
    known = frozenset(name for name in islice(names, limits.SANDBOX_NAMES) if kind.fullmatch(name))
    return known or None


def near(name: str, names: Collection[str]) -> list[str]:
    """The few names that are most like `name`, the most similar first."""
    return difflib.get_close_matches(name[: limits.SANDBOX_NAME_CHARS], names, n=_NEAR, cutoff=0.7)
