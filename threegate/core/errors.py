"""The errors that people see, split by whose fault it is.

Each carries one line that says what is wrong, where, and what to do, and never a secret. The exit code
that a command ends with is decided here and nowhere else.
"""

from __future__ import annotations

import errno
import os
import traceback

EXIT_OK = 0
EXIT_REFUSED = 2
EXIT_FAILED = 3
EXIT_USAGE = 64


class ThreeGateError(Exception):
    """Base of all errors with a message for people. ``exit_code`` is what a command ends with."""

    exit_code = EXIT_FAILED


class InvalidInput(ThreeGateError):
    """The file that the command was asked about is invalid."""

    exit_code = EXIT_REFUSED


class Refused(ThreeGateError):
    """A gate said no. ``code`` is the stable reason code of the specs."""

    exit_code = EXIT_REFUSED

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Unavailable(ThreeGateError):
    """A backend, a program or the disk could not do it; nothing was changed."""


class DiskFull(Unavailable):
    """There is no space for it on the disk, or within the quota: it can be done as soon as there is."""


class TrailError(ThreeGateError):
    """The trail does not verify or could not be written: everything stops."""


class WrongUsage(ThreeGateError):
    """The command was used wrongly."""

    exit_code = EXIT_USAGE


class NoWorkspace(WrongUsage):
    """There is no workspace here."""


def is_disk_full(error: BaseException) -> bool:
    """Whether an error says that a file system has no bytes, names or quota left."""
    number = error.errno if isinstance(error, OSError) else None
    return isinstance(error, DiskFull) or number in (errno.ENOSPC, errno.EDQUOT)


def place_of(error: BaseException) -> str:
    """Class, file and line of an unexpected error, never its text: that may hold a value."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
