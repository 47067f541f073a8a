"""What kinds of events plugins may give."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adversarial.trail.probe_plugin.kinds import Did
from tests.adversarial.trail.test_unknown_kinds import GONE, PROBE, List
from threegate.core import plugins
from threegate.core.plugins import PLUGINS
from threegate.trail import payloads
from threegate.trail.event import KINDS, known_kinds, plugin_kinds
from threegate.trail.payloads import PAYLOADS, Placed, Stopped


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Iterator[List]:
    """Makes the plugin one that is there, is deleted, or was never heard of."""

    def change(how: str) -> None:
        more = {"there": (PROBE,), "off": (PROBE,), "deleted": (GONE,), "never known": ()}[how]
        monkeypatch.setattr(plugins, "PLUGINS", (*PLUGINS, *more))
        plugin_kinds.cache_clear()

    change("there")
    yield change
    monkeypatch.undo()
    plugin_kinds.cache_clear()


def test_a_kind_of_a_plugin_places_claims_ends_and_frees_nothing(listed: List) -> None:
    """Only kinds of the core do; and no plugin's kind is one of the core or of another plugin."""
    given = [cls for plugin in PLUGINS if "kinds" in plugin.offers for cls in KINDS.of(plugin)]
    assert len({cls.kind for cls in given}) == len(given) and not {cls.kind for cls in given} & PAYLOADS.keys()
    assert not [cls for cls in given if issubclass(cls, Placed | Stopped | payloads.ApprovalAbandoned)]
    assert {cls.kind for cls in given} | PAYLOADS.keys() | {Did.kind} == known_kinds().keys()
