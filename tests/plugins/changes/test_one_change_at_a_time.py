"""A project has one change at a time, whatever else there is room for."""

from __future__ import annotations

from dataclasses import replace

from tests.engine_fixtures import monty_job
from tests.plugins.changes.example_change import PROJECT
from threegate.plugins.changes.action import JobChange, ProjectPlace
from threegate.request.job import Job
from threegate.runners.machine import Budget


def test_a_project_has_one_change_at_a_time() -> None:
    budget = Budget(1000, 8, {"monty": 2, "apply": 3})
    one, other = change_of(1), change_of(2)
    turn = budget.round()
    first = turn.try_take(one)
    assert first is not None and budget.is_busy(one) and not budget.is_busy(other)
    assert turn.try_take(change_of(1)) is None
    assert turn.try_take(other) is not None and turn.try_take(monty_job("1")) is not None
    assert not budget.is_busy(monty_job("1"))
    first.release()
    first.release()
    assert not budget.is_busy(one) and budget.is_busy(other)
    assert budget.round().try_take(one) is not None


def change_of(inode: int) -> Job:
    """A job that changes the project with this inode."""
    change = JobChange(ProjectPlace("p", "/p", 1, inode, 1), "0" * 64, 1, 0, 0, 0)
    return replace(monty_job("1"), backend="apply", action=PROJECT.bound(change))
