"""URLs are read as browsers read them, compared with Ada (the WHATWG parser of Node.js); hosts are placed rightly."""

from __future__ import annotations

import ipaddress

import ada_url
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import examples
from threegate.plugins.proposals.formats import is_uri
from threegate.plugins.proposals.urls import URLError, reach, read_url

PARTS = st.sampled_from(
    ["127", "0", "1", "0x7f", "0177", "256", "08", "0x", "example", "com", "EXAMPLE", "a-b", "xn--bcher-kva", "%31", "%2e",  # noqa: E501
     "b%C3%BCcher", "%EF%BC%91", "4294967295", "4294967296", "0x100000000", "", "%00", "a_b", "localhost"]
)  # fmt: skip
HOSTS = st.one_of(
    st.lists(PARTS, min_size=1, max_size=5).map(".".join),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]"),
    st.integers(0, 2**33).map(str),
    st.integers(0, 2**33).map(hex),
)
TEXTS = st.builds(
    lambda scheme, slashes, user, host, port, rest: f"{scheme}:{slashes}{user}{host}{port}{rest}",
    st.sampled_from(["http", "https", "HTTP"]),
    st.sampled_from(["", "/", "//", "///"]),
    st.sampled_from(["", "", "", "u@", "u:p@", "@"]),
    HOSTS,
    st.sampled_from(["", "", ":", ":80", ":443", ":8080", ":65535", ":65536", ":00080", ":99999999"]),
    st.sampled_from(["", "/", "/a?b", "?q", "#f", "/a%41;x=1"]),
)


@examples(700)
@given(TEXTS)
def test_hosts_are_those_that_a_browser_would_ask(text: str) -> None:
    if not is_uri(text):
        return
    try:
        ours = read_url(text)
    except URLError as error:
        if error.code == "url_credentials":
            return
        theirs = ada_url.URL(text).hostname if ada_url.check_url(text) else ""
        assert theirs == "" or ".." in f".{theirs.removesuffix('.')}." or "xn--" in theirs or "%" in text, text
        return
    theirs = ada_url.URL(text)
    host = theirs.hostname.strip("[]").removesuffix(".")
    if ours.address is not None:
        assert ipaddress.ip_address(host) == ours.address
    else:
        assert host == ours.host
    usual = {"http:": 80, "https:": 443}[theirs.protocol]
    assert theirs.port == ("" if ours.port == usual else str(ours.port))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("https://example.com/", "public"),
        ("https://EXAMPLE.com./", "public"),
        ("https://xn--bcher-kva.example.com/", "public"),
        ("http://b%C3%BCcher.example.com/", "public"),
        ("http://8.8.8.8/", "address"),
        ("http://[2606:4700::1111]/", "address"),
        ("http://[::ffff:8.8.8.8]/", "address"),
        ("http://[2002:808:808::]/", "address"),
        ("http://10.0.0.1/", "private"),
        ("http://[::ffff:10.0.0.1]/", "private"),
        ("http://[2001:db8::1]/", "private"),
        ("http://[fe80::1]/", "private"),
        ("http://intranet/", "private"),
        ("http://169.254.169.254/", "metadata"),
        ("http://[::ffff:169.254.169.254]/", "metadata"),
        ("http://metadata.google.internal/", "metadata"),
        ("http://a_b.example.com/", "unnameable"),
    ],
)
def test_where_a_host_lies(text: str, where: str) -> None:
    assert reach(read_url(text)) == where


@given(st.ip_addresses(v=4))
def test_no_spelling_of_a_private_address_is_public(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    spellings = {
        reach(read_url(f"http://{text}/"))
        for text in (
            str(address),
            str(number),
            hex(number),
            f"0{number:o}",
            f"[::ffff:{address}]",
            f"[64:ff9b::{address}]",
        )
    }
    assert len(spellings) == 1
    if not address.is_global:
        assert spellings <= {"private", "metadata"}


def test_one_spelling_comes_out() -> None:
    assert read_url("HTTP:Example.COM.:80").text == "http://example.com/"
    assert read_url("http://[0:0::1]:8080/a?b#c").text == "http://[::1]:8080/a?b"
    assert read_url("https://example.com?q").text == "https://example.com/?q"


@pytest.mark.parametrize("text", ["http://[zz]/", "http://[::1/", "http://[1.2.3.4]/", "http://[::1%25eth0]/"])
def test_no_address_is_no_host(text: str) -> None:
    with pytest.raises(URLError):
        read_url(text)


def test_what_python_calls_not_global_is_never_an_address() -> None:
    """Both ends of every special range, and their neighbours."""
    from threegate.core.public_address import METADATA4, NOT_PUBLIC4
    from threegate.plugins.proposals.urls import RANGES4

    assert all(one[1] < two[0] for one, two in zip(RANGES4, RANGES4[1:], strict=False))
    numbers = {0, 2**32 - 1}
    for text in (*NOT_PUBLIC4, *METADATA4):
        network = ipaddress.IPv4Network(text)
        numbers |= {int(network[0]) + step for step in (-1, 0, 1)} | {int(network[-1]) + step for step in (-1, 0, 1)}
    for number in sorted(item for item in numbers if 0 <= item < 2**32):
        address = ipaddress.IPv4Address(number)
        where = reach(read_url(f"http://{address}/"))
        inside = any(address in ipaddress.IPv4Network(text) for text in NOT_PUBLIC4)
        metadata = any(address in ipaddress.IPv4Network(text) for text in METADATA4)
        assert where == ("metadata" if metadata else "private" if inside else "address")
        if not address.is_global or address.is_multicast:
            assert where != "address"


@pytest.mark.parametrize(
    "text",
    [
        "http://example.com:/a",
        "http://example.com/a",
        "http://example.com:80/a",
        "http://example.com:00080/a",
    ],
)
def test_an_empty_port_is_the_schemes_own(text: str) -> None:
    assert read_url(text).port == 80
