"""URLs are read as browsers read them, and never more leniently than by a second reader; hosts are placed rightly."""

from __future__ import annotations

import ipaddress
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import examples
from tests.plugins.proposals import url_reference
from threegate.core.public_address import METADATA4, NOT_PUBLIC4
from threegate.plugins.proposals.formats import is_uri
from threegate.plugins.proposals.urls import URL, URLError, reach, read_url

PARTS = st.sampled_from(
    ["127", "0", "1", "0x7f", "0177", "256", "08", "0x", "example", "com", "EXAMPLE", "a-b", "xn--bcher-kva", "%31", "%2e",  # noqa: E501
     "b%C3%BCcher", "%EF%BC%91", "4294967295", "4294967296", "0x100000000", "", "%00", "a_b", "localhost",
     "xn--ls8h", "xn--a", "%F0%9F%92%A9", "fa%C3%9F", "%E3%80%82", "ex%C2%ADample", "metadata", "169", "254"]
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
    st.sampled_from(["http", "https", "HTTP", "ftp", "ws", "ht tp", "file", "javascript"]),
    st.sampled_from(["", "/", "//", "///", "\\\\", "/\\"]),
    st.sampled_from(["", "", "", "u@", "u:p@", "@", ":@", "%40"]),
    HOSTS,
    st.sampled_from(
        ["", "", ":", ":80", ":443", ":8080", ":65535", ":65536", ":00080", ":99999999", ":0", ":8 0", ":x"]
    ),
    st.sampled_from(["", "/", "/a?b", "?q", "#f", "/a%41;x=1", "/@a", "?@", "\\@a", "/../x", " "]),
)
ODD_HOSTS = [
    *"example.com example.com. example.com.. .example.com a..b . .. EXAMPLE.com a_b.com -a.com a-.com".split(),
    *"0x7f.1 0177.0.0.1 127.1 127.0.1 2130706433".split(),
    *"0x7f000001 017700000001 127.0.0.1. 127.0.0.1.. 0x.0x.0 1.2.3.4.5".split(),
    *"256.1 1.256.1 1.2.3.256 1.2.65536 4294967295 4294967296 0xffffffff".split(),
    *"0x100000000 08.1 1.2.3.08 0b1 1e3 a.1 a.0x".split(),
    *"169.254.169.254 0xa9fea9fe 2852039166 0251.0376.0251.0376 169.254.43518 100.100.100.200 168.63.129.16".split(),
    *"[::1] [::] [::127.0.0.1]".split(),
    *"[::ffff:169.254.169.254] [::ffff:a9fe:a9fe] [64:ff9b::a9fe:a9fe] [2002:7f00:1::]".split(),
    *"[fd00:ec2::254] [fd20:ce::254] [2606:4700::1111] [2001:db8::1] [fe80::1] [fe80::1%25eth0] [fe80::1%eth0]".split(),
    *"[::1 ::1 [1.2.3.4] [v1.x] [zz] [] [::1]x x[::1] [0:0:0:0:0:0:0:1] [::FFFF:8.8.8.8] [::1]:80".split(),
    *"%31%32%37.0.0.1 %6cocalhost b%C3%BCcher.de b%FCcher.de %F0%9F%92%A9.la %E2%80%AE.com %00.com a%2Fb.com".split(),
    *"a%40b.com a%3Ab.com a%5Cb.com a%25b.com a%0Ab.com a%20b.com ex%C2%ADample.com %EF%BC%91.%EF%BC%92.3.4".split(),
    *"%EF%BC%A5xample.com example%E3%80%82com 127%E3%80%820.0.1 fa%C3%9F.de xn--ls8h.la xn--bcher-kva.de".split(),
    *"xn--a.com xn--.com xn--0.com xn--80ak6aa92e.com %E2%84%AA.com a%C2%A0b.com %CC%81a.com a%E2%80%8Db.com".split(),
    *"localhost LOCALHOST. metadata metadata.google.internal".split(),
    *"metadata.goog instance-data foo.localtest.me 1.nip.io".split(),
    *("a b.com", "a\tb.com", "a\nb.com", "ex\rample.com", "a\\b.com", "bücher.de", "１.2.3.4", "a\x7fb.com", "a|b.com"),
    *(
        "a" * 63 + ".com",
        "a" * 64 + ".com",
        ".".join(["a" * 60] * 5),
        "",
        "*",
        "*.com",
        "a<b.com",
        "a^b.com",
        "a`b.com",
    ),
]
"""Hosts after the WHATWG's own test data: IPv4 and IPv6 forms, IDNA, percent signs, controls, dots."""
ODD_TEXTS = [
    f"{scheme}{slashes}{user}{host}{port}{rest}"
    for (scheme, slashes), user, host, (port, rest) in itertools.product(
        [
            ("http:", "//"),
            ("https:", ""),
            ("HTTP:", "///"),
            ("http:", "\\\\"),
            ("ht\ntp:", "//"),
            (" http:", "//"),
            ("ftp:", "//"),
        ],
        ["", "u@", "u:p@", "@"],
        ODD_HOSTS,
        [
            ("", ""),
            (":", "/"),
            (":80", "?q"),
            (":0443", "/a/../b#f"),
            (":65536", "/"),
            (":9a", "/"),
            ("", "\\@x"),
            ("", "/\t"),
        ],
    )
]


def compare(text: str) -> tuple[str, str]:
    """The answers of both readers: how each places the host. Ours must be no more lenient, and name the same host."""
    try:
        ours = read_url(text)
    except URLError:
        ours = None
    try:
        theirs = url_reference.read_url(text)
    except url_reference.URLError:
        assert ours is None, f"{text!r}: only the second reader refuses it"
        return "refused", "refused"
    if ours is None:
        return "refused", url_reference.reach(theirs)
    assert ours == URL(*theirs) and ours.text == theirs.text, text
    assert reach(ours) == url_reference.reach(theirs), text
    return reach(ours), reach(ours)


def test_ada_is_never_more_lenient() -> None:
    """Thousands of odd URLs: what the second reader refuses is refused, and the others have the same host and place."""
    met = set()
    for text in ODD_TEXTS:
        ours, theirs = compare(text)
        met.add(ours)
        if is_uri(text):
            assert ours == theirs, text
    assert len(ODD_TEXTS) > 20_000 and met == {"refused", "public", "address", "unnameable", "private", "metadata"}


@examples(500)
@given(TEXTS)
def test_ada_is_never_more_lenient_in_any_combination(text: str) -> None:
    compare(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://exa\tmple.com/",
        "http:\\\\example.com/",
        "http://bücher.de/",
        "http://example.com/a b",
        "http://a.com/\n",
    ],
)
def test_a_url_that_a_reader_would_see_otherwise_is_refused(text: str) -> None:
    with pytest.raises(URLError) as refused:
        read_url(text)
    assert refused.value.code == "url_invalid"


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
