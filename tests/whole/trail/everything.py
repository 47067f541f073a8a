"""A workspace in which everything happened that leaves a file below tool-exec/."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.acts.bench_workspace import Bench, make_bench
from threegate import cli
from threegate.acts.cancel import cancel_request
from threegate.acts.reject import reject_draft
from threegate.acts.signed_acts import OperatorDecision
from threegate.core.workspace import Workspace
from threegate.judgement.judge import Cleared
from threegate.launch.approved_file import Approved, read_approved
from threegate.launch.context import daemon_context
from threegate.launch.pipeline import claim, judge_now
from threegate.plugins.evidence.cosigned_checkpoints import newest_trail_checkpoint, record_cosignature
from threegate.plugins.grants.constraint import Constraint
from threegate.plugins.grants.giving import finished_request, new_grant
from threegate.plugins.grants.widened import Widened
from threegate.review.countersign import countersign, open_waiting
from threegate.trail.cosignature import WitnessKey, cosign
from threegate.trail.trail import Trail
from threegate.trail.workspace_key import SigningKey

CODE = "open('/out/sum.txt', 'w').write('6')\nprint('done')"


def make_everything(folder: Path) -> Workspace:
    """Requests that finished, were replayed, refused, put aside, rejected, cancelled, interrupted, countersigned,
    granted, and that wait; proposals that wait as drafts and whose note was stored; contracts, checkpoints, a closed
    segment, a torn end.
    """
    bench = make_bench(folder)
    workspace, call = bench.workspace, Caller(bench)
    bench.operator("bob")
    bench.settings(
        grants__allow=True,
        approval__quorum__medium=2,
        project__root=str(workspace.root.parent / "project"),
    )
    (folder / "project").mkdir()
    (folder / "project" / "notes.txt").write_text("old\n")

    bench.approve(bench.draft("ran", slug="ran", code=CODE))
    call("run", "--once")
    for _ in range(2):
        call("audit", "replay", "ran", *call.signed)
    new_grant(
        bench.context, finished_request(bench.context, "ran"), widened=[Widened("inputs.data.csv", Constraint.read("gte 0 lte 99", ["integer"]))], max_uses=2, seconds=3600, name="alice", key=bench.keys["alice"]  # noqa: E501
    )  # fmt: skip
    bench.draft("granted", slug="granted", code=CODE, data=b"4\n")
    call("run", "--once")

    both = bench.approve(bench.draft("both", slug="both", risk="medium"))
    sign_too(bench, both.path)
    edited = bench.approve(bench.draft("edited", slug="edited"))
    edited.path.write_bytes(edited.path.read_bytes() + b"\n")
    (workspace.approved / "TR-20260101-000000Z-unread.md").write_text("no request\n")
    call("run", "--once")
    ended = next(workspace.finished.glob("*-ran.md"))
    (workspace.approved / ended.name).write_bytes(ended.read_bytes())
    call("run", "--once")
    reject_draft(
        bench.context,
        bench.draft("rejected", slug="rejected"),
        reason="no",
        by=OperatorDecision("operator:alice"),
    )
    reject_draft(bench.context, bench.draft("ran", slug="claims"), reason="no", by=OperatorDecision("operator:alice"))
    bench.approve(bench.draft("cancelled", slug="cancelled"))
    cancel_request(bench.context, "cancelled", by=OperatorDecision("operator:alice"), reason="not needed")
    leave_claimed(bench)
    call("run", "--once")

    drop(workspace, "note", {"tool": "memory.propose", "args": {"content": "Be short.", "type": "PREFERENCE"}})
    drop(workspace, "write", {"tool": "file.write_safe", "risk": "medium", "args": {"path": "n.txt", "content": "x\n"}})  # fmt: skip  # noqa: E501
    call("run", "--once")
    (note,) = workspace.drafts.glob("*-memory-propose-*.md")
    call("approve", str(note), *call.signed)
    sign_too(bench, workspace.approved / note.name)
    call("run", "--once")
    proposed = [event for event in Trail(workspace).events() if event.type == "proposed"]
    (request_id,) = (event.request_id for event in proposed if event.data["file"] == note.name)
    call("project", "note", "approve", str(request_id), *call.signed)

    call("audit", "checkpoint")
    cosign_newest(workspace)
    call("audit", "rotate")
    tear(workspace)
    contract = call("contracts", "new", "threegate.monty")
    (workspace.contracts / "threegate.monty.yaml").write_text(contract)
    call("run", "--once")
    waits = bench.approve(bench.draft("waits", slug="waits", risk="medium", data=b"8\n"))
    sign_too(bench, waits.path)
    bench.approve(bench.draft("alone", slug="alone", risk="medium", data=b"9\n"))
    return workspace


def cosign_newest(workspace: Workspace) -> Path:
    """A witness's cosignature of the newest checkpoint, kept as the daemon keeps one."""
    trail = Trail(workspace)
    own = SigningKey("witness.example/w1", Ed25519PrivateKey.from_private_bytes(b"w" * 32))
    note = newest_trail_checkpoint(trail, "office")
    assert note is not None
    cosigned = replace(note, signatures=(*note.signatures, cosign(own, note, 1_767_225_600)))
    path = record_cosignature(trail, "office", WitnessKey.of(own), cosigned, unless=lambda: False)
    trail.close()
    assert path is not None
    return path


class Caller:
    """The command line in this process."""

    def __init__(self, bench: Bench) -> None:
        self._root = str(bench.workspace.root)
        self.signed = ("--as", "alice", "--key", str(bench.keys["alice"]), "--yes")

    def __call__(self, *arguments: str) -> str:
        """What it prints."""
        said = io.StringIO()
        with redirect_stdout(said):
            assert cli.execute(["-w", self._root, *arguments]) == 0, arguments
        return said.getvalue()


def sign_too(bench: Bench, path: Path) -> None:
    """Bob's countersignature."""
    context = bench.context
    waiting, _ = open_waiting(context, path)
    countersign(context, waiting, "bob", bench.keys["bob"])


def leave_claimed(bench: Bench, request_id: str = "interrupted") -> Path:
    """A request whose daemon was killed while it ran; returns its run folder."""
    path = bench.approve(bench.draft(request_id, slug=request_id)).path
    context = daemon_context(bench.workspace, Trail(bench.workspace), bench.context.policy, boot_nonce="killed")
    approved = read_approved(context, path)
    assert isinstance(approved, Approved)
    judgement, _ = judge_now(context, approved)
    assert isinstance(judgement, Cleared)
    claim(context, approved, judgement)
    context.close()
    folder = bench.workspace.run_folder(request_id)
    (folder / "work" / "out").mkdir(parents=True)
    (folder / "work" / "out" / "half.txt").write_text("half")
    return folder


def drop(workspace: Workspace, name: str, proposal: dict[str, object]) -> None:
    """A proposal of the agent."""
    (workspace.inbox / f"AP-{name}.json").write_text(json.dumps(proposal))


def tear(workspace: Workspace) -> None:
    """A power cut in the middle of a line."""
    with workspace.trail_file.open("r+b") as file:
        data = file.read().rstrip(b"\0")
        file.seek(len(data))
        file.write(b'{"actor":"daem')
