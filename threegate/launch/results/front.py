"""The front matter of results, for all who read one: as a tree with places, or as values."""

from __future__ import annotations

from typing import Any

from threegate.core import limits
from threegate.core.front_matter_handler import FrontMatter, read_front_matter
from threegate.core.strict_yaml import YamlNode
from threegate.request.source import plain_value, read_mapping


def result_tree(front: str) -> YamlNode:
    """The front matter's nodes: YAML as strict as a request's, and as long as a result may be. Raises SourceRefused."""
    return read_mapping(front, max_nodes=limits.RESULT_BYTES)


def read_result(text: str) -> FrontMatter[dict[str, Any]]:
    """The front matter of a result's text. Raises FrontMatterRefused, SourceRefused."""
    return read_front_matter(text, lambda front: plain_value(result_tree(front)), max_bytes=limits.RESULT_BYTES // 2)
