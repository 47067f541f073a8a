"""The tables of what Monty lacks are those of the installed Monty: a new version is noticed."""

from __future__ import annotations

import sys

import pytest

from scripts.probe_monty import WRITTEN, measured, module_text
from threegate.request.monty_lacks import METHODS, MISSING_BUILTINS, NOWHERE


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the file has the names of Python 3.11")
def test_the_file_is_what_the_installed_monty_says() -> None:
    written = WRITTEN.read_text("utf-8")
    assert written.split() == module_text(measured()).split(), "run scripts/probe_monty.py"


def test_the_tables_are_of_the_pinned_version() -> None:
    from importlib.metadata import version

    assert f"What Monty {version('pydantic-monty')} lacks" in WRITTEN.read_text("utf-8")
    assert METHODS.isdisjoint(NOWHERE) and "callable" in MISSING_BUILTINS and "print" not in MISSING_BUILTINS
