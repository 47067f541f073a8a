"""Rules that a tool's JSON Schema implies: <tool>.schema.json next to the contract, bare or in a tool
definition.

Invariant: a derived rule only ever adds a refusal. What JSON Schema leaves optional may be missing; a present
value must satisfy the keyword and have its type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from threegate.contracts.comparisons import Entry
from threegate.contracts.diagnostics import Diagnostic, error
from threegate.contracts.json_paths import BadPath
from threegate.contracts.path_compiler import compile_path
from threegate.core import limits
from threegate.core.canonical import StrictJSONError, loads_strict
from threegate.core.json_operators import BadPattern, is_number

_NUMBERS = {
    "minimum": "gte",
    "maximum": "lte",
    "exclusiveMinimum": "exclusive_minimum",
    "exclusiveMaximum": "exclusive_maximum",
}
_LENGTHS = {"minLength": "min_length", "maxLength": "max_length"}
_PARAMETERS = ("parameters", "parametersJsonSchema", "input_schema", "inputSchema")
"""Where tool definitions have the schema of their arguments; Bedrock has it in `json` there."""
_NOT_DERIVED = ("anyOf", "oneOf", "not", "if", "patternProperties", "prefixItems")


@dataclass(frozen=True, slots=True)
class Derived:
    """The entries that one schema implies, and the schema of the arguments."""

    entries: tuple[Entry, ...]
    parameters: Any


def read_parameters(tool: str, data: bytes) -> Any:
    """The schema of a tool's arguments, of whatever use it is; True, which describes nothing, for an unreadable one."""
    try:
        schema = loads_strict(data, max_bytes=limits.CONTRACT_FILE_BYTES, max_depth=limits.CONTRACT_DEPTH)
    except StrictJSONError:
        return True
    return _parameters(schema, tool)


def derive(file: str, tool: str, data: bytes) -> tuple[Derived | None, list[Diagnostic]]:
    """Read the schema file of a tool. Returns the entries and the diagnostics; None if it cannot be used."""
    try:
        schema = loads_strict(data, max_bytes=limits.CONTRACT_FILE_BYTES, max_depth=limits.CONTRACT_DEPTH)
    except StrictJSONError as problem:
        return None, [error("BAD_SCHEMA", file, str(problem))]
    schema = _parameters(schema, tool)
    walk = _Walk(file, schema)
    try:
        walk.visit(schema, "$", required=True, depth=0)
    except _Bad as problem:
        return None, [error("BAD_SCHEMA", file, str(problem))]
    except BadPattern as problem:
        return None, [error("BAD_REGEX", file, str(problem))]
    except BadPath as problem:
        return None, [error("BAD_JSONPATH", file, str(problem))]
    if not walk.entries:
        message = "no rule can be derived from this file; add bounds, patterns or choices, or remove it"
        return None, [error("BAD_SCHEMA", file, message), *walk.diagnostics]
    return Derived(tuple(walk.entries), schema), walk.diagnostics


def _parameters(schema: Any, tool: str) -> Any:
    """The schema of the arguments: from a model provider's (OpenAI, Anthropic, Gemini, Bedrock) or MCP's tool
    definition, or the file itself. References inside a definition start there.
    """
    if not isinstance(schema, dict):
        return schema
    if isinstance(declared := schema.get("functionDeclarations", schema.get("function_declarations")), list):
        named = [item for item in declared if isinstance(item, dict) and item.get("name") == tool]
        schema = named[0] if len(named) == 1 else schema
    word = "function" if schema.get("type") == "function" else "toolSpec"
    if isinstance(schema.get(word), dict):
        schema = schema[word]
    if isinstance(schema.get("name"), str):
        for word in _PARAMETERS:
            if word in schema:
                found = schema[word]
                return found["json"] if isinstance(found, dict) and found.keys() == {"json"} else found
    return schema


class _Bad(ValueError):
    """The schema cannot be read."""


class _Walk:
    def __init__(self, file: str, root: Any) -> None:
        self.file = file
        self.root = root
        self.entries: list[Entry] = []
        self.diagnostics: list[Diagnostic] = []
        self.visited = 0

    def visit(self, schema: Any, path: str, *, required: bool, depth: int) -> None:
        """Collect the rules of one (sub)schema."""
        self.visited += 1
        if self.visited > limits.CONTRACT_NODES:  # references that each lead to several multiply
            raise _Bad(f"more than {limits.CONTRACT_NODES} schemas, counted at each reference")
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            raise _Bad(f"the schema at {path} is not an object")
        if depth > limits.CONTRACT_SCHEMA_DEPTH:
            self._skipped(path, "a $ref that leads too deep")
            return
        operators = dict(_operators(schema, path))
        if operators:
            self.entries.append(Entry(compile_path(path), operators, optional=not required))
            if len(self.entries) > limits.CONTRACT_SCHEMA_RULES:
                raise _Bad(f"more than {limits.CONTRACT_SCHEMA_RULES} rules")
        for word in _NOT_DERIVED:
            if word in schema:
                self._skipped(path, word)
        if "$ref" in schema:
            target = self._target(schema["$ref"])
            if target is None:
                self._skipped(path, "a $ref out of the file")
            else:
                self.visit(target, path, required=required, depth=depth + 1)
        for part in _list(schema, "allOf", path):
            self.visit(part, path, required=required, depth=depth + 1)
        names = _list(schema, "required", path)
        properties = schema.get("properties", {})
        if not isinstance(properties, dict):
            raise _Bad(f"properties at {path} is not an object")
        for name, below in properties.items():
            self.visit(below, f"{path}[{_quoted(name)}]", required=required and name in names, depth=depth + 1)
        if "items" in schema:
            self.visit(schema["items"], f"{path}[*]", required=False, depth=depth + 1)

    def _target(self, reference: Any) -> Any:
        """The target of a local reference, None for any other."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        value = self.root
        for part in reference[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(value, dict) or name not in value:
                raise _Bad(f"there is nothing at {reference[:100]}")
            value = value[name]
        return value

    def _skipped(self, path: str, what: str) -> None:
        self.diagnostics.append(error("SCHEMA_NOT_DERIVED", self.file, f"{what} at {path}"))


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _list(schema: Mapping[str, Any], word: str, path: str) -> list[Any]:
    value = schema.get(word, [])
    if not isinstance(value, list):
        raise _Bad(f"{word} at {path} is not a list")
    return value


def _operators(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """The operators equivalent to the keywords of one schema."""
    for word, operator in _NUMBERS.items():
        if word in schema:
            if not is_number(schema[word]):
                raise _Bad(f"{word} at {path} is not a number")
            yield operator, schema[word]
    for word, operator in _LENGTHS.items():
        if word in schema:
            if not isinstance(schema[word], int) or isinstance(schema[word], bool):
                raise _Bad(f"{word} at {path} is not a whole number")
            yield operator, schema[word]
    if "pattern" in schema:
        if not isinstance(schema["pattern"], str):
            raise _Bad(f"pattern at {path} is not a string")
        yield "regex", schema["pattern"]
    if "enum" in schema:
        yield "one_of", _list(schema, "enum", path)
    if "const" in schema:
        yield "equals", schema["const"]
