"""What is known of a sandbox comes from lists that others wrote."""

from __future__ import annotations

import pytest

from threegate.core import limits
from threegate.request.sandbox_contents import Contents, contents_of, near


def test_a_program_of_the_list_is_there_and_every_other_one_is_not() -> None:
    contents = Contents(programs=frozenset({"python3", "["}))
    assert contents.has_program("python3") and contents.has_program("/usr/bin/[")
    assert contents.has_program("jq") is contents.has_program("/usr/bin/jq") is False
    assert contents.has_program("/in/tool") is True and contents.has_program("/opt/x/jq") is None
    assert Contents().has_program("jq") is None


def test_names_that_are_none_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = ["a\x1b[2J", "../x", "x" * 101, "", "sort", "g++", "\u202edc", "ok\n"]
    contents = contents_of(hostile, ["os", "a-b", "1a", "é", "os.path", "x" * 101], "3.11\n; rm", "the image")
    assert contents == Contents(frozenset({"sort", "g++"}), frozenset({"os"}), "", "the image")
    assert contents_of([], ["-"], "2.7", "x") == Contents(None, None, "", "x")
    monkeypatch.setattr(limits, "SANDBOX_NAMES", 2)
    assert contents_of("abcd", [], "3.11", "x").programs == {"a", "b"}


@pytest.mark.parametrize(("version", "minor"), [("3.11", 11), ("3.9.2", 9), ("", None), ("3", None), ("4.1", None)])
def test_the_version(version: str, minor: int | None) -> None:
    assert Contents(python=version).minor == minor


def test_near_names() -> None:
    assert near("pyhton3", {"python3", "sort"}) == ["python3"] and near("zzz", {"sort"}) == []
    assert near("x" * 100_000, {"sort"}) == []
