"""From a document to a model: pydantic's errors as diagnostics with a code and a position.

Invariant: there is a model only if every field is known and has its type, and nothing is empty: an empty
`policy:` is a rule that someone forgot to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError

from threegate.contracts.diagnostics import Diagnostic
from threegate.contracts.document import Document, KeyPath
from threegate.core.record import Record

M = TypeVar("M", bound=Record)

_OPERATOR_LISTS = frozenset(
    {"input_invariants", "output_invariants", "argument_value_invariants", "arguments", "with_output", "when", "not"}
)
_FREE = frozenset({"equals", "one_of", "output"})


def load_model(document: Document, model: type[M], environment: Mapping[str, str]) -> M | list[Diagnostic]:
    """Validate a document. Returns the model, or every error; `environment` has the values for `equals_env`."""
    if not isinstance(document.value, dict):
        return [document.error("BAD_TYPE", (), "the file is a mapping of fields to values")]
    empty = [
        document.error("BAD_TYPE", path, "is empty; give a value or leave the field out")
        for path in _empty(document.value, ())
    ]
    try:
        loaded = model.model_validate(document.value, context=environment)
    except ValidationError as error:
        items = [
            (item, *_locate(document.value, item["loc"]))
            for item in error.errors(include_input=False, include_url=False)
        ]
        found: dict[KeyPath, Diagnostic] = {}
        for item, path, value in items:
            if item["type"] == "literal_error" and isinstance(value, list) and _deeper(items, path):
                continue  # the other branch of a union is about the list's entries
            if item["type"] in ("missing", "extra_forbidden"):
                name = str(item["loc"][-1])
                path = (*path, name) if path[-1:] != (name,) else path
            found.setdefault(path, _diagnostic(document, path, item, model))
        return sorted({*empty, *found.values()})
    return empty or loaded


def _deeper(items: list[tuple[Any, KeyPath, Any]], path: KeyPath) -> bool:
    """Whether there is another error below `path`."""
    return any(len(other) > len(path) and other[: len(path)] == path for _, other, _ in items)


def _locate(value: Any, location: tuple[int | str, ...]) -> tuple[KeyPath, Any]:
    """The part of a pydantic location that exists in the document (the rest are names of union branches)."""
    path: list[str | int] = []
    for part in location:
        is_key = isinstance(value, dict) and isinstance(part, str) and part in value
        if is_key or (isinstance(value, list) and isinstance(part, int) and part < len(value)):
            value = value[part]
            path.append(part)
    return tuple(path), value


def _diagnostic(document: Document, path: KeyPath, item: Any, model: type[Record]) -> Diagnostic:
    name = str(path[-1]) if path else ""
    if item["type"] == "extra_forbidden":
        around = [part for part in path[:-1] if isinstance(part, str)][-1:]
        if around and (around[0] in _OPERATOR_LISTS or around[0] == "principal"):
            return document.error("UNKNOWN_OPERATOR", path, f"no operator {name!r} here")
        return document.error("UNKNOWN_FIELD", path, f"no field {name!r} here{_nearest(name, model)}")
    if item["type"] == "missing":
        if name == "principal":
            return document.error("POLICY_WITHOUT_PRINCIPAL", path, "does not name its subject")
        return document.error("MISSING_FIELD", path, f"{name!r} is required")
    return document.error("BAD_TYPE", path, item["msg"][:1].lower() + item["msg"][1:])


def _nearest(name: str, model: type[Record]) -> str:
    """The field of the model, or of what is in it, that was probably meant."""
    schema = model.model_json_schema(by_alias=True)
    parts = (schema, *schema.get("$defs", {}).values())
    names = {field for part in parts for field in part.get("properties", ())}
    return "".join(f"; did you mean {known!r}?" for known in get_close_matches(name, names, 1, 0.75))


def _empty(value: Any, path: KeyPath) -> list[KeyPath]:
    """Every field without a value, except in the free JSON of operators and cases."""
    found = []
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in members:
        here = (*path, key)
        if (key in _FREE and (item is not None or key != "one_of")) or (
            path[:1] == ("golden_cases",) and len(path) == 2 and key in ("arguments", "principal")
        ):
            continue
        if item is None:
            found.append(here)
        else:
            found.extend(_empty(item, here))
    return found
