"""The operators that a worker trusts: its own files, or those that an operator signed for it; read for every job.

Invariant: signed files count only where the machine's owner said so (`--take-operators`), and only until its own files
are changed: what a person put there last wins. They are one file, replaced by one rename, with the number of their act,
so that a crash leaves the old ones or the new ones, and never an act that could be taken again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from threegate.approval.operators import Operators, load_operators
from threegate.core import canonical, durable, limits
from threegate.core.errors import Refused
from threegate.plugins.cluster.notes import operators_digest
from threegate.plugins.cluster.operators_act import check_operators, read_files, signed_files


def read_operators_file(path: Path) -> Operators:
    """The operators of this worker: FILE, and FILE.revoked and FILE.passkeys next to it. Errors are in `problem`."""
    files: list[bytes | None] = []
    for name in _names(path):
        try:
            files.append(durable.read_regular(name, max_bytes=limits.OPERATORS_FILE_BYTES))
        except FileNotFoundError:
            files.append(None)
        except OSError:
            files.append(b"unreadable\n")  # no such line is allowed, so nothing passes
    return load_operators(*files)


@dataclass(frozen=True, slots=True)
class WorkerOperators:
    """The operators of one worker."""

    path: Path
    """Its own operators file."""
    kept: Path
    """Where the signed ones are kept."""
    takes: bool = False
    """Whether the machine's owner lets operators change them from elsewhere."""

    def read(self) -> Operators:
        """Those that count now. Errors are in `problem`."""
        own = read_operators_file(self.path)
        if not self.takes:
            return own
        try:
            kept = self._kept()
            if kept is None or kept["over"] != operators_digest(own):
                return own
            return read_files(kept)[1]
        except (OSError, ValueError, KeyError, Refused):
            return Operators(b"", None, (), f"{self.kept} cannot be read; move it away to go on with {self.path}")

    def take(self, note: Mapping[str, Any], *, workspace_id: str, now: datetime) -> Operators:
        """Take signed files, of which the note verified the sender only. Raises Refused, Unavailable, OSError: then
        nothing has changed.
        """
        if not self.takes:
            raise Refused("operators_changed", "this worker takes no operators files (--take-operators)")
        signed, files = read_files(note)
        try:
            kept = self._kept()
            taken = (0, 0) if kept is None else (int(kept["epoch"]), int(kept["number"]))
        except (OSError, ValueError, TypeError):
            raise Refused("operators_changed", f"{self.kept} cannot be read; move it away") from None
        epoch, number = check_operators(
            signed, files, self.read(), taken, workspace_id=workspace_id, changed=last_change(self.path), now=now
        )
        over = operators_digest(read_operators_file(self.path))
        value = {**signed_files(signed, files), "epoch": epoch, "number": number, "over": over}
        durable.overwrite(self.kept, canonical.canonical_bytes(value) + b"\n", 0o600)
        return files

    def _kept(self) -> dict[str, Any] | None:
        """What was taken last, whatever it was taken over. Raises OSError, ValueError."""
        try:
            data = durable.read_regular(self.kept, max_bytes=limits.CLUSTER_NOTE_BYTES * 2)
        except FileNotFoundError:
            return None
        value = canonical.loads_strict(data.removesuffix(b"\n"), max_bytes=limits.CLUSTER_NOTE_BYTES * 2)
        if not isinstance(value, dict) or not {"epoch", "number", "over"} <= value.keys():
            raise ValueError("not what a worker keeps")
        return value


def last_change(path: Path) -> float:
    """When one of the files changed last, in seconds since 1970: for one that was copied with its times, when that was.

    Raises OSError.
    """
    times = [0.0]
    for name in _names(path):
        with suppress(FileNotFoundError):
            times.append(name.stat().st_ctime)
    return max(times)


def _names(path: Path) -> tuple[Path, Path, Path]:
    return path, path.with_name(path.name + ".revoked"), path.with_name(path.name + ".passkeys")
