"""The arguments of the door's tools: what is allowed, and one line about what is wrong.

Invariant: an unknown key, a wrong type or a value out of range is refused; no message repeats a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar

from pydantic import Field, ValidationError

from threegate.core import limits
from threegate.core.errors import InvalidInput
from threegate.core.record import Record, schema_of

_NAME: Final = re.compile(r"[a-z_]{1,32}").fullmatch


class Arguments(Record):
    """The arguments of one tool."""


_A = TypeVar("_A", bound=Arguments)

_FILES: Any = Field(
    default=(),
    strict=False,
    max_length=limits.DOOR_FILES,
    description="paths of project files; each is /in/<its name> there",
)
_WAIT: Any = Field(
    default=None,
    ge=0,
    le=limits.DOOR_WAIT_SECONDS,
    description="seconds to wait before the answer is `pending`",
)
_PURPOSE: Any = Field(
    min_length=1, max_length=limits.PURPOSE_CHARS, description="one line for the person who decides: why"
)
_AGAIN: Any = Field(default=False, description="ask once more for a call that a person rejected")
_REQUEST: Any = Field(pattern=r"^[A-Za-z0-9._-]{1,128}$", description="the request_id of an earlier answer")


class RunPython(Arguments):
    """Arguments of `run_python`."""

    code: str = Field(min_length=1, max_length=limits.REQUEST_BYTES, description="the complete code; writes to /out")
    purpose: str = _PURPOSE
    inputs: dict[str, Any] | None = Field(
        default=None, description="variables of the code, by name; with where: era only /in/inputs.json"
    )
    files: tuple[str, ...] = _FILES
    time_limit_sec: int = Field(default=60, ge=1, le=limits.REQUEST_MAX_TIME_SEC)
    where: Literal["auto", "monty", "era"] = Field(
        default="auto",
        description="auto: Monty (fast, a subset of Python) if it can run the code, else era (CPython in a sandbox)",
    )
    wait_sec: int | None = _WAIT
    again: bool = _AGAIN


class RunProgram(Arguments):
    """Arguments of `run_program`."""

    argv: tuple[str, ...] = Field(
        strict=False, min_length=1, max_length=256, description="the program and its arguments, no shell"
    )
    purpose: str = _PURPOSE
    files: tuple[str, ...] = _FILES
    hosts: tuple[str, ...] = Field(
        default=(),
        strict=False,
        max_length=limits.ALLOWLIST_ENTRIES,
        description="host:port that it may reach",
    )
    time_limit_sec: int = Field(default=60, ge=1, le=limits.REQUEST_MAX_TIME_SEC)
    wait_sec: int | None = _WAIT
    again: bool = _AGAIN


class ProposeChanges(Arguments):
    """Arguments of `propose_changes`."""

    purpose: str = _PURPOSE
    paths: tuple[str, ...] = Field(
        default=(),
        strict=False,
        max_length=limits.DOOR_FILES,
        description="files or folders of the project; default: everything you changed",
    )
    wait_sec: int | None = _WAIT
    again: bool = _AGAIN


class RequestHost(Arguments):
    """Arguments of `request_host`."""

    host: str = Field(min_length=1, max_length=limits.HOST_CHARS, description="its exact name, no wildcard or address")
    why: str = _PURPOSE
    port: int = Field(default=443, description="443 is the only one")
    wait_sec: int | None = _WAIT


class Wait(Arguments):
    """Arguments of `wait`."""

    request_id: str = _REQUEST
    wait_sec: int | None = _WAIT
    again: bool = Field(default=False, description="after a rejection: let the same call ask once more")


class Requests(Arguments):
    """Arguments of `requests`."""


class ReadOutput(Arguments):
    """Arguments of `read_output`."""

    request_id: str = _REQUEST
    path: str = Field(
        min_length=1, max_length=limits.TAR_PATH_BYTES, description="a path of `outputs`, or of a cut answer"
    )
    offset: int = Field(default=0, ge=0, le=limits.RELEASED_BYTES, description="bytes to skip")
    length: int | None = Field(
        default=None, ge=1, le=limits.DOOR_READ_BYTES, description="most bytes to return; default: a bounded answer"
    )


class Cancel(Arguments):
    """Arguments of `cancel`."""

    request_id: str = _REQUEST


def short_schema(model: type[Arguments]) -> dict[str, Any]:
    """The schema for an agent, which has it in its context all the time: without what only a validator needs.

    What is left out is refused with one line that says what is wrong.
    """
    properties = {}
    for name, told in schema_of(model)["properties"].items():
        kept = {key: value for key, value in told.items() if key in ("type", "enum", "items", "description")}
        if "anyOf" in told:  # or null, which nobody needs to give
            kept["type"] = next(option["type"] for option in told["anyOf"] if option.get("type") != "null")
        if told.get("default") not in (None, False, [], ()):
            kept["default"] = told["default"]
        if kept.get("type") in ("integer", "number") and "maximum" in told:
            kept["maximum"] = told["maximum"]
        properties[name] = kept
    required = [name for name, field in model.model_fields.items() if field.is_required()]
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def read_arguments(model: type[_A], arguments: Mapping[str, Any]) -> _A:
    """The arguments of a tool. Raises InvalidInput with one line."""
    try:
        return model.model_validate(dict(arguments))
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False, include_url=False)[0]
        name = next((part for part in first["loc"] if isinstance(part, str)), "")
        known = ", ".join(model.model_fields) or "none"
        if first["type"] == "extra_forbidden":
            shown = f"{name!r} " if _NAME(name) else ""
            raise InvalidInput(f"no argument {shown}here; known arguments: {known}") from None
        what = first["msg"][:1].lower() + first["msg"][1:]
        raise InvalidInput(f"{name or 'the arguments'}: {what}") from None
