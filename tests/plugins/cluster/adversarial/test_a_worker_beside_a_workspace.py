"""A worker whose folder is in somebody's workspace takes nothing of that workspace away."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from threegate.core.workspace import Workspace
from threegate.launch.caller_use import go_path
from threegate.plugins.cluster.worker import service


class Swept(Exception):
    """It has removed what a killed worker left, and would begin to work."""


def test_its_start_leaves_the_answers_to_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon wrote one for a call that is under way; without it, nobody knows how the call ended."""
    workspace = Workspace(tmp_path)
    workspace.make_folders()
    answer = go_path(workspace, "TR-1")
    answer.touch()

    def swept(*_: object) -> None:
        raise Swept

    told = SimpleNamespace(
        name="w", workspace_id="ws-1", mark="ws-1.w", key=SimpleNamespace(public=SimpleNamespace(render=str))
    )
    monkeypatch.setattr(service, "read_identity", lambda _: told)
    monkeypatch.setattr(service, "Broker", lambda *_: SimpleNamespace(check=lambda: None))
    monkeypatch.setattr(service, "images_of", lambda _: ("", ""))
    monkeypatch.setattr(service, "Outbox", swept)
    options = SimpleNamespace(
        identity="", settings=None, broker="", operators=tmp_path / "o", state=tmp_path / "worker", take_operators=False
    )
    with pytest.raises(Swept):
        service.run_worker(options, lambda line: None)  # type: ignore[arg-type]
    assert answer.exists()
