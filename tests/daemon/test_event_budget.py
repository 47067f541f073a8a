"""Nobody fills the trail by dropping files: events are bounded for each owner and minute, and the rest is counted."""

import pytest

from threegate.core import limits
from threegate.daemon import event_budget
from threegate.daemon.event_budget import EventBudget


def test_events_are_bounded_and_what_is_left_out_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 600.0
    monkeypatch.setattr(event_budget.time, "monotonic", lambda: now)
    budget = EventBudget()
    allowed = sum(budget.take(1000) for _ in range(limits.TRAIL_EVENTS_PER_OWNER_MINUTE + 50))
    assert allowed == limits.TRAIL_EVENTS_PER_OWNER_MINUTE
    assert budget.take(1001), "another owner has a budget of its own"
    assert budget.suppressed() == {}, "the minute is not over"
    now += 61
    assert budget.suppressed() == {1000: 50}
    assert budget.suppressed() == {}
    assert budget.take(1000)
