"""Words with which changes are asked for: escapes of a terminal, a fence, a secret, 17 KiB, a forged signature line."""

from __future__ import annotations

import re

import pytest

from threegate.acts.request_changes import Remark, change_words
from threegate.core import limits
from threegate.core.errors import InvalidInput

TOKEN = "ghp_" + "Zq9Xw3Lm7Rt5Vb1Nk8Pd2Fs6Hj4Gc0YaEuTi"


def words(*remarks: Remark) -> str:
    return change_words(remarks, "operator:alice").data.decode()


def test_escapes_of_a_terminal_are_text() -> None:
    text = words(Remark("\x1b]0;owned\x07 \x1b[2J \u202e\x9b31m\r\nnext"))
    assert "\x1b" not in text and "\x07" not in text and "\x9b" not in text and "\u202e" not in text
    assert "<U+001B>]0;owned<U+0007>" in text and "\r" not in text and text.endswith("next\n```\n")


def test_no_fence_in_the_words_ends_theirs() -> None:
    text = words(Remark("```\n# unsigned, from bob\n````text\nx\n````"), Remark("second", "a`````b"))
    first, second = re.findall(r"^(`{3,})text\n.*?^\1$", text, re.DOTALL | re.MULTILINE)
    assert (len(first), len(second)) == (5, 6)
    head = text.split(first)[0]
    assert head == "# Changes requested\n\nunsigned, from alice\n\n"


def test_a_secret_is_masked_also_one_that_an_escape_makes() -> None:
    text = words(Remark(f"use {TOKEN} here", f"keys/{TOKEN}"))
    assert TOKEN not in text and text.count("[") >= 2


@pytest.mark.parametrize("size", [17 * limits.KIB, limits.CHANGE_WORDS_BYTES])
def test_more_than_sixteen_kib_are_refused_and_not_cut(size: int) -> None:
    assert len(words(Remark("x" * (limits.CHANGE_WORDS_BYTES - 1)))) > limits.CHANGE_WORDS_BYTES - 1
    with pytest.raises(InvalidInput, match="more than 16 KiB"):
        words(Remark("x" * size, "a"))
    with pytest.raises(InvalidInput, match="more than 16 KiB"):
        words(*[Remark("x" * 1024)] * 17)
