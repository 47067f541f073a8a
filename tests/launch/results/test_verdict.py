"""Verdict files: derived, written only on change, never a way out of their folder."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from threegate.core import durable
from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.launch.results.verdict import Verdict, read_verdict, verdict_path, write_verdict
from threegate.request.exposure import EXPOSURE_KEYS, Exposure

VERDICT = Verdict(
    file="TR-x.md", sha256="a" * 64, request_id="TR-x", stage="draft", valid=False, state="invalid", reason="TG101",
    findings=({"rule": "TG101", "line": 1},), judgement={"route": "ask", "blockers": [], "contract": None},
)  # fmt: skip


@pytest.fixture(name="workspace")
def a_workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path)
    workspace.make_folders()
    return workspace


def test_it_is_written_only_when_it_says_something_new(workspace: Workspace) -> None:
    assert write_verdict(workspace, VERDICT)
    path = verdict_path(workspace, "TR-x.md")
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    seen: list[str] = []
    stop = durable.observe(lambda moment, operation, path: seen.append(operation))
    assert not write_verdict(workspace, replace(VERDICT, updated_utc=datetime(2030, 1, 1, tzinfo=UTC)))
    stop()
    assert path.read_bytes() == before and seen == []
    assert write_verdict(workspace, replace(VERDICT, state="draft", valid=True))
    assert list(json.loads(path.read_bytes())) == [
        "schema", "file", "sha256", "request_id", "stage", "valid", "state", "reason", "opacity", "opacity_reason",
        "scripts", "reach", "findings", "judgement", "fixes", "updated_utc",
    ]  # fmt: skip


def test_it_reads_back(workspace: Workspace) -> None:
    for exposure in (None, Exposure("transparent", "x", ("a.py",), ("network a:443",))):
        verdict = replace(VERDICT, exposure=exposure)
        write_verdict(workspace, verdict)
        assert read_verdict(workspace, "TR-x.md") == verdict
    assert read_verdict(workspace, "TR-none.md") is None


def test_a_verdict_without_opacity_and_reach_is_not_one(workspace: Workspace) -> None:
    write_verdict(workspace, VERDICT)
    path = verdict_path(workspace, "TR-x.md")
    value = json.loads(path.read_bytes())
    path.write_text(json.dumps({key: value[key] for key in value if key not in EXPOSURE_KEYS}))
    with pytest.raises(InvalidInput, match="is not a verdict"):
        read_verdict(workspace, "TR-x.md")


@pytest.mark.parametrize("name", ["../../etc/x", "a\nb.md", ".hidden", "x" * 250, "\udce9.md", "/abs"])
def test_no_name_leaves_the_folder(workspace: Workspace, name: str) -> None:
    path = verdict_path(workspace, name)
    assert path.parent == workspace.verdicts and path.name.startswith("name-")
    assert write_verdict(workspace, replace(VERDICT, file=name))
    found = read_verdict(workspace, name)
    assert found is not None and found.state == "invalid"


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"schema":"other"}', b"\xff"])
def test_what_is_no_verdict_is_named(workspace: Workspace, data: bytes) -> None:
    verdict_path(workspace, "TR-x.md").write_bytes(data)
    with pytest.raises(InvalidInput, match="written again"):
        read_verdict(workspace, "TR-x.md")
    assert write_verdict(workspace, VERDICT) and read_verdict(workspace, "TR-x.md") == VERDICT


def test_an_unknown_state_is_named(workspace: Workspace) -> None:
    write_verdict(workspace, VERDICT)
    path = verdict_path(workspace, "TR-x.md")
    path.write_bytes(path.read_bytes().replace(b'"state": "invalid"', b'"state": "strange"'))
    with pytest.raises(InvalidInput, match="unknown state"):
        read_verdict(workspace, "TR-x.md")
