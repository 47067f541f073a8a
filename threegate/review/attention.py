"""How soon a person should look at a draft: the order of lists, and of nothing else.

Invariant: pure. It is apart from effective risk and quorum: it raises and lowers neither, and nothing that decides
reads it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from threegate.request.backend import ATTENTIONS, Attention

if TYPE_CHECKING:
    from threegate.request.action import Action
    from threegate.request.exposure import Exposure
    from threegate.request.model import Request
    from threegate.trail.payloads import Uses

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
    inside: Attention | None = None
    """The class by what is in its inputs, where a list looks into them: a change set."""


def weigh(
    request: Request, action: Action, exposure: Exposure, uses: Uses, *, inside: Attention | None = None
) -> Weighed:
    """The facts of a request. `action` and `exposure` may be those of its Job; `inside` is its backend's class."""
    return Weighed(
        uses,
        opaque=exposure.opaque,
        reaches=bool(exposure.reach) and inside is None,  # what it does with what it reaches is in the inputs
        secrets=bool(exposure.secrets),
        gives=bool(request.inputs or action.variables),
        stands_out=request.unusual_program
        or request.data_sensitivity == "confidential"
        or any(level == "high" and holds for level, holds, _ in action.risks()),
        inside=inside,
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
    found: Attention = "look" if marks or weighed.opaque or weighed.reaches or weighed.stands_out else "rest"
    return min(found, weighed.inside or "rest", key=ATTENTIONS.index)
