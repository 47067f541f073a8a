"""Whether a tool's JSON Schema has a value at a path, so that a call without the value leaves something out.

Invariant: in doubt it has. Only a schema that describes the object where the path ends, and no such key in it, says
that the tool has no value there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment
from jsonpath_rfc9535.selectors import NameSelector

from threegate.contracts.path_compiler import Path

_BRANCHES = ("allOf", "anyOf", "oneOf")
_CONDITIONS = ("if", "then", "else", "not")
_MEMBERS = ("properties", "items", "prefixItems")
_NOT_FOLLOWED = frozenset(
    {"$dynamicRef", "$recursiveRef", "patternProperties", "dependentSchemas", "unevaluatedProperties"}
)
"""Keywords that may describe a member, or lead out of the file."""


class _InDoubt(Exception):
    """The schema may have a value there."""


def has_path(schema: Any, path: Path) -> bool:
    """Whether a tool whose arguments have this schema may have a value at a path."""
    found = [schema]
    try:
        for segment in path.query.segments:
            if isinstance(segment, JSONPathRecursiveDescentSegment):
                found = _everything(schema, found)
            names = [item.name if isinstance(item, NameSelector) else None for item in segment.selectors]
            found = [below for name in names for below in _members(schema, found, name)]
    except (_InDoubt, TypeError):  # a keyword of another type than JSON Schema gives it says nothing either
        return True
    return bool(found)


def _everything(root: Any, start: list[Any]) -> list[Any]:
    """The schemas, and those of all values below them."""
    seen: dict[int, Any] = {}
    fresh = start
    while fresh:
        seen.update((id(value), value) for value in fresh)
        fresh = [value for value in _members(root, fresh, None) if id(value) not in seen]
    return list(seen.values())


def _members(root: Any, schemas: list[Any], name: str | None) -> Iterator[Any]:
    """The schemas of the values' members, or of the one with a name. Raises _InDoubt where they are not described."""
    for part in _parts(root, schemas):
        if _is_open(part, name) or part.keys() & _NOT_FOLLOWED:
            raise _InDoubt
        known = part.get("properties", {})
        if isinstance(more := part.get("additionalProperties"), Mapping) and more and name not in known:
            yield more
        if name is None:
            yield from known.values()
            for word in ("items", "prefixItems"):
                below = part.get(word, [])
                yield from below if isinstance(below, list) else [below]
        elif name in known:
            yield known[name]
        elif name in part.get("required", ()):
            yield True


def _parts(root: Any, schemas: list[Any]) -> Iterator[Mapping[str, Any]]:
    """The schemas, and all that they are made of, each once: a schema that contains itself stays small."""
    seen: set[int] = set()
    stack = list(schemas)
    while stack:
        part = stack.pop()
        if part is False or id(part) in seen:
            continue
        seen.add(id(part))
        if not isinstance(part, Mapping) or not isinstance(part.get("properties", {}), Mapping):
            raise _InDoubt
        yield part
        if "$ref" in part:
            stack.append(_target(root, part["$ref"]))
        for word in _BRANCHES:
            stack.extend(part.get(word, ()))
        stack.extend(part[word] for word in _CONDITIONS if word in part)


def _is_open(part: Mapping[str, Any], name: str | None) -> bool:
    """Whether a schema takes an object, or with no name a list, and does not say what is in it."""
    kinds = part.get("type", "object")
    taken = {str(kind).lower() for kind in (kinds if isinstance(kinds, list) else [kinds])}
    described = ("$ref", *_BRANCHES, *_MEMBERS)
    return (
        bool(taken & ({"object"} if name is not None else {"object", "array"}))
        and part.get("additionalProperties", True) is True
        and not any(word in part for word in described)
    )


def _target(root: Any, reference: Any) -> Any:
    """What a reference within the file leads to."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise _InDoubt
    value = root
    for part in reference[1:].split("/")[1:]:
        value = value.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(value, Mapping) else None
    return value
