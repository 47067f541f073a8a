"""Events that move the sessions of the contract gate."""

from __future__ import annotations

from threegate.trail.payloads.payload import Fields, Payload, SignedAct, because, frozen_fields, named


@frozen_fields
class ContractMove(Fields):
    """An event's data about the call of its request: names and digests, never a value."""

    session: str | None = None
    requester: str | None = None
    tool: str | None = None
    loop: str | None = None
    """Key of the call in the loop window, hexadecimal."""
    would_block: str | None = None
    """Why contracts on trial would have blocked it."""
    status: str | None = None
    """What the end means under the contract."""
    codes: tuple[str, ...] | None = None
    ends: tuple[str, ...] | None = None
    """Running requests that end with their parent's session."""


@frozen_fields
class SessionOpened(Payload):
    """A session was opened."""

    kind = "session_opened"
    nulls = {"workflow": ("role", "parent")}

    session: str | None
    requester: str | None = None
    workflow: str | None = None
    role: str | None = None
    parent: str | None = None

    def moves_sessions(self) -> bool:
        return True

    def sentence(self) -> str:
        role = f" as {self.role}" if self.role else ""
        workflow = f" in workflow {self.workflow}" if self.workflow else ""
        return f"opened the session{named(self.session)}{role}{workflow}"


@frozen_fields
class SessionKilled(SignedAct):
    """A session, a session with its descendants, or a workflow was ended; signed for a workflow."""

    kind = "session_killed"

    scope: str | None
    """``session``, ``subtree``, ``workflow``; ``close``: a session was ended in good order."""
    name: str | None
    sessions: tuple[str, ...] | None = None
    """What was ended with it."""
    missed: tuple[str, ...] | None = None
    """Lower bounds that a closed session did not reach."""

    def moves_sessions(self) -> bool:
        return True

    def sentence(self) -> str:
        if self.scope == "close":
            return f"closed the session{named(self.name)}{because(', '.join(self.missed or ()))}"
        return f"killed the {self.scope or 'session'}{named(self.name)}"


@frozen_fields
class ContractCheckpointAnswered(SignedAct):
    """An operator answered what a contract asks of a person."""

    kind = "checkpoint_answered"

    call_sha256: str | None
    """Digest of the call that the answer is about."""
    approve: bool
    checkpoints: tuple[str, ...] | None = None
    """Names of the contract checkpoints."""

    def moves_sessions(self) -> bool:
        return True

    def sentence(self) -> str:
        return f"answered {'yes' if self.approve else 'no'} to a contract{because(', '.join(self.checkpoints or ()))}"
