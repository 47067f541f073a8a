"""The front matter as YAML: what `core/strict_yaml.py` reads, with the numbers of JSON, and with rule ids.

Invariant: a plain scalar is a number, true, false or null only if it is exactly that in JSON, and a string otherwise;
every number is finite and exact. Source: docs/spec/1-tool-request.md, "Front matter".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from threegate.core import limits
from threegate.core.canonical import INTEGER_MAX
from threegate.core.strict_yaml import Kind, StrictYAMLRefused, YamlNode, read_yaml
from threegate.request.problem import Problem

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}

_ONE_DOCUMENT = "the front matter is one document without YAML directives or further '---'"
_REFUSED: dict[Kind, tuple[str, str]] = {
    "syntax": ("TG110", "this is no YAML: {0.detail}"),
    "character": ("TG110", "this is no YAML: {0.detail}"),
    "depth": ("TG111", "nested deeper than {0.detail} levels; make it flatter"),
    "nodes": ("TG111", "more than {0.detail} values; make it shorter"),
    "anchor": ("TG112", "anchors (&name) are not allowed; write the value out"),
    "alias": ("TG112", "aliases (*name) are not allowed; write the value out"),
    "merge_key": ("TG112", "merge keys (<<) are not allowed; write the keys out"),
    "tag": ("TG113", "tags (!name) are not allowed; write a plain value"),
    "duplicate_key": ("TG114", "this key stands twice; the first is on line {0.first_line}"),
    "bad_key": ("TG115", "a key is a plain word, not a collection"),
    "document": ("TG115", _ONE_DOCUMENT),
    "directive": ("TG115", _ONE_DOCUMENT),
    "document_end": ("TG115", "'...' ends a YAML document early; take the line out"),
    "scalar": ("TG116", "{0.detail}; quote it or make it smaller"),
}


class YAMLRefused(Exception):
    """The text is no YAML of the strict kind; carries the one problem that ended the reading."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def plain_value(node: YamlNode) -> Any:
    """The JSON value of a node, without places."""
    if isinstance(node.value, list):
        return [plain_value(item) for item in node.value]
    if isinstance(node.value, dict):
        return {key: plain_value(item) for key, (_, item) in node.value.items()}
    return node.value


def scalars(node: YamlNode) -> Iterator[YamlNode]:
    """Every scalar below a node, keys included, in no particular order."""
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item.value, list):
            stack.extend(item.value)
        elif isinstance(item.value, dict):
            for pair in item.value.values():
                stack.extend(pair)
        else:
            yield item


def read_mapping(text: str, *, first_line: int, max_depth: int, max_nodes: int = limits.FRONT_MATTER_BYTES) -> YamlNode:
    """Read a block mapping at column 0. `first_line` is the line of the file that `text` starts on.

    `text` has no hidden characters' worth of trust: the reader refuses most, the caller refuses the rest.
    Raises YAMLRefused.
    """
    try:
        root = read_yaml(
            text,
            plain=_plain,
            max_depth=max_depth,
            max_nodes=max_nodes,
            first_line=first_line,
            bare=True,
        )
    except StrictYAMLRefused as error:
        rule, message = _REFUSED[error.kind]
        raise YAMLRefused(Problem(rule, error.line, error.column, message.format(error))) from None
    if root is None:
        raise YAMLRefused(Problem("TG115", first_line, 1, "the front matter is empty; write one key a line"))
    if not isinstance(root.value, dict) or root.style:
        message = "the front matter is a mapping in block style: one 'key: value' a line at column 1"
        raise YAMLRefused(Problem("TG115", root.line, root.column, message))
    for key, _ in root.value.values():
        if key.column != 1:
            message = "keys of the front matter start at column 1"
            raise YAMLRefused(Problem("TG115", key.line, key.column, message))
    return root


def _plain(text: str) -> Any:
    """The value of a plain scalar. Raises ValueError for a number that is not exact."""
    if text in _WORDS:
        return _WORDS[text]
    if not text or text[0] not in "-0123456789" or not _NUMBER.fullmatch(text):
        return text
    if _INTEGER.fullmatch(text):
        if len(text) > 17 or abs(int(text)) > INTEGER_MAX:
            raise ValueError("the integer lies beyond 2**53 - 1")
        return int(text)
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("the number is too large to be exact")
    return number
