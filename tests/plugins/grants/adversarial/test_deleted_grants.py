"""The folder of the plugin is deleted for real, from the command line, while a request waits under a grant."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.plugins.grants.test_grants import drop
from tests.support import Done, make_place, threegate
from threegate.core.workspace import Workspace
from threegate.launch.context import open_context
from threegate.plugins.grants.promotion import use_grants
from threegate.plugins.grants.standing_grants import list_grants
from threegate.trail.trail import Trail

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.slow
def test_what_waits_under_a_grant_runs_only_once_its_code_is_back(tmp_path: Path) -> None:
    place = make_place(tmp_path, settings={"grants.allow": True})
    workspace = Workspace(place.root)
    first = drop(place, "first", "2026-01")
    place.approve(first)
    place.once()
    words = ["--widen", "vars.month ~ 2026-(0[1-9]|1[0-2])", "--max-uses", "2", "--expires", "1h", "--yes"]
    place.run("grant", "new", first.stem, *words, "--as", "operator", "--key", str(place.key), expect=0)
    used = drop(place, "used", "2026-02")
    place.once()
    waits = drop(place, "waits", "2026-03")
    assert len(use_grants(open_context(workspace))) == 1
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "threegate", tree / "threegate", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("schemas", "sandbox"):
        (tree / name).symlink_to(ROOT / name)
    shutil.rmtree(tree / "threegate" / "plugins" / "grants")

    def without(*words: str, code: int = 0) -> Done:
        done = threegate(*words, cwd=place.root, env={"PYTHONPATH": str(tree)})
        assert done.code == code, f"{words}: exit {done.code}\n{done.out}\n{done.err}"
        return done

    assert "the plugin grants is not part of this installation" in without("run", "--once").err
    assert "approval_not_judged" in without("--json", "status").out
    assert "verifies" in without("audit", "verify").out
    assert "recorded granted, a kind of event that is not known here" in without("audit", "show").out
    shown = " ".join(without("show", used.stem).out.split())
    assert "not signed individually" in shown and "under grant" in shown
    without("audit", "approval", waits.stem, code=2)
    ran = [event["request_id"] for event in place.events("claimed")]
    assert waits.stem not in ran and len(ran) == 2
    assert [standing.uses for standing in list_grants(workspace, Trail(workspace))] == [1]
    place.once()
    assert [event["request_id"] for event in place.events("claimed")][2:] == [waits.stem]
    assert [standing.uses for standing in list_grants(workspace, Trail(workspace))] == [2]
