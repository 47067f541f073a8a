"""GET /metrics: the numbers of the workspace, behind the token of everything else."""

from __future__ import annotations

from pathlib import Path

import httpx
from fastapi.testclient import TestClient

from tests.support import make_place
from threegate.aana import DecisionLog
from threegate.core.workspace import Workspace
from threegate.plugins.serve.gauge import WorkspaceGauge
from threegate.plugins.serve.http_app import HttpOptions, create_app, numbers_of


def test_over_http_with_the_same_token_as_everything_else(tmp_path: Path) -> None:
    workspace = Workspace(make_place(tmp_path).root)
    gauge = WorkspaceGauge(workspace)
    options = HttpOptions(token="t" * 20, log=DecisionLog(workspace.decisions_file), metrics=gauge.text)
    client = TestClient(create_app(options))
    assert client.get("/metrics").status_code == 401
    answer = client.get("/metrics", headers={"Authorization": "Bearer " + "t" * 20})
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "\nthreegate_daemon_running 0.0\n" in answer.text
    with workspace.daemon_lock():
        again = client.get("/metrics", headers={"Authorization": "Bearer " + "t" * 20})
        assert "\nthreegate_daemon_running 1.0\n" in again.text
    bare = TestClient(create_app(HttpOptions(token=None, log=DecisionLog(workspace.decisions_file))))
    assert bare.get("/metrics").status_code == httpx.codes.NOT_FOUND
    assert bare.post("/metrics").status_code == 405


def test_the_numbers_need_a_workspace_and_nothing_of_its_settings(tmp_path: Path) -> None:
    workspace = Workspace(make_place(tmp_path).root)
    workspace.settings_file.write_text("no toml")
    numbers = numbers_of(workspace, workspace.decisions_file)
    assert numbers is not None and b"threegate_build_info" in numbers()
    assert numbers_of(None, workspace.decisions_file) is None
