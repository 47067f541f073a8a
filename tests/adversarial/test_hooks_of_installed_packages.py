"""A package that is installed beside ThreeGate and registers code with a library of ours: it is not loaded.

Nothing is discovered (docs/adr/0013-plugins.md); pydantic looks for such code in every package, by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import THREEGATE, Place

_HOOK = "import pathlib\npathlib.Path(__file__).with_name('loaded').touch()\n"
_MODEL = "import pydantic\nclass Some(pydantic.BaseModel): x: int\n"


@pytest.mark.parametrize("words", [["contracts", "check"], ["run", "--once"]])
def test_pydantic_loads_none(words: list[str], place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "packages"
    facts = folder / "hook-1.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: hook\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[pydantic]\nhook = hook:seen\n")
    (folder / "hook.py").write_text(_HOOK)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    bare = subprocess.run([sys.executable, "-c", _MODEL], env=environment, capture_output=True, text=True, timeout=60)
    assert (folder / "loaded").exists(), bare.stderr  # else this test could not fail
    (folder / "loaded").unlink()
    command = [*THREEGATE, "--workspace", str(place.root), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not (folder / "loaded").exists()
