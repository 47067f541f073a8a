"""The handler for python-frontmatter reads what gate 1 reads, and refuses what it refuses."""

from __future__ import annotations

import frontmatter
import pytest

from tests.request.examples import era
from threegate.request.handler import StrictYAMLHandler
from threegate.request.source import SourceRefused
from threegate.request.yaml_nodes import YAMLRefused

HANDLER = StrictYAMLHandler()


def test_values_are_those_of_the_strict_reader() -> None:
    post = frontmatter.loads(
        era(role="no", created_utc="2026-11-22T05:00:00Z", cpu_limit="012"), handler=HANDLER
    )
    assert (post["role"], post["cpu_limit"], post["memory_limit_mb"]) == ("no", "012", 256)
    assert post["created_utc"] == "2026-11-22T05:00:00Z"
    assert post.content.startswith("## Command")


def test_what_is_written_is_read_again() -> None:
    post = frontmatter.Post(
        "body", handler=HANDLER, a="no", b=[1, 2.5, None, True], c={"d": "x: y"}, e="plain words"
    )
    assert frontmatter.loads(frontmatter.dumps(post), handler=HANDLER).metadata == post.metadata


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (era(role="&a x"), YAMLRefused),
        (era(role="!!str x"), YAMLRefused),
        (era().replace("backend: ERA", "backend: ERA\nbackend: monty"), YAMLRefused),
        ("---- \na: 1\n---\n", SourceRefused),
        ("+++\na = 1\n+++\n", SourceRefused),
        ("---\na: 1\n...\n", SourceRefused),
    ],
)
def test_what_has_no_single_meaning_is_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        frontmatter.loads(text, handler=HANDLER)
    assert HANDLER.detect(era()) and not HANDLER.detect(f" {era()}")
