"""The value of a run's last expression, as the bytes of /out/result.json or result.txt (docs/spec/6-runners.md, Monty).

Invariant: the work and the bytes are bounded before anything is rendered: a small value can refer to the same list a
million times, and its rendering would not be small.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from threegate.core import limits

_PLAIN = (str, int, float, bool, type(None))


class ValueTooLarge(Exception):
    """The rendering would exceed RESULT_VALUE_BYTES or RESULT_VALUE_NODES."""


def render_value(value: Any) -> tuple[str, bytes] | None:
    """The file name and bytes for a value, or None for None (an expression without a value leaves no file).

    JSON if the value is JSON (tuples are arrays), else the text of a string or of `repr`. Raises ValueTooLarge.
    """
    if value is None:
        return None
    survey = _Survey()
    survey.measure(value, 1)
    name, data = "", b""
    if survey.plain:
        with suppress(ValueError, RecursionError):
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=None, separators=(", ", ": "))
            name, data = "result.json", text.encode("utf-8") + b"\n"
    if not name:
        name, data = "result.txt", _text(value).encode("utf-8", "backslashreplace") + b"\n"
    if len(data) > limits.RESULT_VALUE_BYTES:
        raise ValueTooLarge(f"more than {limits.RESULT_VALUE_BYTES} bytes")
    return name, data


def _text(value: Any) -> str:
    try:
        return value if isinstance(value, str) else repr(value)
    except RecursionError:
        raise ValueTooLarge(f"nested deeper than {limits.RESULT_VALUE_DEPTH}") from None
    except ValueError:
        raise ValueTooLarge("an integer with too many digits to be written") from None


class _Survey:
    """Measures a value without rendering it; a shared part is visited once and counted each time."""

    def __init__(self) -> None:
        self.plain = True
        """Whether everything that was measured is JSON."""
        self._known: dict[int, tuple[int, int]] = {}
        self._looked_at = 0

    def measure(self, item: Any, depth: int) -> tuple[int, int]:
        """Parts and bytes of the rendering. Raises ValueTooLarge."""
        if isinstance(item, _PLAIN):
            if isinstance(item, float) and not math.isfinite(item):
                self.plain = False
            return 1, len(item) if isinstance(item, str) else item.bit_length() // 3 if isinstance(item, int) else 1
        if depth > limits.RESULT_VALUE_DEPTH:
            raise ValueTooLarge(f"nested deeper than {limits.RESULT_VALUE_DEPTH}")
        if (known := self._known.get(id(item))) is not None:
            return known
        nodes, size = 1, 2
        for part in self._parts(item):
            self._looked_at += 1
            part_nodes, part_size = self.measure(part, depth + 1)
            nodes, size = nodes + part_nodes, size + part_size
            most = max(nodes, self._looked_at)
            if most > limits.RESULT_VALUE_NODES or size > limits.RESULT_VALUE_BYTES:
                raise ValueTooLarge(f"more than {limits.RESULT_VALUE_NODES} parts or {limits.RESULT_VALUE_BYTES} bytes")
        self._known[id(item)] = nodes, size
        return nodes, size

    def _parts(self, item: Any) -> Iterable[Any]:
        if isinstance(item, dict):
            self.plain = self.plain and all(isinstance(key, str) for key in item)
            return itertools.chain(item.keys(), item.values())
        if isinstance(item, (list, tuple)):
            return item
        self.plain = False
        if isinstance(item, (set, frozenset)):
            return item
        if isinstance(item, bytes):
            return (item.decode("latin-1"),)
        attributes = getattr(item, "attributes", None)
        return attributes.values() if isinstance(attributes, dict) else ()
