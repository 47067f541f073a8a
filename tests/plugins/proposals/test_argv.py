"""Whatever a pattern of docs/spec/5-proposals.md describes is found in an argv, wherever it is in it.

`judge_argv` looks for most of them only where a cheaper look at the whole line found a part of them. The patterns are
written here again, so that nothing here follows from that.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import examples
from threegate.plugins.proposals.argv import judge_argv

DESTROYING = re.compile(r"-[A-Za-z]*(?:[rR][A-Za-z]*f|f[A-Za-z]*[rR])[A-Za-z]*")
FILE_SYSTEM = re.compile(r"(?:mkfs(?:\..*)?|mke2fs|mkswap)", re.IGNORECASE)


def codes(*argv: str) -> set[str]:
    return {finding.code for finding in judge_argv(argv, programs=())}


@pytest.mark.parametrize(
    ("code", "pattern"),
    [
        ("argv_encodes", r"(?:base64|xxd|eval)|_(?:base64|xxd|eval)|(?:base64|xxd|eval)_|openssl [a-z ]{0,9} enc"),
        (
            "argv_inline_deletion",
            r"rmtree|rmsync|rmdirsync|unlinksync|rmdir|unlink|removedirs|os\s?\.\s?remove|remove_tree|rm_rf|rm_r|rm_f|"
            r"fileutils\s?\.\s?rm[a-z]?|file\s?\.\s?delete|dir\s?\.\s?delete|os\s?\.\s?truncate|truncatesync|"
            r"send2trash|fs\s?\.\s?rm[a-z]?|promises\s?\.\s?rm[a-z]?|x\.(?:rm|rmdir|unlink|delete|remove)\s?\(|"
            r"system\s?\(\s?['\"]\s?rm",
        ),
        ("argv_critical", r"drop\s(?:table|database|[a-z]{1,5})|truncate|delete\sfrom"),
    ],
)
@examples(100)
@given(data=st.data())
def test_everything_that_a_pattern_describes_is_found(code: str, pattern: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(pattern, fullmatch=True))
    assert code in codes("x", text)
    assert code in codes("x", "a", f"a ({text.upper()}) b", "c")


@given(st.lists(st.sampled_from(["-rf", "-fR", "-xRvf", "-RF", "mkfs", "MKFS.Σx", "/sbin/mke2fs", "x-rf", "Σ", "a"])))
def test_a_destroying_word_is_found_alone_and_inside_an_argument(words: list[str]) -> None:
    destroys = any(DESTROYING.fullmatch(word) or FILE_SYSTEM.fullmatch(word.rpartition("/")[2]) for word in words)
    assert ("argv_destroys" in codes("x", *words)) == destroys
    assert ("argv_command_inside" in codes("x", "\t".join(["a", "b", *words]))) == destroys
