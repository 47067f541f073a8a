"""How soon a person should look at a draft: the order of lists, and of nothing else.

Invariant: pure. It is apart from effective risk and quorum: it raises and lowers neither, and nothing that decides
reads it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from threegate.request.action import Action
    from threegate.request.exposure import Exposure
    from threegate.request.model import Request
    from threegate.trail.payloads import Uses

Attention = Literal["look first", "look", "rest"]
ATTENTIONS: Final[tuple[Attention, ...]] = ("look first", "look", "rest")
"""In the order of a list. What could not be read is ``look``."""
MarkKind = Literal["requester", "host", "url", "program", "folder", "look-alike", "few", "unknown"]
"""What a mark of novelty is about. ``few``: a host that ran before, but seldom."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """What of a draft decides how soon a person should look, apart from what ran before."""

    uses: Uses
    opaque: bool
    reaches: bool
    secrets: bool
    gives: bool
    """Whether it has inputs or variables, which can get out if it reaches anything."""
    stands_out: bool
    """Its program is unusual, its data confidential, or what it does raises the risk to high."""


def weigh(request: Request, action: Action, exposure: Exposure, uses: Uses) -> Weighed:
    """The facts of a request. `action` and `exposure` may be those of its Job."""
    return Weighed(
        uses,
        opaque=exposure.opaque,
        reaches=bool(exposure.reach),
        secrets=bool(exposure.secrets),
        gives=bool(request.inputs or action.variables),
        stands_out=request.unusual_program
        or request.data_sensitivity == "confidential"
        or any(level == "high" and holds for level, holds, _ in action.risks()),
    )


def attention_of(weighed: Weighed, marks: Collection[MarkKind]) -> Attention:
    """The class, by the kinds of its marks of novelty. Where novelty is unknown, every host counts as new."""
    new_host = not {"host", "few"}.isdisjoint(marks) or ("unknown" in marks and bool(weighed.uses.hosts))
    if (
        "look-alike" in marks
        or (weighed.opaque and weighed.reaches)
        or (new_host and (weighed.gives or weighed.secrets))
        or (weighed.secrets and marks)
    ):
        return "look first"
    return "look" if marks or weighed.opaque or weighed.reaches or weighed.stands_out else "rest"
