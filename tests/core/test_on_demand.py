"""Packages whose names are loaded at their first use give all of them, and each is the one that its module has."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import threegate
from threegate.core.on_demand import on_demand

ROOMS = ("approval", "contracts", "request", "results")


def _checked(room: str) -> dict[str, str]:
    """What type checkers are told: the module of each name."""
    source = Path(threegate.__file__).parent.joinpath(room, "__init__.py").read_text()
    return {
        alias.name: str(node.module)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"threegate.{room}.")
        for alias in node.names
    }


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_is_given_and_none_is_hidden_by_a_module(room: str) -> None:
    package = import_module(f"threegate.{room}")
    homes = _checked(room)
    assert set(homes) == set(package.__all__)
    folder = Path(str(package.__file__)).parent
    for name, home in homes.items():
        assert getattr(package, name) is getattr(import_module(home), name)
        assert not (folder / name).exists() and not (folder / f"{name}.py").exists()


def test_a_name_that_nothing_gives_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'threegate.approval' has no attribute 'nothing'"):
        on_demand("threegate.approval", {"keys": "PublicKey"})("nothing")
