"""The one base of pydantic models, and the JSON Schemas that are generated from them.

Invariant: what comes from outside is read strictly, and whole or not at all: no unknown key, no conversion between
types, no change afterwards, and no error that repeats a value.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_NULL: Final = {"type": "null"}
_PLAIN: Final = re.compile(r"[a-z_]{1,32}").fullmatch


class Record(BaseModel):
    """Base of all models: frozen, strict, no unknown field. A value that is derived is a `cached_property`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


def first_problem(error: ValidationError) -> str:
    """What is wrong first, in one line that repeats no value, and no name that could be one."""
    first = error.errors(include_input=False, include_context=False, include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or _PLAIN(part))
    return f"{where or 'the value'}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def without_null(schema: dict[str, Any]) -> None:
    """Of a model's schema (`json_schema_extra`): a field whose default is None is given or left out, never null."""
    fields = schema.get("properties", {})
    for name, field in fields.items():
        if field.get("default", _NULL) is None:
            options = [option for option in field.pop("anyOf", ()) if option != _NULL]
            del field["default"]
            fields[name] = {**(options[0] if len(options) == 1 else {"anyOf": options} if options else {}), **field}


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a model or another type, complete in itself: without titles and references."""
    schema = TypeAdapter(kind).json_schema()
    parts = schema.pop("$defs", {})

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            return plain({**parts[value["$ref"].rpartition("/")[2]], **{k: v for k, v in value.items() if k != "$ref"}})
        return {key: plain(item) for key, item in value.items() if key != "title" or not isinstance(item, str)}

    return dict(plain(schema))


def published(name: str, title: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A schema as it is published in `schemas/`."""
    head = {"$schema": DIALECT, "$id": f"https://threegate.dev/schemas/{name}.schema.json"}
    return {**head, "title": title, **{key: value for key, value in schema.items() if key != "title"}}
