"""The content of a contract file, and the position of each value: the tree of `core/strict_yaml.py` as plain
values.

Invariant: a file has one meaning or none. Besides what the reader refuses, keys that are not strings and
plain scalars that YAML versions read differently (`no`, `012`, `1_000`) are errors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from threegate.contracts.diagnostics import Diagnostic, error
from threegate.core import limits
from threegate.core.strict_yaml import Kind, StrictYAMLRefused, YamlNode, read_yaml

KeyPath = tuple[str | int, ...]
"""The path of a value in its file: keys and list indices from the top."""

_NULL = frozenset({"", "~", "null"})
_BOOLEAN = {"true": True, "false": False}
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,15})")
_FLOAT = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30}([eE][-+]?[0-9]{1,3})?|[eE][-+]?[0-9]{1,3})")
_AMBIGUOUS = re.compile(
    r"(?i)(yes|no|on|off|true|false|null|[-+]?\.(inf|nan)|\.nan|[-+]?[0-9][0-9_,]*(:[0-9_.]+)*\.?[0-9_]*(e[-+]?[0-9]*)?"
    r"|0[xob][0-9a-f_]+|[-+]\.?[0-9][0-9_.]*|\.[0-9][0-9_]*|<<|=)"
)


_REFUSED: dict[Kind, tuple[str, str]] = {
    "syntax": ("YAML_SYNTAX", "not valid YAML: {0.detail}"),
    "character": ("YAML_SYNTAX", "not valid YAML: {0.detail}"),
    "document": ("YAML_SYNTAX", "a second document starts here; a file is one document"),
    "anchor": ("YAML_ANCHOR", "anchors and aliases are not supported; write the value out"),
    "alias": ("YAML_ANCHOR", "anchors and aliases are not supported; write the value out"),
    "tag": ("YAML_TAG", "tags are not supported; leave it out"),
    "duplicate_key": (
        "DUPLICATE_KEY",
        "{0.detail!r} occurs twice, on lines {0.first_line} and {0.line}; move what is below line {0.line} to the end "
        "of what is below line {0.first_line}, and remove line {0.line}",
    ),
    "bad_key": ("BAD_KEY", "a key is a plain name{0.detail}"),
    "merge_key": ("AMBIGUOUS_SCALAR", "merge keys are not supported; write the keys out"),
    "scalar": ("AMBIGUOUS_SCALAR", "{0.detail}"),
    "depth": ("TOO_DEEP", "nested deeper than {0.detail}"),
    "nodes": ("TOO_MANY_VALUES", "more than {0.detail} values in one file"),
}


@dataclass(slots=True)
class Document:
    """A file's value and the position (line, column, both from 1) of everything in it."""

    file: str
    value: Any
    places: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)

    def place(self, path: KeyPath) -> tuple[int, int]:
        """The position of `path`, or of the nearest ancestor."""
        while path not in self.places and path:
            path = path[:-1]
        return self.places.get(path, (1, 1))

    def error(self, code: str, path: KeyPath, message: str) -> Diagnostic:
        """An error at `path` of this file."""
        line, column = self.place(path)
        return error(code, self.file, message, line=line, column=column, path=show_path(path))


def show_path(path: KeyPath) -> str:
    """``phases[0].name`` for ("phases", 0, "name")."""
    shown = ""
    for part in path:
        shown += f"[{part}]" if isinstance(part, int) else f".{part}" if shown else part
    return shown


def read_document(file: str, data: bytes) -> Document | Diagnostic:
    """Read one YAML file. Returns the first error as a diagnostic, never raises because of the bytes."""
    if len(data) > limits.CONTRACT_FILE_BYTES:
        return error("FILE_TOO_LARGE", file, f"more than {limits.CONTRACT_FILE_BYTES} bytes; split it")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        return error("NOT_UTF8", file, f"not UTF-8 at byte {problem.start}; save it as UTF-8")
    document = Document(file, None)
    try:
        root = read_yaml(text, plain=_scalar, max_depth=limits.CONTRACT_DEPTH, max_nodes=limits.CONTRACT_NODES)
        if root is not None:
            document.value = _value(root, (), document.places)
    except StrictYAMLRefused as refused:
        code, message = _REFUSED[refused.kind]
        return error(code, file, message.format(refused), line=refused.line, column=refused.column)
    return document


def _value(node: YamlNode, path: KeyPath, places: dict[KeyPath, tuple[int, int]]) -> Any:
    """The JSON value of a node; records the position of everything in it, which for a mapping's values is the
    key's.
    """
    places.setdefault(path, (node.line, node.column))
    if isinstance(node.value, list):
        return [_value(item, (*path, index), places) for index, item in enumerate(node.value)]
    if not isinstance(node.value, dict):
        return node.value
    values = {}
    for name, (key, item) in node.value.items():
        if not isinstance(key.value, str):
            raise StrictYAMLRefused("bad_key", key.line, key.column, "; put it in quotes")
        places[(*path, name)] = (key.line, key.column)
        values[name] = _value(item, (*path, name), places)
    return values


def _scalar(text: str) -> Any:
    """The JSON value of a plain scalar. Raises ValueError where YAML versions differ."""
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if abs(number) < float("inf"):
            return number
    if _AMBIGUOUS.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is read differently by YAML versions; quote it")
    return text
