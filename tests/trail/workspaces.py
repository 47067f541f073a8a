"""Workspaces with a real trail, made through the package's own parts (no daemon, no signatures)."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

from threegate.core.workspace import Workspace
from threegate.launch.completion import with_result
from threegate.launch.results.render import render_result
from threegate.launch.results.result_facts import ResultFacts, read_record, write_record
from threegate.launch.results.space import deliver_result
from threegate.runners.interface import Artifact, Outcome, Stream
from threegate.trail import moves
from threegate.trail.event import make_event
from threegate.trail.payloads import Approved, Claimed, Finished, Quarantined, Refused, Started, Validated
from threegate.trail.trail import LockedTrail, Trail

WORKSPACE_ID = "ws-" + "5" * 32


class TickingClock:
    """A clock that goes on by a second each time it is read; `offset` can be changed by a test."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment


def make_workspace(
    root: Path, *, workspace_id: str = WORKSPACE_ID, clock: TickingClock | None = None
) -> tuple[Workspace, Trail]:
    """A workspace with folders, settings and a trail."""
    workspace = Workspace(root)
    root.mkdir(parents=True, exist_ok=True)
    workspace.make_folders()
    workspace.settings_file.write_text(f'[workspace]\nid = "{workspace_id}"\n')
    trail = Trail.create(workspace, workspace_id=workspace_id, actor="account:test", clock=clock or TickingClock())
    return workspace, trail


def approve(held: LockedTrail, request_id: str, *, text: bytes = b"a request\n") -> Path:
    """An approved request, without a real signature: what the trail and the folders say is real."""
    statement = b'{"request_id":"' + request_id.encode() + b'"}'
    workspace = held.workspace
    name = f"TR-20260101-000000Z-{request_id}.md"
    _, path = moves.deliver(
        held,
        [
            (workspace.approved / f"{name}.sig", statement + b"\narmor\n", 0o600),
            (workspace.approved / name, text, 0o600),
        ],
        Approved.from_data(
            {
                "request_sha256": hashlib.sha256(text).hexdigest(),
                "approval_sha256": hashlib.sha256(statement).hexdigest(),
                "approved_by": "operator",
                "nonce": f"nonce-{request_id}",
                "owner_uid": 1000,
            }
        ),
        request_id=request_id,
        actor="operator",
    )
    return path


def run(
    trail: Trail, request_id: str, *, output: bytes = b"result\n", stdout: bytes = b"hello\n", backend: str = "monty"
) -> Path:
    """Take an approved request through claim, start, record, result and the final folder. Returns the result's path."""
    workspace = trail.workspace
    with trail.locked() as held:
        history = held.index.history(request_id)
        assert history is not None and history.file is not None
        path = moves.move(
            held,
            workspace.approved / history.file,
            workspace.running / history.file,
            Claimed.from_data({"nonce": f"nonce-{request_id}"}),
            request_id=request_id,
            actor="daemon",
        )
        held.keep_head()
        moves.announce(held, Started.from_data({"backend": backend}), request_id=request_id, actor="daemon")
    folder = workspace.run_folder(request_id)
    (folder / "out").mkdir(parents=True)
    (folder / "out" / "result.txt").write_bytes(output)
    outcome = Outcome(
        status="succeeded",
        detail="It ran.",
        exit_code=0,
        wall_ms=12,
        cpu_ms=None,
        peak_memory_bytes=None,
        effective_limits={"memory": "64 MiB"},
        stdout=Stream(stdout, len(stdout), hashlib.sha256(stdout).hexdigest()),
        stderr=Stream(b"", 0, hashlib.sha256(b"").hexdigest()),
        artifacts=(Artifact("result.txt", len(output), hashlib.sha256(output).hexdigest()),),
    )
    facts = ResultFacts(request_id, "succeeded", datetime.now(UTC), 0, backend="monty").with_outcome(outcome)
    digest = write_record(folder, facts)
    with trail.locked() as held:
        target = moves.free_name(workspace.finished / path.name)
        seq, when = held.next_event()
        rendered = render_result(read_record(folder, created_utc=when, trail_seq=seq, sha256=digest))
        event = moves.announce(
            held,
            Finished.from_data(
                {
                    "status": "succeeded",
                    "exit_code": 0,
                    "wall_ms": 12,
                    "record_sha256": digest,
                    "result_sha256": hashlib.sha256(rendered).hexdigest(),
                    "outputs": {"result.txt": outcome.artifacts[0].sha256},
                    "state": "finished",
                    "file": target.name,
                }
            ),
            request_id=request_id,
            actor="daemon",
        )
        facts = read_record(folder, created_utc=event.when, trail_seq=event.seq, sha256=digest)
        result = deliver_result(workspace, facts)
        moves.relocate(path, target)
    return result


def refuse(held: LockedTrail, request_id: str, source: Path, *, aside: bool = False) -> Path:
    """Refuse the file of a request, or put a further one `aside`. Returns the result's path."""
    workspace = held.workspace
    files = {path.name: path.read_bytes() for path in (source, *moves.companions(source))}
    target = moves.free_name(workspace.refused / source.name)
    stopped = (Quarantined if aside else Refused)(
        reason="expired",
        message="too late",
        backend="monty",
        files=moves.digests_beside(source.name, files),
        state="refused",
        file=target.name,
    )
    event = moves.announce(held, with_result(held, request_id, stopped), request_id=request_id, actor="daemon")
    facts = ResultFacts(
        request_id, "refused", event.when, event.seq, reason="expired", detail="too late", backend="monty"
    )
    result = deliver_result(workspace, facts)
    moves.relocate(source, target)
    return result


def grow(trail: Trail, lines: int) -> None:
    """Append plain events until the trail has `lines`."""
    with trail.locked() as held:
        while held.index.head.seq < lines:
            number = held.index.head.seq
            held.append(
                Validated.from_data({"file": f"TR-{number}.md", "valid": True, "rules": []}),
                request_id=f"r-{number % 7}",
                actor="daemon",
            )


def raw_trail(count: int, *, prev: str = WORKSPACE_ID, vkey: str = "") -> list[bytes]:
    """Canonical lines of a valid chain, without a disk."""
    lines = []
    for seq in range(1, count + 1):
        event = make_event(
            seq=seq,
            time=f"2026-01-01T00:{seq // 60 % 60:02d}:{seq % 60:02d}.000Z"
            if count < 3600
            else "2026-01-01T00:00:00.000Z",
            type="workspace_created" if seq == 1 else "observed",
            request_id=None if seq == 1 else f"r-{seq % 5}",
            actor="daemon",
            data={"vkey": vkey} if seq == 1 else {"n": seq},
            prev=prev,
        )
        prev = event.hash
        lines.append(event.line)
    return lines
