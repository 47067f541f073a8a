"""Why python-frontmatter does not read requests: it takes for one document what gate 1 tells apart, or refuses."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conftest import peer
from tests.request.examples import NAME, NOW, SETTINGS, era
from threegate.core import limits
from threegate.request import read_request
from threegate.request.source import FENCE, find_front_matter, read_source
from threegate.request.yaml_nodes import plain_value, read_mapping

frontmatter = peer("frontmatter")


class Strict(peer("frontmatter.default_handlers").BaseHandler):  # type: ignore[misc]
    """Gate 1's own fence and YAML behind the library's interface: what is lost is lost around them."""

    FM_BOUNDARY = re.compile(r"\A---\n")
    START_DELIMITER = END_DELIMITER = FENCE

    def split(self, text: str) -> tuple[str, str]:
        source = read_source(text.encode())
        end = find_front_matter(source)
        return "\n".join(source.lines[1:end]), "\n".join(source.lines[end + 1 :])

    def load(self, fm: str) -> dict[str, Any]:
        return dict(plain_value(read_mapping(fm, first_line=2, max_depth=limits.FRONT_MATTER_DEPTH)))


def loads(text: str) -> Any:
    return frontmatter.loads(text, handler=Strict())


def test_of_an_honest_request_it_reads_what_gate_1_reads() -> None:
    report = read_request(era().encode(), path=NAME, settings=SETTINGS, now=NOW, stage="draft")
    assert report.request is not None and loads(era())["purpose"] == report.request.purpose


@pytest.mark.parametrize("text", [f"\n\n{era()}", f" \t{era()}", f"\u2028{era()}"])
def test_what_stands_before_the_fence_is_dropped_unseen(text: str) -> None:
    assert loads(text).metadata == loads(era()).metadata
    assert read_request(text.encode(), path=NAME, settings=SETTINGS, now=NOW, stage="draft").request is None


def test_files_of_different_bytes_are_one_document() -> None:
    assert loads(f"{era()}\n \n").content == loads(era()).content
