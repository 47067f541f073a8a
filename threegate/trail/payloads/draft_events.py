"""Events of drafts and proposals, before any approval."""

from __future__ import annotations

from collections.abc import Mapping

from threegate.trail.payloads.payload import Placed, because, frozen_fields, named


@frozen_fields
class Observed(Placed):
    """Something in inbox/ that became no draft: unreadable, too much of it, or a proposal that was not drafted."""

    kind = "observed"
    nulls = {"verdict": ("tool", "risk")}

    reason: str | None = None
    """A code: ``unreadable``, ``too_many_events``, or why a proposal was not drafted."""
    what: str | None = None
    """What is wrong with an unreadable file."""
    suppressed: int | None = None
    """Number of events of this owner that were only counted."""
    tool: str | None = None
    verdict: str | None = None
    risk: str | None = None
    codes: tuple[str, ...] | None = None
    """What a proposal was blocked for."""

    def sentence(self) -> str:
        if self.suppressed is not None:
            return f"counted {self.suppressed} more events and left them out{because(self.reason)}"
        return f"saw{named(self.file) or ' something'}{because(self.reason, self.what)}"


@frozen_fields
class Validated(Placed):
    """A draft was read and got its verdict."""

    kind = "validated"

    sha256: str | None = None
    """Digest of the draft's bytes."""
    valid: bool
    """Whether nothing that was found is an error."""
    rules: tuple[str, ...]
    """Identifiers of the rules that found something."""
    from_: str | None = None
    """The folder that the draft is in."""

    def sentence(self) -> str:
        found = f"findings: {', '.join(self.rules)}" if self.rules else "nothing was found"
        return f"checked the draft{named(self.file)}: {'well-formed' if self.valid else 'not valid'}; {found}"


@frozen_fields
class Proposed(Placed):
    """A draft was made from a proposal."""

    kind = "proposed"
    nulls = {"verdict": ("tool", "risk")}

    tool: str | None = None
    verdict: str | None = None
    risk: str | None = None
    from_: str | None = None
    """The proposal's file name."""
    inputs: Mapping[str, str] | None = None
    """Name → digest of what the draft's input files are."""

    def sentence(self) -> str:
        return f"the proposal{named(self.from_)} became the draft{named(self.file)}"
