"""python-frontmatter reads the front matter, and gate 1 finds what it finds when the front matter is cut by hand."""

from __future__ import annotations

import random
from typing import Any

import frontmatter
import pytest
from frontmatter.default_handlers import YAMLHandler

from tests.adversarial.request.mutations import corpus, mutate
from tests.request.examples import NAME, NOW, SETTINGS, era
from threegate.core import limits
from threegate.request.reader import read_request
from threegate.request.source import (
    FrontMatter,
    Source,
    SourceRefused,
    read_mapping,
    read_source,
)

FENCE = "---"


def valid(text: str) -> bool:
    return read_request(text.encode(), path=NAME, settings=SETTINGS, now=NOW, stage="draft").request is not None


def cut_by_hand(source: Source) -> Any:
    """What is between the fences, and where they end, without the library."""
    lines = source.lines
    if lines[0] != FENCE or FENCE not in lines[1:]:
        return "TG108"
    end = lines.index(FENCE, 1)
    front = "\n".join(lines[1:end])
    if len(front.encode()) > limits.FRONT_MATTER_BYTES:
        return "TG109"
    try:
        return end, front, read_mapping(front)
    except SourceRefused as error:
        return error.problem


def read_by_library(source: Source) -> Any:
    try:
        found = FrontMatter(source.text, max_bytes=limits.FRONT_MATTER_BYTES)
        return found.end, found.text, read_mapping(found.text)
    except SourceRefused as error:
        return error.problem.rule if error.problem.rule in ("TG108", "TG109") else error.problem


def compare(seed: int, count: int) -> int:
    """How many of `count` mutated files had a front matter that was read. Both readings must be the same."""
    files, chance = corpus(), random.Random(seed)
    read = 0
    for _ in range(count):
        data = mutate(chance.choice(files), files, chance)
        try:
            source = read_source(data)
        except SourceRefused:
            continue
        expected = cut_by_hand(source)
        assert read_by_library(source) == expected, data
        read += isinstance(expected, tuple)
    return read


def test_mutated_files_are_read_as_if_cut_by_hand() -> None:
    assert compare(20261126, 150) > 30


@pytest.mark.soak
def test_thousands_of_mutated_files_are_read_as_if_cut_by_hand() -> None:
    for seed in range(20):
        assert compare(seed, 1_000) > 200


@pytest.mark.parametrize(
    "text", [f"\n\n{era()}", f" \t{era()}", f"\u2028{era()}", f"{era()}".replace("---\n", "--- \n", 1)]
)
def test_what_the_library_drops_before_the_fence_is_refused(text: str) -> None:
    assert frontmatter.parse(text, handler=YAMLHandler())[0]["purpose"]
    assert valid(era()) and not valid(text)
    with pytest.raises(SourceRefused):
        FrontMatter(text, max_bytes=limits.FRONT_MATTER_BYTES)


def test_the_bytes_behind_the_front_matter_are_kept() -> None:
    """The library strips them; what is signed is the file, and the lines of findings are the file's."""
    text = "---\na: b\n---\n\n \nbody\n \n"
    found = FrontMatter(text, max_bytes=100)
    assert (found.text, found.end) == ("a: b", 2)
    assert text.split("\n")[found.end + 1 :] == ["", " ", "body", " ", ""]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1"),
        ("----\na: b\n---\n", "line 1"),
        ("---\na: b\n--- \n", "closes"),
        ("---\na: b", "closes"),
        ("---\n" + "a" * 101 + "\n---\n", "101 bytes"),
    ],
)
def test_what_has_no_front_matter_is_refused_and_never_taken_for_a_body(text: str, said: str) -> None:
    with pytest.raises(SourceRefused, match=said):
        FrontMatter(text, max_bytes=100)
