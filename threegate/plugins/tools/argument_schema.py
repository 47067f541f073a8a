"""Whether arguments fit a tool's JSON Schema, which its server provided and an operator signed.

Invariant: a server's schema is untrusted code, so its evaluation is bounded: patterns are matched in linear
time, nothing is fetched, and the steps of a check are counted. What cannot be decided is refused. No message
repeats a value. Source: JSON Schema 2020-12, which MCP assumes if a schema names no other draft.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import attrs
from jsonschema import ValidationError, validators
from jsonschema.exceptions import SchemaError
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from threegate.core import limits
from threegate.core.json_operators import BadPattern, compile_pattern

_UNDECIDED: Final = "the tool's schema cannot be applied"


class _TooMuchError(Exception):
    """The check takes more steps than any honest schema needs."""


def why_unfit(schema: Mapping[str, Any], arguments: Any) -> str | None:
    """What is wrong with the arguments, in one line that repeats no value; None if they fit."""
    known = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        wrong = _why_no_schema(json.dumps(schema))
        if wrong is not None:
            return f"{_UNDECIDED}: at {_shown(wrong)} it is not a JSON Schema"
        _CHECK.steps = 0
        found = next(_bounded(known)(schema, registry=REGISTRY).iter_errors(arguments), None)
    except BadPattern:
        return f"{_UNDECIDED}: it has a pattern that cannot be matched in linear time"
    except _TooMuchError:
        return f"{_UNDECIDED}: it takes more than {limits.TOOL_SCHEMA_STEPS} steps"
    except Exception:  # noqa: BLE001 - a gate that errs refuses: a reference to elsewhere, a circle of references
        return f"{_UNDECIDED}: it has an unresolved or endless reference"
    if found is None:
        return None
    if found.validator == "required":
        missing = [name for name in found.validator_value if name not in found.instance]
        return f"{_shown(found.json_path)} lacks {_shown(', '.join(map(str, missing)))}"
    return f"{_shown(found.json_path)} does not match the tool's schema ({found.validator or 'false'})"


@lru_cache(maxsize=limits.TOOL_SCHEMAS_KNOWN)
def _why_no_schema(text: str) -> str | None:
    """What is wrong with a schema according to its draft; None if it is valid.

    This takes most of the time of a check and depends only on the text of the schema.
    """
    schema = json.loads(text)
    try:
        validators.validator_for(schema, default=validators.Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        return error.json_path
    return None


def _shown(text: str) -> str:
    return text if len(text) <= limits.TOOL_SCHEMA_PATH_CHARS else f"{text[: limits.TOOL_SCHEMA_PATH_CHARS]}…"


_Check = Callable[..., Iterator[Any] | None]
_CHECK: Final = threading.local()
"""`steps`: how many keywords the check that this thread makes has applied."""


@lru_cache  # there are as many classes as drafts of JSON Schema
def _bounded(known: Any) -> Any:
    """The library's class of a draft, whose keywords count their steps, and whose patterns are RE2's."""

    def counted(check: _Check) -> _Check:
        def counting(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            _CHECK.steps += 1
            if _CHECK.steps > limits.TOOL_SCHEMA_STEPS:
                raise _TooMuchError
            yield from check(validator, value, instance, schema) or ()

        return counting

    ours = {"pattern": _pattern, "patternProperties": _pattern_properties, "additionalProperties": _additional}
    keywords = {
        name: counted(_refused if name == "unevaluatedProperties" else ours.get(name, check))
        for name, check in known.VALIDATORS.items()
    }
    bounded: Any = validators.extend(known, keywords)  # type: ignore[no-untyped-call]
    # The library's own changes to an unbounded class where a part of the schema names a draft.
    bounded.evolve = attrs.evolve
    return bounded


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not compile_pattern(pattern)(instance):
        yield ValidationError("does not match")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for pattern, below in patterns.items():
            found = compile_pattern(pattern)
            for name, value in instance.items():
                if found(name):
                    yield from validator.descend(value, below, path=name, schema_path=pattern)


def _additional(validator: Any, below: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    patterns = [compile_pattern(pattern) for pattern in schema.get("patternProperties", {})]
    for name, value in instance.items():
        if name in schema.get("properties", {}) or any(found(name) for found in patterns):
            continue
        if below is False:
            yield ValidationError("is not allowed")
        yield from validator.descend(value, below, path=name)


def _refused(validator: Any, below: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """The library matches patterns by itself here, without a bound."""
    raise BadPattern("unevaluatedProperties")
