"""A constraint of a grant that constrains nothing: it is refused, or never goes to a server that could send it on."""

from __future__ import annotations

import pytest

from tests.plugins.grants.test_call_rules import JAIL, TEXT, call, rules, schema
from threegate.approval.ssh_wire import MalformedError
from threegate.core.errors import Refused
from threegate.plugins.grants.constraint import Constraint, is_plain_word
from threegate.plugins.grants.grant import opened
from threegate.plugins.tools.action import JobServer

NETWORK = JobServer("jail", ("/h",), ("a.com",), (), ())

ANY_TEXT = [
    r"regex [\x21-\x7e]+",
    r"regex [!-~]{5,9}",
    r"regex [!-~]{23}",
    r"regex [^#]+",
    r"regex [^#é]+",
    r"regex [^/]+",
    r"regex .{8}",
    "glob *",
    "glob **",
]
FREE_TEXT = [
    r"regex [a-z]+",
    r"regex \w+",
    r"regex [0-9]+",
    r"regex [0-9]{1,20}",
    r"regex [0-9a-f]{40}",
    r"regex [ab]+",
    r"regex [A-Za-z0-9_-]{16,}",
    r"regex [a-z]+(-[a-z]+)*",
    r"regex (?i)[a-z0-9._-]+",
]
CONSTRAINED = [
    r"regex [A-Z]{1,5}",
    r"regex [0-9]{1,6}",
    r"regex a+|b+",
    r"regex v[0-9.]+",
    "glob issue-*",
    "starts_with v",
    "ends_with .md",
    "glob src/**/*.py",
    "under /srv",
    'one_of ["a", "b"]',
    "host_in a.com",
    "email_domain_in a.com",
]


@pytest.mark.parametrize("text", ANY_TEXT)
def test_a_constraint_that_takes_any_text_is_none(text: str) -> None:
    with pytest.raises(MalformedError, match="takes any text"):
        Constraint.read(text, ["string"])


@pytest.mark.parametrize("text", FREE_TEXT)
def test_a_text_that_may_be_chosen_freely_goes_to_no_network(text: str) -> None:
    (item,) = rules(schema(a=TEXT), f"a {text}").widened
    assert item.constraint is not None and item.constraint.is_free_text
    opened(call({"a": "x"}, JAIL), [item])
    with pytest.raises(Refused, match="could carry anything out"):
        opened(call({"a": "x"}, NETWORK), [item])


@pytest.mark.parametrize("text", CONSTRAINED)
def test_a_text_with_something_given_is_not_free(text: str) -> None:
    assert not Constraint.read(text, ["string"]).is_free_text


def test_numbers_are_no_text() -> None:
    assert not Constraint.read("gte 1 lte 9", ["integer"]).is_free_text
    assert not Constraint.of("boolean", {}).is_free_text and Constraint.of("string", {}).is_free_text


@pytest.mark.parametrize("text", ["a．．b", "a‥b", "－x", "a／／b", "a％41", "a＼b", "a\u3000b", "ﹾ"])
def test_what_another_reader_folds_into_a_barred_text_is_barred(text: str) -> None:
    assert not is_plain_word(text)
    assert is_plain_word("ﬁne²") and is_plain_word("報告～最終：完")
