"""The budget is never oversubscribed, and nothing starves."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine_fixtures import era_job, monty_job
from threegate.core.settings import RunnersSettings
from threegate.runners.machine import Budget, machine_memory_mb, need_of


def jobs():
    return st.one_of(
        st.builds(lambda memory: monty_job("1", memory_mb=memory), st.integers(8, 600)),
        st.builds(
            lambda memory, cpu: era_job("true", memory_mb=memory, cpu=cpu),
            st.integers(8, 600),
            st.sampled_from(["0.5", "1", "2", "3"]),
        ),
    )


@settings(max_examples=150)
@given(st.lists(st.tuples(jobs(), st.booleans()), max_size=30), st.integers(1, 3), st.integers(1, 2))
def test_never_oversubscribed(steps, monty: int, era: int) -> None:
    budget = Budget(1000, 3, {"monty": monty, "ERA": era})
    held = []
    for job, release in steps:
        if release and held:
            held.pop(0)[1].release()
        lease = budget.try_take(job)
        if lease is not None:
            held.append((job, lease))
        assert sum(need_of(job).memory_mb for job, _ in held) <= 1000
        assert sum((need_of(job).cpus for job, _ in held), Decimal(0)) <= 3
        assert sum(job.backend == "monty" for job, _ in held) <= monty
        assert sum(job.backend == "ERA" for job, _ in held) <= era
    for _, lease in held:
        lease.release()
        lease.release()
    assert budget.free() == (1000, Decimal(3))


def test_an_old_large_job_is_not_overtaken_for_ever() -> None:
    budget = Budget(1000, 8, {"monty": 8, "ERA": 2})
    small, large = monty_job("1", memory_mb=400), era_job("true", memory_mb=900)
    running = [budget.try_take(small), budget.try_take(small)]
    for _ in range(5):
        turn = budget.round()
        assert turn.try_take(large) is None
        assert turn.try_take(monty_job("1", memory_mb=64)) is None, "a younger one would have kept the old one waiting"
    for lease in running:
        assert lease is not None
        lease.release()
    assert budget.round().try_take(large) is not None


def test_a_full_row_of_one_backend_does_not_hold_up_the_other() -> None:
    budget = Budget(4000, 8, {"monty": 1, "ERA": 1})
    first = budget.try_take(era_job("true"))
    turn = budget.round()
    assert first is not None
    assert turn.try_take(era_job("true")) is None
    assert turn.try_take(monty_job("1")) is not None
    assert turn.try_take(monty_job("1")) is None


def test_what_can_never_fit_is_said_and_holds_up_nobody() -> None:
    budget = Budget(500, 1, {"monty": 2, "ERA": 1})
    assert "memory_budget_mb" in str(budget.never(monty_job("1", memory_mb=600)))
    assert "cpu_budget" in str(budget.never(era_job("true", cpu="2")))
    assert budget.never(monty_job("1")) is None
    turn = budget.round()
    assert turn.try_take(monty_job("1", memory_mb=600)) is None
    assert turn.try_take(monty_job("1")) is not None


def test_the_settings_default_to_the_machine() -> None:
    budget = Budget.of(RunnersSettings())
    assert budget.memory_mb == machine_memory_mb() * 3 // 4
    with budget.try_take(monty_job("1")) as lease:  # type: ignore[union-attr]
        assert lease is not None and budget.free()[0] < budget.memory_mb
    assert budget.free()[0] == budget.memory_mb


def test_a_round_tells_whose_turn_it_may_still_be() -> None:
    budget = Budget(1000, 4, {"monty": 1, "ERA": 1})
    turn = budget.round()
    assert turn.room() == {"monty", "ERA", None}
    first = turn.try_take(monty_job("1", memory_mb=64))
    assert first is not None and turn.room() == {"ERA", None}
    assert turn.try_take(era_job("true", memory_mb=960)) is None
    assert turn.room() == {None}
    first.release()
    assert budget.round().room() == {"monty", "ERA", None}
