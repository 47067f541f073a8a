"""Values in files of a run's folder and of its workspace's state, which only this program writes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

from threegate.core import durable

_T = TypeVar("_T")


def read_value(kind: type[_T], path: Path, *, max_bytes: int) -> _T:
    """The value of a kind in a file of JSON. Raises OSError, ValueError."""
    return cast(_T, _adapter(cast(Any, kind)).validate_json(durable.read_regular(path, max_bytes=max_bytes)))


def to_json(value: object) -> bytes:
    """What `read_value` reads."""
    return _adapter(cast(Any, type(value))).dump_json(value) + b"\n"


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
