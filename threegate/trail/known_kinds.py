"""Which kinds of events are known here, and what an event of any other one is read as.

Invariant: a kind of the core is its own whatever plugins give, and a kind that nobody gives is read, hashed and counted
like any other, has the effects of its reserved keys (`trail.reserved`), and is never written.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from threegate.core.plugins import Place
from threegate.trail.payloads import PAYLOADS
from threegate.trail.payloads.payload import History, Payload, frozen_fields

KINDS: Final[Place[tuple[type[Payload], ...]]] = Place("kinds")
"""The classes of a plugin's kinds. They stay when it is turned off, since the trail has its events already."""

KIND: Final = re.compile(r"[a-z][a-z0-9_]{0,39}(\.[a-z][a-z0-9_]{0,39})?", re.ASCII).fullmatch
"""What the `type` of an event may be, known or not; new kinds of plugins are named ``plugin.kind``."""


NOT_KNOWN: Final = "a kind of event that is not known here"
"""What all that people read about such an event."""


@frozen_fields
class Opaque(Payload):
    """An event of a kind that nothing here knows: its plugin was deleted, or a later version wrote it."""

    type: str
    """The event's."""

    def sentence(self) -> str:
        return f"recorded {self.type}, {NOT_KNOWN}"

    def change(self, history: History, event: object) -> None:
        history.unknown = history.unknown or self.type


@cache
def plugin_kinds() -> dict[str, type[Payload]]:
    """The class of each kind that a plugin gives, by the event's `type`."""
    return {cls.kind: cls for classes in KINDS.given().values() for cls in classes if cls.kind not in PAYLOADS}


def class_of(kind: str) -> type[Payload] | None:
    """The class of a kind; None for one that is not known. A plugin is asked only for what the core does not know."""
    return PAYLOADS.get(kind) or plugin_kinds().get(kind)


def known_kinds() -> dict[str, type[Payload]]:
    """All of them."""
    return {**PAYLOADS, **plugin_kinds()}
