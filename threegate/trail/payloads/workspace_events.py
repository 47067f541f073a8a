"""Events of the workspace and of the trail itself."""

from __future__ import annotations

from collections.abc import Mapping

from threegate.trail.payloads.payload import Payload, SignedAct, because, frozen_fields, named, short


@frozen_fields
class WorkspaceCreated(Payload):
    """The first event of a trail; its `prev` is the workspace's id."""

    kind = "workspace_created"

    vkey: str | None
    """The workspace's public key, as a C2SP verifier key."""
    path: str | None = None

    def sentence(self) -> str:
        return f"made the workspace{f' at {self.path}' if self.path else ''}"


@frozen_fields
class WorkspaceAdopted(SignedAct):
    """An operator took a restored, copied or moved workspace over: a new epoch begins."""

    kind = "workspace_adopted"

    path: str | None = None
    seq: int | None = None
    """Number of the last event before."""
    head: str | None = None
    """Hash of the last event before."""
    problem: str | None = None
    """Why it had to be adopted."""
    epoch: int | None
    """The one that begins; approvals of earlier ones are void."""
    vkey: str | None = None
    """The public key from now on, when this machine had none."""

    def sentence(self) -> str:
        epoch = f" as epoch {self.epoch}" if self.epoch is not None else ""
        return f"adopted the workspace{epoch}{because(self.problem)}"


@frozen_fields
class TreeAnnounced(Payload):
    """The tree over the lines before."""

    size: int | None
    """Number of lines."""
    root: str | None
    """Root hash, RFC 6962."""


@frozen_fields
class TrailCheckpointSigned(TreeAnnounced):
    """A trail checkpoint was signed."""

    kind = "checkpoint"

    def sentence(self) -> str:
        return f"signed a trail checkpoint{f' at {self.size} events' if self.size is not None else ''}"


@frozen_fields
class Rotated(TreeAnnounced):
    """The last event of a file of the trail."""

    kind = "rotated"

    def sentence(self) -> str:
        return f"closed this file of the trail{f' at {self.size} events' if self.size is not None else ''}"


@frozen_fields
class SettingsChanged(Payload):
    """Settings are in force that were not before, or a command wrote some."""

    kind = "settings_changed"

    reason: str | None = None
    """Why they were read again, or which command wrote them."""
    changed: tuple[str, ...] | None = None
    """Names of what changed, the first ones."""
    count: int | None = None
    """How many there are."""
    policy_sha256: str | None = None
    """The policy as approvals name it: the same as before where only what a launch checks or a text shows changed."""
    before_sha256: str | None = None
    """The policy before."""
    contracts_sha256: str | None = None
    """Digest of the names and digests of the contracts that a daemon took up."""
    contracts: Mapping[str, str] | None = None
    """Path below contracts/ → digest, unless there are too many."""
    broker: str | None = None
    workers: tuple[str, ...] | None = None
    image: str | None = None
    egress_image: str | None = None

    def sentence(self) -> str:
        return f"the settings changed{because(self.reason, ', '.join(self.changed or ()))}"


@frozen_fields
class Pruned(Payload):
    """Something that nothing needs any more was removed."""

    kind = "pruned"

    what: str | None = None
    """``run`` (the event's request), ``agent run``, ``inputs``, ``snapshots`` or ``memory note``."""
    run: str | None = None
    """Id of the agent's run whose folder went."""
    removed: int | None = None
    """Number of files."""
    inputs: tuple[str, ...] | None = None
    """Digests of inputs."""
    snapshots: tuple[str, ...] | None = None
    """Names of files that drafts had."""
    note_sha256: str | None = None
    """Digest of the line that a removed memory note was."""
    files: Mapping[str, str] | None = None
    """Digest of the file of notes, without this one, by its name in memory/."""

    def sentence(self) -> str:
        if self.note_sha256 is not None:
            return f"removed the memory note {short(self.note_sha256)}"
        if self.run is not None:
            return f"removed the folder of the agent run{named(self.run)}"
        count = f"{self.removed} files" if self.removed is not None else "files"
        return f"removed {count} that nothing needs{f' ({self.what})' if self.what else ''}"
