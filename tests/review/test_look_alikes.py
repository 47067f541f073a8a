"""Which hosts could be taken for one that ran, and which hosts a text names."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.core import limits
from threegate.review.look_alikes import PastHosts, hosts_in
from threegate.trail.past_uses import Ran

WHEN = "2026-01-01T00:00:00.000Z"
PAST = PastHosts(
    (host, Ran(runs, WHEN, WHEN))
    for host, runs in (
        ("api.example.com", 12),
        ("registry.npmjs.org", 3),
        ("data.acme-corp.io", 5),
        ("paypal.com", 2),
        ("team-a.github.io", 4),
        ("one.two.three.four.longname.com", 2),
        ("shop.co.uk", 2),
    )
)


@pytest.mark.parametrize(
    ("host", "like"),
    [
        ("api.examp1e.com", "api.example.com"),  # a digit for a letter
        ("api.exampel.com", "api.example.com"),  # two letters exchanged
        ("api.exampple.com", "api.example.com"),
        ("api.exampl.com", "api.example.com"),
        ("xn--pypal-4ve.com", "paypal.com"),  # Cyrillic а
        ("example-api.com", "api.example.com"),
        ("apiexample.com", "api.example.com"),
        ("example.api.com", "api.example.com"),
        ("api.example.net", "api.example.com"),  # another suffix
        ("cdn.example.org", "api.example.com"),
        ("api.example.com.evil.net", "api.example.com"),
        ("paypal.evil.net", "paypal.com"),
        ("registry.npmjs.com", "registry.npmjs.org"),
        ("acme-corp.data.io", "data.acme-corp.io"),
        ("tearn-a.github.io", "team-a.github.io"),  # rn for m, below a shared name
        ("four.three.two.one.longname.net", "one.two.three.four.longname.com"),
        ("shop.com", "shop.co.uk"),
    ],
)
def test_hosts_that_could_be_taken_for_another_one(host: str, like: str) -> None:
    found = PAST.like(host, 0)
    assert found is not None and found.host == like


@pytest.mark.parametrize(
    "host",
    [
        "api.example.com",
        "cdn.example.com",  # the same owner's
        "www.python.org",
        "other.gitlab.io",
        "a.io",
        "b.io",
        "10.0.0.1",
        "localhost",
        "xn--999999999999.com",
    ],
)
def test_other_hosts_and_those_of_the_same_owner_look_like_none(host: str) -> None:
    assert PAST.like(host, 0) is None


def test_only_one_that_ran_more_often_is_looked_like() -> None:
    assert PAST.like("api.examp1e.com", 11) is not None
    assert PAST.like("api.examp1e.com", 12) is None


@given(st.text(max_size=80), st.integers(0, 20))
def test_any_text_can_be_compared(text: str, own: int) -> None:
    PAST.like(text, own)
    list(hosts_in(text))


def test_many_hosts_are_compared_in_little_time() -> None:
    many = PastHosts(
        (f"h{number}.ex{number * 7919 % 100_003}ample.com", Ran(1, WHEN, WHEN))
        for number in range(3 * limits.HOSTS_COMPARED)
    )
    begun = time.process_time()
    for number in range(20):
        many.like(f"new{number}.exxample{number}.net", 0)
    assert time.process_time() - begun < 2, "20 hosts against 1,000: about 10 ms"


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("curl https://api.example.com/x", ["api.example.com"]),
        ('get("HTTPS://API.Example.COM:8443/x?y")', ["api.example.com"]),
        ("https://api.example.com@evil.example/x", ["evil.example"]),  # a user's name before the host
        ("ftp://user:word@files.example.org.", ["files.example.org"]),
        ("a://one.example b://two.example", ["one.example", "two.example"]),
        ("http://10.1.2.3/", ["10.1.2.3"]),
        ("http://localhost:8000/ http://printer/ http://x.local", []),
        ('f"https://{host}/x" f"https://api.{name}.com"', []),
        ("https:// https://", []),
        ("https://аpi.example.com/", ["аpi.example.com"]),
        ("no address: example.com", []),
    ],
)
def test_the_hosts_of_addresses(text: str, hosts: list[str]) -> None:
    assert list(hosts_in(text)) == hosts


def test_a_text_of_nothing_but_addresses_takes_no_time() -> None:
    begun = time.process_time()
    assert len(list(hosts_in("x://a.bc " * 100_000))) == limits.URLS_READ
    list(hosts_in("://" * 300_000))
    assert time.process_time() - begun < 1
