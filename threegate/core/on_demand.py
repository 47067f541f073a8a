"""What a package's `__init__` gives, each module loaded at the first use of one of its names (PEP 562).

A command that only looks at folders takes a name or two of a gate and must not pay for the whole gate. The `__init__`
imports its names under `TYPE_CHECKING`, so type checkers and import-linter see them, and sets `__getattr__` from here
otherwise.

Invariant: a name is never also that of a module of the package, which Python would set in its place;
tests/core/test_on_demand.py looks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_demand(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`. `names`: by module below the package, its names with spaces between."""
    homes = {name: module for module, given in names.items() for name in given.split()}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return load
