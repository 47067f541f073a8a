"""Kinds of events of projects and of undoing their changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from threegate.trail.payloads.payload import Payload, SignedAct, because, frozen_fields, named


@frozen_fields
class UndoStarted(SignedAct):
    """An operator reverted a change of a project. Until `undone`, its paths may be in the old or in the new state."""

    kind = "undo_started"
    slot = "applied"

    project: str | None = None
    """The project's real path."""
    originals_sha256: str | None = None
    """Digest of the change set that takes the change back."""
    token: str | None = None
    """Which undo of this request it is."""

    def sentence(self) -> str:
        return f"began to revert the change of {self.project or 'its project'}"


@frozen_fields
class Undone(Payload):
    """An undo finished: all of it was done, or nothing."""

    kind = "undone"
    slot = "applied"

    status: str | None = None
    """``succeeded``; with any other one the change stands."""
    message: str | None = None
    token: str | None = None
    """Which undo of this request it is."""

    def sentence(self) -> str:
        if self.status == "succeeded":
            return "reverted the change"
        return f"did not revert the change{because(self.status, self.message)}"


@frozen_fields
class ProjectsChanged(Payload):
    """What `projects.json` is from now on."""

    project: str | None
    """The name."""
    files: Mapping[str, str] | None = None
    """Digest of `projects.json`, by its path."""


@frozen_fields
class ProjectAdded(ProjectsChanged):
    """A folder may be changed by requests that a person approves."""

    kind = "project_added"

    path: str | None = None
    """Its real path."""
    uid: int | None = None
    """Its owner."""
    deliver: str | None = None
    """What approved changes become: ``tree`` (files) or ``branch`` (a commit on a new branch)."""

    def sentence(self) -> str:
        return f"registered the project{named(self.project)}{because(self.path)}"


@frozen_fields
class ProjectRemoved(ProjectsChanged):
    """A project was taken out of the list."""

    kind = "project_removed"

    def sentence(self) -> str:
        return f"removed the project{named(self.project)} from the list"


KINDS: Final = (UndoStarted, Undone, ProjectAdded, ProjectRemoved)
