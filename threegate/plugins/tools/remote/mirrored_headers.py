"""The headers that repeat what a call's body says: `x-mcp-header` of a tool's schema, and how a value is written.

Invariant: a header's value is what the signed arguments have at one place of the schema that was signed; nothing but
printable ASCII gets into a header. Source: MCP 2026-07-28, transports, "Custom headers".
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

KEY: Final = "x-mcp-header"
_PREFIX: Final = "Mcp-Param-"
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}")
_PLAIN: Final = re.compile(r"[\x20-\x7e]*")
_ENCODED: Final = re.compile(r"=\?base64\?.*\?=")
_TYPES: Final = ("string", "integer", "boolean")
_ONE: Final = (
    "items contains unevaluatedItems additionalProperties propertyNames unevaluatedProperties not if then else "
    "contentSchema"
).split()
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS: Final = ("patternProperties", "dependentSchemas", "$defs", "definitions")
"""Where a schema has schemas: one, a list of them, and by name. `properties` is separate: only below it is a place of
the arguments known.
"""

Path = tuple[str, ...]


def header_problem(schema: Mapping[str, Any]) -> str | None:
    """Why a schema's `x-mcp-header` cannot be obeyed; None if they can, or if there is none."""
    known: set[str] = set()
    for path, below in _schemas(schema):
        if KEY not in below:
            continue
        name = below[KEY]
        if not path:
            return f"has {KEY} where it is not known which argument it is about"
        where = ".".join(path)
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            return f"has an {KEY} for {where} that is not the name of a header"
        if below.get("type") not in _TYPES:
            return f"has {KEY} for {where}, which is not a string, an integer or a boolean"
        if name.lower() in known:
            return f"has the same {KEY} twice"
        known.add(name.lower())
    return None


def mirrored(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The headers of a call, for a schema without a `header_problem`. An argument that is absent or null has none."""
    found = []
    for path, below in _schemas(schema):
        if path and KEY in below and (text := _text(_at(arguments, path))) is not None:
            found.append((f"{_PREFIX}{below[KEY]}", header_text(text)))
    return sorted(found)


def header_text(text: str) -> str:
    """A text as a header's value: itself, or in base64 with a mark where a header would not keep it."""
    if _PLAIN.fullmatch(text) and text == text.strip() and not _ENCODED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _schemas(root: object) -> Iterator[tuple[Path | None, Mapping[str, Any]]]:
    """Each schema, with the names of the properties that lead to it; None where something else leads there."""
    waiting: list[tuple[Path | None, object]] = [((), root)]
    while waiting:
        path, schema = waiting.pop()
        if not isinstance(schema, Mapping):
            continue
        yield path, schema
        for key, value in schema.items():
            if key == "properties" and isinstance(value, Mapping):
                waiting += [(None if path is None else (*path, name), below) for name, below in value.items()]
            elif key in _ONE:
                waiting.append((None, value))
            elif key in _LISTS and isinstance(value, list):
                waiting += [(None, below) for below in value]
            elif key in _MAPS and isinstance(value, Mapping):
                waiting += [(None, below) for below in value.values()]


def _at(value: object, path: Path) -> object:
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None
