"""What was changed × does a waiting approval survive, for what plugins have: their settings, a project."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.launch.launching import CountingRunner
from tests.launch.test_void_approvals import approved, ends, put
from threegate.cli import execute

CHANGES: dict[str, Callable[[Bench], None]] = {
    "notices": put(notify__urls=["json://127.0.0.1:1/x"]),
    "the default project": put(project__root="/srv/project"),
    "what agents never see": put(agents__protected=["*.pem"]),
    "grants": put(grants__allow=True),
    "a plugin off": put(plugins__off=["drills"]),
}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


@pytest.mark.parametrize("change", CHANGES)
def test_what_no_approval_depends_on_voids_none(bench: Bench, change: str) -> None:
    runner = CountingRunner()
    _, path = approved(bench, "monty")
    CHANGES[change](bench)
    assert ends(bench, path, runner).code == "succeeded"


def test_a_project_that_is_registered_voids_nothing(bench: Bench, tmp_path: Path) -> None:
    runner = CountingRunner()
    (folder := tmp_path / "web").mkdir()
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    _, path = approved(bench, "monty")
    assert execute(["--workspace", str(bench.workspace.root), "project", "add", "web", str(folder)]) == 0
    assert ends(bench, path, runner).code == "succeeded"
