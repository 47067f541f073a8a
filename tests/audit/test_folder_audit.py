"""`audit verify`: folders, artifacts and results against the trail; each disagreement is named."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.trail.workspaces import approve, make_workspace, refuse, run
from threegate.audit.audit_verify import verify_workspace
from threegate.core.workspace import Workspace
from threegate.trail import moves
from threegate.trail.payloads import ApprovalAbandoned, Pruned
from threegate.trail.trail import Trail

NAME = "TR-20260101-000000Z-{}.md"


@pytest.fixture(name="workspace")
def a_lived_in_workspace(tmp_path: Path) -> Workspace:
    """One request waits, one ran, one was refused, one was abandoned and approved again, one was replayed."""
    workspace, trail = make_workspace(tmp_path / "ws")
    with trail.locked() as held:
        for name in ("waits", "ran1", "refused1", "again"):
            path = approve(held, name)
    with trail.locked() as held:
        path = workspace.approved / NAME.format("again")
        path.unlink()
        path.with_name(path.name + ".sig").unlink()
        moves.announce(held, ApprovalAbandoned(), request_id="again", actor="daemon")
        approve(held, "again", text=b"another text\n")
    result = run(trail, "ran1")
    assert result.exists()
    with trail.locked() as held:
        refuse(held, "refused1", workspace.approved / NAME.format("refused1"))
        copy = workspace.approved / NAME.format("ran1")
        copy.write_bytes(b"put back\n")
        refuse(held, "ran1", copy, aside=True)
    assert problems(workspace) == []
    return workspace


def problems(workspace: Workspace) -> list[str]:
    result = verify_workspace(workspace)
    assert result.ok == (not result.problems)
    return [str(item).replace(f"{workspace.tool_exec}/", "") for item in result.problems]


def result_of(workspace: Workspace, request_id: str) -> Path:
    return min(workspace.results.glob(f"TS-*-{request_id}.md"))


def test_a_second_look_changes_nothing(workspace: Workspace) -> None:
    assert problems(workspace) == []


def rewrite(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


@pytest.mark.parametrize(
    ("spoil", "place", "words"),
    [
        (lambda w: (w.approved / NAME.format("waits")).write_bytes(b"x"), "approved/", "not the request that event"),
        (lambda w: (w.finished / NAME.format("ran1")).write_bytes(b"x"), "finished/", "not the request that event"),
        (lambda w: (w.approved / (NAME.format("waits") + ".sig")).write_bytes(b"x\n"), ".sig", ("not the signature that "  # noqa: E501
        "event")),
        (lambda w: (w.approved / NAME.format("waits")).rename(w.refused / NAME.format("waits")), "refused/", ("no event announced this "  # noqa: E501
        "file")),
        (lambda w: (w.approved / NAME.format("waits")).unlink(), "approved/", "it is nowhere"),
        (lambda w: (w.running / "TR-evil.md").touch(), "running/TR-evil.md", "no event announced"),
        (lambda w: (w.runs / "ran1" / "out" / "result.txt").write_bytes(b"x"), "out/result.txt", "was changed"),
        (lambda w: (w.runs / "ran1" / "out" / "result.txt").unlink(), "out/result.txt", "it is nowhere"),
        (lambda w: (w.runs / "ran1" / "stdout").write_bytes(b"x"), "runs/ran1/stdout", "not what the record names"),
        (lambda w: rewrite(w.runs / "ran1" / "record.json", b'"exit_code":0', b'"exit_code":1'), "record.json", "changed"),  # noqa: E501
        (lambda w: shutil.rmtree(w.runs / "ran1"), "runs/ran1", "recorded this run; it is not there"),
        (lambda w: rewrite(result_of(w, "ran1"), b"hello", b"hullo"), "results/", "was changed"),
        (lambda w: rewrite(result_of(w, "ran1"), b"trail_seq: ", b"trail_seq: 9"), "results/", ("its result is not "
        "there")),
        (lambda w: rewrite(result_of(w, "refused1"), b"status: refused", b"status: failed"), "results/", ("is not the result of "  # noqa: E501
        "event")),
        (lambda w: rewrite(result_of(w, "refused1"), b"## Summary", b"## Summery"), "results/", ("is not the result of "
        "event")),
        (lambda w: result_of(w, "refused1").unlink(), "results/", "its result is not there"),
        (lambda w: (w.inputs / ("a" * 64)).write_bytes(b"x"), "inputs/", "hash that is its name"),
        (lambda w: (w.inputs / ("b" * 64)).symlink_to("/etc/passwd"), "inputs/", "not a regular file with one link"),
        (lambda w: os.link(w.approved / NAME.format("waits"), w.root / "second"), "approved/", ("not a regular file with one "  # noqa: E501
        "link")),
    ],
)  # fmt: skip
def test_what_disagrees_is_named(workspace: Workspace, spoil, place: str, words: str) -> None:
    spoil(workspace)
    found = problems(workspace)
    assert found and any(place in item and words in item for item in found), found


def test_a_pruned_run_may_be_missing(workspace: Workspace) -> None:
    shutil.rmtree(workspace.runs / "ran1")
    with Trail(workspace).locked() as held:
        held.append(Pruned.from_data({"what": "run", "removed": 3}), request_id="ran1", actor="me")
    assert problems(workspace) == []


def test_a_workspace_that_is_a_copy_to_be_read_only(workspace: Workspace) -> None:
    (workspace.audit / "lock").unlink()
    assert problems(workspace) == []
