"""Single values: times, cores, hosts, paths, and the rendering of YAML scalars."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threegate.core.secretscan.scan import Found
from threegate.request.fields import FieldError, check_output_path, read_cores, read_time
from threegate.request.findings import mask_lines
from threegate.request.hosts import HostError, read_host, read_target
from threegate.request.render_draft import file_name, render_time, scalar, slug_of
from threegate.request.source import SourceRefused, YamlNode, plain_value, read_mapping


def test_a_host_is_read_with_its_port() -> None:
    assert read_target("api.example.com") == read_target("api.example.com:443")
    assert read_target("api.example.com:1").port == 1
    assert read_target("api.example.com:80").port == 80
    assert read_host("xn--mnchen-3ya.example") == "xn--mnchen-3ya.example"


@pytest.mark.parametrize(
    "text",
    [
        "a." + "b" * 254,
        "ab--c.example.com",
        "xn--.example.com",
        "xn--99999999999.example.com",
        "xn--a.example.com",
        "a.example.com:080",
        "a.example.com:\u0664",
    ],
)
def test_no_host(text: str) -> None:
    with pytest.raises(HostError):
        read_target(text)


@pytest.mark.parametrize(
    "path", ["/out/" + "a" * 256, "a" * 1100, "/out", "", "a/", "./a", "a/..", " a", "a\\b", "/outside/a"]
)
def test_no_output_path(path: str) -> None:
    assert check_output_path(path)[1] is not None


def test_output_paths_mean_files_below_out() -> None:
    assert check_output_path("a/b.txt") == ("/out/a/b.txt", None)
    assert check_output_path("/out/a b") == ("/out/a b", None)


def test_times_and_cores_are_read_exactly() -> None:
    moment = read_time(YamlNode("2026-11-22T05:00:00.5Z", "", 1, 1), "TG133")
    assert (moment.microsecond, render_time(moment)) == (500000, "2026-11-22T05:00:00.500000Z")
    assert file_name(moment, slug_of("Größe: rank the SALES!")) == "TR-20261122-050000Z-gr-sse-rank-the-sales.md"
    assert slug_of("日本") == "request"
    with pytest.raises(FieldError):
        read_cores(YamlNode(True, "true", 1, 1), most=4)


@settings(max_examples=150)
@given(
    st.one_of(
        st.text(),
        st.integers(-(2**53) + 1, 2**53 - 1),
        st.booleans(),
        st.none(),
        st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_a_scalar_is_read_as_it_was_written(value: object) -> None:
    """For everything that YAML can carry at all; the reader refuses the rest."""
    try:
        root = read_mapping(f"key: {scalar(value)}\n")
    except (SourceRefused, UnicodeEncodeError):
        assert isinstance(value, str)
        return
    assert plain_value(root) == {"key": value}


def test_overlapping_secrets_are_masked_once() -> None:
    places = (("one", 2, 8), ("two", 4, 6), ("three", 6, 10))
    found = [Found(kind=kind, start=start, end=end) for kind, start, end in places]
    assert mask_lines("a secret b", found) == ("a [one][three]",)
