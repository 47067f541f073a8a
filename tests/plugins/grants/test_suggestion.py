"""The narrowest grant from requests of one shape: its rules, its uses and its time, and where there is none."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.grants.signed_history import AGENT, bounds, call, history, only, script, suggested, why_not
from threegate.core import limits
from threegate.plugins.grants.constraint import Constraint, kind_of
from threegate.plugins.grants.narrow_rule import NothingNarrowError, apart, narrow_rule
from threegate.plugins.grants.suggestion import NotSuggested, count_waiting, suggest
from threegate.plugins.grants.suggestion_bounds import why_wide
from threegate.plugins.tools.action import ServerState


def test_few_values_are_a_list_many_numbers_a_range_and_many_paths_a_folder() -> None:
    jobs = [
        call({"repo": f"acme/r{n % 4}", "number": n, "path": f"/srv/notes/2026/{n}.md", "rate": n / 4, "deep": True})
        for n in range(12)
    ]
    found = suggested(history(jobs))
    assert [str(item) for item in found.widened] == [
        "arguments.number is from 0 to 11",
        "arguments.path is the path /srv/notes/2026 or below it",
        "arguments.rate is from 0 to 2.75",
        'arguments.repo is one of ["acme/r0", "acme/r1", "acme/r2", "acme/r3"]',
    ]
    assert all(found.covers(AGENT, job) for job in jobs)
    assert shlex.split(shlex.join(found.words)) == found.words and found.words[3] == "TR-11"
    other = call({"repo": "acme/r0", "number": 5, "path": "/srv/notes/2026/0.md", "rate": 0.5, "deep": False})
    assert not found.covers(AGENT, other), "true and false are never open"
    assert found.worst.startswith(
        'arguments.number is 11, arguments.path is "/srv/notes/2026/.git/hooks/pre-commit", arguments.rate is 2.75, '
    )
    assert len(found.near) == limits.NEAR_CALLS


def test_a_value_that_is_seen_once_stays_the_same_and_needs_no_rule() -> None:
    found = suggested(history([call({"repo": "acme/site"})] * 3))
    assert found.rules == () and found.worst == ""
    assert found.words == ["threegate", "grant", "new", "TR-2", "--max-uses", "3", "--expires", "2d"]
    assert len(found.near) == 3 and '"more":"x"' in found.near[0]


def test_the_values_of_code() -> None:
    jobs = [script({"n": n, "to": ["a", "b"][n % 2], "deep": {"in": [1, n]}}) for n in range(6)]
    found = suggested(history(jobs))
    assert found.rules == ("vars.deep.in.1 gte 0 lte 5", "vars.n gte 0 lte 5", 'vars.to one_of ["a", "b"]')
    assert found.near == ("vars.deep.in.1 is 6", "vars.n is 6", 'vars.to is "c"')
    assert not found.covers(AGENT, script({"n": 1, "to": "a", "deep": {"in": [1, 1]}}, code="print(n + 1)\n"))


def test_uses_and_time_are_those_of_the_past() -> None:
    jobs = [call({"number": n}) for n in range(8)]
    for hours, uses, expires in ((0.01, 8, "1h"), (2, 8, "14h"), (24, 8, "7d"), (24 * 10, 4, "30d")):
        found = suggested(history(jobs, hours=hours))
        assert (found.max_uses, found.expires) == (uses, expires), hours
    old = history(jobs, hours=24)
    late = bounds().now.replace(year=2027)
    assert "it ran last on 2026-11-28" in why_not(old, now=late)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"quorum": lambda job: 2}, "more than one operator"),
        ({"why_over": lambda owner: "its agent run has ended"}, "its agent run has ended"),
    ],
)
def test_where_a_grant_would_be_of_no_use(more: dict[str, object], why: str) -> None:
    assert why in why_not(history([call({"n": 1})] * 3), **more)


def test_what_no_grant_may_cover_says_why() -> None:
    network = script({"n": 1})
    assert "never covers network" in why_not(history([replace(network, network=("a.example:443",))] * 3))
    stateful = [call({"n": 1}, state=ServerState()) for _ in range(3)]
    assert "keeps state" in why_not(history(stateful))
    writes = [replace(call({"n": 1}), effective_risk="high")] * 3
    assert "no contract says of it side_effect: read" in why_not(history(writes))
    assert suggested(history(writes), allow_write=True).rules == ()


def test_fewer_requests_than_three_are_no_reason_for_a_grant() -> None:
    assert suggest(history([call({"n": 1})] * (limits.SUGGESTION_LEAST - 1)), bounds()) == []


def test_more_parts_than_a_grant_has() -> None:
    jobs = [call({f"p{part}": n for part in range(limits.GRANT_PARTS + 1)}) for n in range(3)]
    assert "17 parts differ" in why_not(history(jobs))


def test_drafts_that_wait_are_counted_and_are_no_reason() -> None:
    found = suggested(history([call({"n": n}) for n in range(5)]))
    waiting = [(AGENT, call({"n": 3})), (AGENT, call({"n": 9})), (AGENT + 1, call({"n": 3}))]
    assert count_waiting(found, waiting) == 1


def test_the_shapes_with_most_requests_come_first() -> None:
    past = [*history([call({"n": 1})] * 3), *history([call({"m": "x y"})] * 5)]
    assert [len(item.past) for item in suggest(past, bounds())] == [5, 3]


def test_folders_that_are_too_wide(tmp_path: Path) -> None:
    project = tmp_path / "site"
    (project / ".git").mkdir(parents=True)
    (project / "docs").mkdir()
    link = tmp_path / "link"
    os.symlink(project, link)
    wide = {str(project): "the root of a project"}
    for folder, what in (
        ("/srv", "a folder at the top"),
        ("/home/alice", "a home"),
        (str(project), "the root of a project"),
        (str(link), "the root of a project"),
        (str(tmp_path), "above the root of a project"),
        ("~/x", "not a folder in one plain spelling"),
    ):
        assert why_wide(folder, wide) == what, folder
    (project / ".git").rmdir()
    assert why_wide(str(project), wide) == "the root of a project"
    assert why_wide(str(project / "docs"), wide) is None and why_wide("docs", wide) is None


NUMBERS = st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=30)
WORDS = st.lists(st.from_regex(r"(/[a-z]{1,3}){1,4}|[a-z0-9/]{1,6}", fullmatch=True), min_size=1, max_size=30)


@given(NUMBERS | WORDS)
def test_a_rule_takes_what_was_seen_and_no_more_than_its_operator_says(values: list[int] | list[str]) -> None:
    try:
        rule = narrow_rule(values, sends_out=False, why_wide=lambda folder: why_wide(folder, {}))
    except NothingNarrowError:
        return
    kind = kind_of(values[0])
    assert kind is not None
    made = Constraint.read(rule, [kind])
    assert made.operators and all(map(made.takes, values))
    if len(set(values)) < limits.SUGGESTION_CHOICES:
        assert set(made.operators["one_of"]) == set(values)
    elif kind == "integer":
        assert (made.operators["gte"], made.operators["lte"]) == (min(values), max(values))
    else:
        folder = made.operators["under"]
        assert folder.strip("/") and all(str(value).startswith(folder) for value in values)


@given(NUMBERS, st.integers(0, 3))
def test_no_more_stand_apart_than_may_be_left_out(values: list[int], most: int) -> None:
    assert len(apart(values, most)) <= most


def test_a_shape_that_is_not_suggested_names_its_requests() -> None:
    found = only(history([call({"q": f"word{n}"}) for n in range(6)]))
    assert isinstance(found, NotSuggested) and len(found.past) == 6
    assert found.why == "calls hub.read: arguments.q: it had 6 different texts, which share no folder"
