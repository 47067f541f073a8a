"""Joiners and variation selectors in the names of a project's files, as tests/request/test_joiners.py has them."""

from __future__ import annotations

import pytest

from tests.request.test_joiners import HIDDEN, NEEDED
from threegate.plugins.changes.path_rules import path_problem
from threegate.plugins.changes.project_paths import collision_key


@pytest.mark.parametrize("text", NEEDED.values(), ids=list(NEEDED))
def test_what_a_script_needs_is_part_of_a_name(text: str) -> None:
    assert path_problem(f"docs/{text.strip()}.md") is None


@pytest.mark.parametrize("text", HIDDEN.values(), ids=list(HIDDEN))
def test_everywhere_else_it_is_none(text: str) -> None:
    assert path_problem(f"docs/{text}.md") is not None


def test_names_that_differ_only_in_joiners_are_one_name() -> None:
    assert collision_key("کار\u200cها") == collision_key("کارها")
    assert collision_key("❤\ufe0f") == collision_key("❤")
