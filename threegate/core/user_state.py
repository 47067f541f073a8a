"""State of a workspace that is stored outside it, so that a restored or copied workspace cannot bring it
along.

Invariant: the stored head is replaced as a whole, by one writer at a time; `advance_head` never replaces it
with an earlier one.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import Unavailable


def config_home() -> Path:
    """The folder of the person's configurations (XDG_CONFIG_HOME)."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def state_home() -> Path:
    """The folder of what programs keep for the person (XDG_STATE_HOME)."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")


class UserState:
    """What is kept of a workspace outside of it: the user's state folder (docs/spec/7-trail-and-results.md)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key_file = folder / "workspace.key"
        """The workspace's Ed25519 private key (raw 32 bytes, hex)."""
        self.head_file = folder / "head.json"
        """JSON {id, path, epoch, seq, hash}."""
        self.index_file = folder / "index.sqlite"
        """What the first events of a long trail said (`trail.index_file`)."""

    @classmethod
    def of(cls, workspace_id: str) -> UserState:
        """The state folder of one workspace, below XDG_STATE_HOME (default ~/.local/state)."""
        return cls(state_home() / "threegate" / workspace_id)

    def read_head(self) -> dict[str, str | int] | None:
        """The kept head, or None when there is none. Raises Unavailable when it cannot be read."""
        try:
            value = json.loads(durable.read_regular(self.head_file, max_bytes=limits.USER_STATE_BYTES))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise Unavailable(f"{self.head_file}: cannot be read ({error})") from None
        if not isinstance(value, dict):
            raise Unavailable(f"{self.head_file}: is not a JSON object")
        return value

    def write_head(self, value: Mapping[str, str | int]) -> None:
        """Keep a head, durable, whatever was kept before. Raises OSError."""
        with self._head_lock():
            durable.overwrite(self.head_file, json.dumps(value, sort_keys=True).encode() + b"\n")

    def advance_head(self, value: Mapping[str, str | int]) -> None:
        """Keep a later head of the same trail, durable; needs no lock of the trail, for a head never goes back here.

        Raises Unavailable when what is kept is not an earlier head of this trail at this place, OSError.
        """
        with self._head_lock():
            kept = self.read_head() or {}
            if any(kept.get(name) != value[name] for name in ("id", "path", "epoch")):
                raise Unavailable(f"{self.head_file}: is the head of another trail or place now")
            before = kept.get("seq")
            if type(before) is not int or before < int(value["seq"]):
                durable.overwrite(self.head_file, json.dumps(value, sort_keys=True).encode() + b"\n")

    def sweep(self) -> None:
        """Take away temporary files that a crash left. Called under the trail's lock, which the other writers here
        hold. Raises OSError.
        """
        if not self.folder.is_dir():
            return
        with self._head_lock():
            for path in self.folder.iterdir():
                if durable.is_temporary(path.name):
                    durable.unlink(path)

    @contextmanager
    def _head_lock(self) -> Iterator[None]:
        """One writer of the head at a time, of all threads and processes."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.folder / "head.lock", flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
