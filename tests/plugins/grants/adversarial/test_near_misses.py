"""A week of drafts from a recipe, with near misses: what is almost as an operator allowed it is decided on by an
operator.
"""

from __future__ import annotations

import pytest

from bench.week.__main__ import AIM_DECISIONS, AIM_MINUTES, words
from bench.week.change_sets import change_sets
from bench.week.week import Draft, drafts_of, near_misses, read_recipe, replay
from threegate.review.group_shape import shape_of

RECIPE = read_recipe()
SAMPLED = 4
"""Every fourth near miss is tried in each test run, all of them in the long form."""


@pytest.fixture(scope="module")
def week() -> list[Draft]:
    return drafts_of(RECIPE)


def test_the_week_takes_few_decisions(week: list[Draft]) -> None:
    done = replay(RECIPE, week, shape_of)
    assert len(week) == 200 and len(near_misses(RECIPE, week)) == 40
    assert len(done.decisions) <= AIM_DECISIONS
    assert sum(map(words, done.decisions)) <= AIM_MINUTES * RECIPE["words_a_minute"]
    decided = [draft for decision in done.decisions if decision.what != "grant" for draft in decision.drafts]
    assert sorted(draft.request.request_id for draft in (*decided, *done.granted)) == sorted(
        draft.request.request_id for draft in week
    )


def covered(week: list[Draft], step: int) -> list[str]:
    misses = near_misses(RECIPE, week)[::step]
    return [miss.near for miss in misses if replay(RECIPE, [*week, miss], shape_of).covered_near]


def test_no_near_miss_is_covered(week: list[Draft]) -> None:
    assert covered(week, SAMPLED) == []


@pytest.mark.soak
def test_none_of_all_near_misses_is_covered(week: list[Draft]) -> None:
    assert covered(week, 1) == []


def test_an_agents_change_sets_are_decided_one_by_one() -> None:
    """A few of those of the week: each is on the screen with its paths, and none can be covered."""
    asked = {**RECIPE["changes"], "days": [0], "each_day": 3, "planted": ["check", "network"], "of": ["scripts"]}
    read = change_sets({"changes": asked})
    assert [one.planted for one in read] == ["check", "network", ""]
    assert [one.marked for one in read] == [False, True, False]
    assert all(one.words > 100 and one.paths > 1 and not one.covered for one in read)
