"""The grants of a workspace: read, counted, found by id. This imports no gate.

Invariant: a file counts only under the name that its own bytes give it; uses are counted from the trail.
"""

from __future__ import annotations

from dataclasses import dataclass

from threegate.approval.ssh_wire import MalformedError
from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.workspace import Workspace
from threegate.plugins.grants.grant import Grant
from threegate.trail.trail import Trail


@dataclass(frozen=True, slots=True)
class Standing:
    """A grant and its state: `uses` is None if it was revoked or is not in the trail."""

    grant: Grant
    uses: int | None

    @property
    def live(self) -> bool:
        """Whether it can still be used, apart from its expiry."""
        return self.uses is not None and self.uses < self.grant.max_uses


def list_grants(workspace: Workspace, trail: Trail) -> list[Standing]:
    """All grants, with their uses. Raises InvalidInput for a file that is not a grant."""
    with trail.locked() as held:
        index = held.index
    return [Standing(grant, index.grant_uses(grant.id)) for grant in _read_all(workspace)]


def find_grant(workspace: Workspace, trail: Trail, which: str) -> Standing:
    """The one grant whose id starts with `which`. Raises InvalidInput."""
    found = [standing for standing in list_grants(workspace, trail) if which and standing.grant.id.startswith(which)]
    if len(found) != 1:
        raise InvalidInput(f"{which}: {'more than one' if found else 'no'} grant matches; see: threegate grant list")
    return found[0]


def _read_all(workspace: Workspace) -> list[Grant]:
    folder = workspace.grants
    if not folder.is_dir():
        return []
    grants = []
    for path in sorted(folder.glob("*.grant")):
        try:
            data = durable.read_regular(path, max_bytes=limits.SIGNATURE_FILE_BYTES)
        except OSError as error:
            raise Unavailable(f"{path}: cannot be read ({error.strerror or error})") from None
        grant = parse_grant(data, str(path))
        if path.name != f"{grant.id}.grant":
            raise InvalidInput(f"{path}: its content does not match its name; remove it")
        grants.append(grant)
    return grants


def parse_grant(data: bytes, where: str = "the grant") -> Grant:
    """The grant in these bytes. Raises InvalidInput, which says where they are from."""
    try:
        return Grant.parse(data)
    except MalformedError as error:
        raise InvalidInput(f"{where}: {error}") from None
