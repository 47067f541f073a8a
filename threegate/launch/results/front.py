"""The front matter of results, for all who read one: as a tree with places, or as values."""

from __future__ import annotations

from typing import Any

from threegate.core import limits
from threegate.core.strict_yaml import YamlNode
from threegate.request.source import FrontMatter, plain_value, read_mapping


def result_tree(front: str) -> YamlNode:
    """The front matter's nodes: YAML as strict as a request's, and as long as a result may be. Raises SourceRefused."""
    return read_mapping(front, max_nodes=limits.RESULT_BYTES)


def read_result(text: str) -> tuple[dict[str, Any], int]:
    """The front matter of a result's text, and the index of the line that closes it. Raises SourceRefused."""
    front = FrontMatter(text, max_bytes=limits.RESULT_BYTES // 2)
    return plain_value(result_tree(front.text)), front.end
