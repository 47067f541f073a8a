"""A request that waits for another one's end is looked at again when that comes, also when both answers come at
once.
"""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from tests.acts.bench_workspace import Bench
from tests.launch.launching import CountingRunner
from tests.launch.test_status_file import dispatcher_of
from threegate.daemon import dispatcher as dispatching
from threegate.launch.approved_file import Ended, Waiting


def test_what_was_judged_before_an_end_is_looked_at_again_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first was told to wait for the second one's place, and its answer came after the second had ended."""
    answers: dict[str, Future[Ended | Waiting]] = {}
    asked: list[str] = []

    def submit(work: object, context: object, approved: object, *more: object) -> Future[Ended | Waiting]:
        name = approved.request_id  # type: ignore[attr-defined]
        asked.append(name)
        return answers.setdefault(f"{name}-{asked.count(name)}", Future())

    paths = [bench.approve(bench.draft(name, slug=name)).path for name in ("req-1", "req-2")]
    dispatcher = dispatcher_of(bench, CountingRunner())
    dispatcher.threads = 2
    dispatcher.budget = dispatching.Budget(1024, 2, {"monty": 2, "ERA": 2})
    monkeypatch.setattr(dispatcher._pool, "submit", submit)
    dispatcher.schedule()
    assert sorted(asked) == ["req-1", "req-2"]
    answers["req-2-1"].set_result(Ended("finished", "succeeded", paths[1]))
    paths[1].unlink()
    dispatcher.schedule()
    answers["req-1-1"].set_result(Waiting("session_limit_exceeded", "the session is full"))
    dispatcher.schedule()
    assert asked.count("req-1") == 2, "it waits no second for what has ended already"
    answers["req-1-2"].set_result(Waiting("session_limit_exceeded", "the session is full"))
    dispatcher.schedule()
    assert asked.count("req-1") == 2, "and is not asked again and again while nothing ends"
