"""Root takes a part of another account's draft, whose file becomes that account's: no other file does."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from tests.plugins.changes.adversarial.test_a_part_and_the_whole import AFTER, BEFORE, taken
from tests.plugins.changes.end_to_end.test_change_sets import Proposed
from threegate.core import durable
from threegate.core.errors import ThreeGateError


@pytest.mark.root
def test_a_hard_link_in_the_place_of_the_new_draft(tmp_path: Path) -> None:
    change = Proposed(tmp_path, BEFORE, AFTER)
    os.chown(change.draft, 4242, 4242)
    inbox, victim = change.draft.parent, tmp_path / "of root"
    victim.write_text("secret")

    def exchange(moment: str, operation: str, path: str) -> None:
        for name in os.listdir(inbox):
            if name.startswith("."):
                (inbox / name).unlink()
                os.link(victim, inbox / name)

    forget = durable.observe(exchange)
    try:
        with suppress(ThreeGateError, OSError):
            taken(change.place, change.draft, "a")
    finally:
        forget()
    assert victim.stat().st_uid == 0 and victim.read_text() == "secret"
