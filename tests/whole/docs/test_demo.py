"""`make demo` fits on a screen and a half, and its last lines work as it prints them, in the state that it left."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scripts.type_tour import ROOT, type_in_terminal
from tests.conftest import lacks_jail, missing

MOST_LINES = 60
OF_MAKE = 1
"""What make itself prints once: the line that makes the environment."""


@pytest.mark.slow
def test_the_demo_is_short_and_its_next_lines_work(tmp_path: Path) -> None:
    if (lacking := lacks_jail()) != "":
        missing(lacking)
    state = tmp_path / "state"  # as type_in_terminal sets it
    environment = {**os.environ, "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(state)}
    words = ["make", "--no-print-directory", "demo", "--old-file=.venv/.demo"]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "" and len(done.stdout.splitlines()) + OF_MAKE <= MOST_LINES
    [home] = tmp_path.glob("threegate-demo-*")

    following = done.stdout.partition("\n── next: ")[2].splitlines()[1:]
    removal = following.pop()
    assert removal.startswith(f"cd && rm -r {home} ")
    assert [line.split()[1] for line in following if line.startswith("threegate")] == ["approve", "run", "show"]
    code, shown = type_in_terminal("\n".join(following), tmp_path, "yes\n", commands=Path("/nowhere"))
    assert code == 0 and "status: succeeded" in shown and "median 120" in shown, shown
    assert type_in_terminal(removal, tmp_path, "")[0] == 0
    assert not home.exists() and list((state / "threegate").iterdir()) == []
