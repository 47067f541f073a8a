"""Which call made which request, and whether its answer was delivered.

Invariant: a call that is repeated while its request is open, or before its answer reached the client, finds
that request; afterwards the same call makes a new one. For a run, this outlives the MCP server; the agent can
neither read nor write it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from threegate.core import canonical, durable, limits


@dataclass(frozen=True, slots=True)
class MadeRequest:
    """A request that a call made."""

    request_id: str
    file: str
    tool: str
    delivered: bool = False
    withdrawn: bool = False


class CallLedger:
    """The calls of one requester; stored in `folder`, or only in memory."""

    def __init__(self, folder: Path | None) -> None:
        """Read what an earlier server stored. Raises OSError."""
        self._folder = folder
        self._made: dict[str, MadeRequest] = {}
        if folder is None:
            return
        if not folder.is_dir():
            durable.make_folder(folder, 0o700)
        for path in sorted(folder.glob("*.json")):
            try:
                self._made[path.stem] = MadeRequest(**json.loads(durable.read_regular(path, max_bytes=4 * limits.KIB)))
            except (OSError, ValueError, TypeError):
                continue  # derived data: at worst, a repeated call makes a new request

    def find(self, digest: str) -> MadeRequest | None:
        """The last request of a call, if the same call has to find it."""
        made = self._made.get(digest)
        return None if made is None or made.delivered or made.withdrawn else made

    def own(self, request_id: str) -> tuple[str, MadeRequest] | None:
        """The call of a request."""
        found = ((digest, made) for digest, made in self._made.items() if made.request_id == request_id)
        return next(found, None)

    def all(self) -> list[MadeRequest]:
        """Every request, in the order of their files."""
        return sorted(self._made.values(), key=lambda made: made.file)

    def put(self, digest: str, made: MadeRequest) -> None:
        """Store the call. An earlier one with the same digest is kept under its own request. Raises OSError."""
        earlier = self._made.get(digest)
        if earlier is not None and earlier.request_id != made.request_id:
            self._write(canonical.sha256_hex(earlier.request_id.encode()), earlier)
        self._write(digest, made)

    def delivered(self, digest: str) -> None:
        """The answer reached the client. Raises OSError."""
        made = self._made.get(digest)
        if made is not None and not made.delivered:
            self._write(digest, replace(made, delivered=True))

    def _write(self, digest: str, made: MadeRequest) -> None:
        if self._folder is not None:
            durable.overwrite(self._folder / f"{digest}.json", json.dumps(asdict(made)).encode())
        self._made[digest] = made
