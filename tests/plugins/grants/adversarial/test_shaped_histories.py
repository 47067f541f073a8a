"""Twenty calls shaped to widen the grant that is suggested from them: each was signed and succeeded, and what comes of
them covers no call that its shaper wanted, or is no suggestion.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import pytest

from tests.plugins.grants.signed_history import AGENT, bounds, call, history, script, suggested, why_not
from threegate.plugins.grants.suggestion import Suggestion, suggest

TWENTY = range(20)
STEPS = [f"/srv/{'/'.join(['a', 'b', 'c', 'd', 'e', 'f'][: 6 - n // 4])}/{n}.md" for n in TWENTY]
"""Each four are in the folder above."""

REFUSED: dict[str, tuple[Sequence[Any], str]] = {
    "a path goes up step by step to the top": ([*STEPS[:17], "/srv/x", "/srv/y", "/srv/z"], "folder at the top"),
    "a path goes up to the root": ([*STEPS[:17], "/x", "/y/z", "/etc/passwd"], "share no folder but /, which is"),
    "a path goes up to a home": ([f"/var/lib/agent/{n % 4}{'/x' * (n % 5)}/{n}" for n in TWENTY], "is a home"),
    "a path goes up to any home": ([f"/home/alice/{n}/{n}" for n in TWENTY], "is a home"),
    "a path goes up to a project": ([f"/srv/site/{n}/x" for n in TWENTY], "is the root of a project"),
    "a path goes up above a project": ([f"/var/lib/{n}/x" for n in TWENTY], "is above a home"),
    "a relative path goes up to where it starts": ([f"d{n}/x" for n in TWENTY], "share no folder"),
    "each path has ..": ([f"/srv/notes/../{n}/x" for n in TWENTY], "a text that no rule takes"),
    "each path has .. in full width": ([f"/srv/notes/\uff0e\uff0e/{n}" for n in TWENTY], "a text that no rule takes"),
    "each path has a look-alike of a slash": ([f"/srv/a\u2215{n}/{n}" for n in TWENTY], "letters beyond ASCII"),
    "a number doubles": ([2**n for n in TWENTY], "too far from each other"),
    "a number grows tenfold": ([10**n for n in range(15)] + [1] * 5, "too far from each other"),
    "a number is a range of a few, far from each other": (
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10**6, 10**7, 10**8, 10**9], "too far from each other"
    ),
    "hosts, each another": ([f"h{n}.example.com" for n in TWENTY], "share no folder"),
    "hosts, each a level further": ([f"{'a.' * n}example.com" for n in TWENTY], "share no folder"),
    "addresses": ([f"https://example.com/{n}" for n in TWENTY], "a text that no rule takes"),
    "a host and its capitals": (["api.example.com"] * 10 + ["API.example.com"] * 10, "upper and lower case"),
    "a host and its look-alike": (["api.example.com"] * 10 + ["\u0430pi.example.com"] * 10, "letters beyond ASCII"),
    "a host and its look-alike in full width": (["acme"] * 10 + ["\uff41cme"] * 10, "letters beyond ASCII"),
    "an option": (["acme"] * 10 + ["--force"] * 10, "a text that no rule takes"),
    "rules as values": (["gte 1 lte 9"] * 10 + ["regex .*"] * 10, "a text that no rule takes"),
    "free texts": ([f"word-{n}" for n in TWENTY], "share no folder"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_narrow_is_not_suggested(name: str) -> None:
    values, why = REFUSED[name]
    assert why in why_not(history([call({"x": value}) for value in values]))


POISONED: dict[str, tuple[Sequence[Any], Any, Sequence[Any]]] = {
    "one path elsewhere": ([f"/srv/notes/{n}" for n in range(19)], "/etc/passwd", ["/etc/shadow", "/srv/x"]),
    "one path above": ([f"/srv/notes/2026/{n}" for n in range(19)], "/srv/notes/key", ["/srv/notes/key2"]),
    "one path in a home": ([f"/srv/notes/{n}" for n in range(19)], "/home/a/.ssh/id", ["/home/a/.ssh/id2"]),
    "one path with ..": ([f"/srv/notes/{n}" for n in range(19)], "/srv/notes/../key", ["/srv/notes/../x"]),
    "one number": (range(1, 20), 10**9, [10**6, 20]),
    "one negative number": (range(100, 119), -5, [0, 99]),
    "one host of two": (["api.example.com"] * 19, "api.examp1e.com", ["api.examp1e.com.x"]),
    "one host of five": ([f"h{n % 4}.example.com" for n in range(19)], "evil.example", ["evil2.example"]),
    "one text with a rule": (["acme"] * 19, "glob", ["anything"]),
    "one look-alike": (["acme"] * 19, "acm\u0435", ["acm\u0435"]),
}  # fmt: skip


@pytest.mark.parametrize("at", (0, 7, 19))
@pytest.mark.parametrize("name", POISONED)
def test_one_of_twenty_does_not_widen_what_the_others_had(name: str, at: int) -> None:
    harmless, harmful, wanted = POISONED[name]
    values = [*harmless]
    values.insert(at, harmful)
    found = suggested(history([call({"x": value}) for value in values]))
    assert [request.request_id for request in found.left_out] == [f"TR-{at}"] and len(found.past) == 19
    assert found.max_uses == 19 or at in (0, 19)
    for value in (harmful, *wanted):
        assert not found.covers(AGENT, call({"x": value})), value
    assert all(found.covers(AGENT, call({"x": value})) for value in harmless)


def test_more_than_one_in_ten_is_no_exception_and_the_worst_is_shown() -> None:
    paths = [f"/srv/notes/2026/{n}" for n in range(17)] + [f"/srv/notes/keys/{n}" for n in range(3)]
    found = suggested(history([call({"x": path}) for path in paths]))
    assert found.rules == ("arguments.x under /srv/notes",) and found.left_out == ()
    assert found.worst == 'arguments.x is "/srv/notes/.git/hooks/pre-commit"'


def test_two_values_that_were_never_asked_for_together_are_the_worst() -> None:
    jobs = [call({"to": "bob" if n < 3 else "ann", "amount": 5 if n < 3 else n * 10}) for n in TWENTY]
    found = suggested(history(jobs))
    assert found.worst == 'arguments.amount is 190, arguments.to is "bob"'


@pytest.mark.parametrize(
    "values",
    [
        ["gte", "any", "one_of", "regex"],
        ["*", "**", "?", "a*"],
        ['["a"]', '"a"', "[a-z]+", '{"any":1}'],
        ["$(reboot)", "`id`", "a;b", "'q'"],
        [f"[{n}]/x/{n}" for n in range(3)],
    ],
)
def test_values_that_are_operators_are_only_values(values: list[str]) -> None:
    found = suggested(history([call({"x": values[n % len(values)]}) for n in TWENTY]))
    assert found.rules[0].startswith("arguments.x one_of [")
    assert shlex.split(shlex.join(found.words)) == found.words
    for value in ("a", "b", "aa", "anything", "ab", "x/y", *(f"{value}x" for value in values)):
        assert found.covers(AGENT, call({"x": value})) is (value in values), value


@pytest.mark.parametrize("folder", ["[a]", "*", "/srv/*", '/srv/["x"]', "/srv/[a-z]+"])
def test_a_folder_that_is_an_operator_is_only_a_folder(folder: str) -> None:
    found = suggested(history([call({"x": f"{folder}/{n}"}) for n in TWENTY]))
    assert found.covers(AGENT, call({"x": f"{folder}/99"}))
    for path in ("a/99", "/srv/a/99", "/srv/x/99", "/srv/abc/99", f"{folder}x/99", f"{folder}/../99", f"/{folder}/9"):
        assert not found.covers(AGENT, call({"x": path})), path


def test_a_server_with_network_is_given_no_text_that_can_be_chosen() -> None:
    jobs = [call({"x": f"/srv/notes/{n}"}, hosts=("api.example.com:443",)) for n in TWENTY]
    assert "the name of a path could carry anything out" in why_not(history(jobs))
    few = [call({"x": f"/srv/notes/{n % 3}"}, hosts=("api.example.com:443",)) for n in TWENTY]
    assert suggested(history(few)).rules == ('arguments.x one_of ["/srv/notes/0", "/srv/notes/1", "/srv/notes/2"]',)


def test_who_names_itself_as_another_is_not_that_one() -> None:
    mine = history([call({"x": n}) for n in range(5)], name="MINE")
    other = history([call({"x": n}) for n in (7, 8)], owner=AGENT + 1, name="OTHER")
    run = history([call({"x": n}) for n in (7, 8)], owner=str(AGENT), name="RUN")
    (found,) = suggest([*mine, *other, *run], bounds())
    assert isinstance(found, Suggestion) and found.owner == AGENT and len(found.past) == 5
    assert found.rules == ("arguments.x gte 0 lte 4",)
    for owner in (AGENT + 1, str(AGENT)):
        assert not found.covers(owner, call({"x": 3}))
    named = [call({"x": 3}, requested_by="somebody")]
    assert not found.covers(AGENT, named[0]) and suggest([*mine, *history(named, name="N")], bounds()) == [found]


def test_other_types_names_and_code_are_other_shapes() -> None:
    past = history([call({"x": n}) for n in TWENTY])
    strange = [call({"x": "5"}), call({"x": [5]}), call({"x": {"y": 5}}), call({"y": 5}), call({"x": 5, "more": 1}),
               call({"x": None}), call({"x": True}), script({"x": 5}), call({"x": 5}, account="root")]  # fmt: skip
    found = suggested([*past, *history(strange, name="STRANGE")])
    assert len(found.past) == 20 and not any(found.covers(AGENT, job) for job in strange)
