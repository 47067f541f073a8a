"""A clone has a whole workspace in it: settings, operators, and a request that these approved.

Nothing of it runs by any command, whether or not the person has a workspace of their own. If they have, it is not even
read: what they type in the clone concerns their own.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import Place, make_key, make_place, monty_draft, threegate
from threegate.core.workspace import default_workspace

TRAP = "TR-20261127-120000Z-trap"
COMMANDS = (
    ("run", "--once"),
    ("status",),
    ("approve", TRAP),
    ("show", TRAP),
    ("draft", "--again", TRAP),
    ("audit", "verify"),
    ("audit", "show"),
    ("contracts", "check"),
    ("operator", "list"),
    ("operator", "record", "--yes"),
    ("settings", "check"),
    ("settings", "show"),
    ("settings", "adopt", "--yes"),
    ("run", "--once"),
    ("cancel", TRAP),
)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of what an attacker made with their own state folder; the request is approved and waits for a daemon."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    with monkeypatch.context() as attacker:
        attacker.setenv("XDG_STATE_HOME", str(theirs / "state"))
        place = make_place(theirs)
        place.approve(place.drop(monty_draft(TRAP, "print('it', 'ran')")))
    return shutil.copytree(place.root, tmp_path / "clone")


def seen(root: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_nothing_of_it_runs(clone: Path) -> None:
    """Without a workspace of their own: it is looked at, as a copied workspace is, and starts nothing."""
    place = Place(clone, clone)
    for words in COMMANDS:
        assert (clone / f"tool-exec/approved/{TRAP}.md").exists(), "the trap is still set"
        done = place.run(*words)
        assert not place.events("claimed") + place.events("started"), (words, done)
        assert "it ran" not in done.out and not list((clone / "tool-exec/runs").iterdir()), (words, done)
        if words[0] == "run":
            assert "settings adopt" in done.err


def test_nothing_of_it_is_used_by_who_has_a_workspace(clone: Path) -> None:
    mine = default_workspace()
    key = make_key(clone.parent / "key")
    assert threegate("init", str(mine), "--key", f"{key}.pub", cwd=clone).code == 0
    before = seen(clone)
    for words in COMMANDS:
        done = threegate(*words, cwd=clone)
        assert done.err.count(f"threegate: {clone}: a workspace that you did not make here") == 1, (words, done)
        assert seen(clone) == before, (words, done)
    assert not Place(mine, key).events("claimed")
