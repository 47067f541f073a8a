"""A backend whose requests are of version 2, as plugins bring them: it reads its code like Monty, for a project."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from threegate.request.action import Action, Script
from threegate.request.backend import BACKENDS, Reading
from threegate.runners.monty.backend import Monty


class ForProject(Script):
    """Code, with the keys that say what it is for."""

    __slots__ = ()

    def keys(self) -> Mapping[str, str]:
        """Its own."""
        return {"project": "web", "server": "notes", "manifest_sha256": "a" * 64, "host": "a.example.com"}


class Newer(Monty):
    """What each member is for is said where it is defined."""

    name = "newer"
    language = ""
    version = "2"
    keys = ("project",)
    optional = ("deliver", "server", "tool", "manifest_sha256", "host")
    lists: ClassVar[Mapping[str, Any]] = {"inputs": {"minItems": 1}, "outputs_expected": {"maxItems": 0}}
    no_outputs = "TG243", "it leaves no files in /out; write none"

    def read(self, reading: Reading) -> Action | None:
        """Its code, and values that may name whatever they like."""
        code = reading.block("Code", "TG221", "python", lambda text: ())
        values = reading.block("Inputs (JSON)", "TG222", "json", lambda text: (), mentions_all=True)
        return None if code is None else ForProject(code, values)

    def check(self, values: Mapping[str, Any], written: Container[str], wrong: Callable[[str, str, str], None]) -> None:
        """No project is called none."""
        if values.get("project") == "none":
            wrong("TG171", "project", "must be another")


@contextmanager
def newer() -> Iterator[str]:
    """While it is one line of the table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BACKENDS.loaded, "newer", Newer())
        yield "newer"
