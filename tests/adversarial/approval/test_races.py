"""Racing for one approval: however many approvers, daemons and copies there are, it is launched at most once.

The launches go the real way (prepare, judge, claim under the trail's lock, rename, finish); only the sandbox is
replaced by one that counts.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.launch.launching import CountingRunner, daemons
from tests.support import wait_until
from threegate.acts.approve import Sealed, promote, seal, sign
from threegate.acts.cancel import cancel_request
from threegate.acts.operator import revoke_operator
from threegate.acts.signed_acts import OperatorDecision
from threegate.approval.statement import SignedApproval
from threegate.cli import execute
from threegate.core.errors import Refused, ThreeGateError
from threegate.daemon.log import Log
from threegate.daemon.recovery import recover
from threegate.launch import pipeline
from threegate.launch.approved_file import Unrunnable, read_approved
from threegate.launch.context import Context
from threegate.launch.pipeline import launch
from threegate.review.reviewed_draft import ReviewedDraft, open_reviewed_draft, read_draft
from threegate.runners.interface import Control
from threegate.trail.moves import relocate
from threegate.trail.trail import Trail

COPIES = 8
ROUNDS = 15
SOAK_ROUNDS = 1000


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def race(bench: Bench, context: list[Context], request_id: str, *, cancel: bool = False) -> list[str]:
    """Approve, copy seven times, and let everybody at it at once; what each of them was told."""
    draft = bench.draft(request_id, slug=request_id)
    path = bench.approve(draft).path
    signature = path.with_name(path.name + ".sig").read_bytes()
    names = [path]
    for number in range(1, COPIES):
        copy = path.with_name(path.name.replace(".md", f"-{number}.md"))
        copy.with_name(copy.name + ".sig").write_bytes(signature)
        copy.write_bytes(path.read_bytes())
        names.append(copy)
    start = threading.Barrier(COPIES + (1 if cancel else 0))

    def one(number: int) -> str:
        mine = context[number % len(context)]
        control = Control(bench.workspace.run_folder(request_id), bench.workspace.inputs, "", "")
        start.wait()
        try:
            approved = read_approved(mine, names[number])
            if isinstance(approved, Unrunnable):
                return approved.code
            return launch(mine, approved, control).code
        except (FileNotFoundError, FileExistsError):
            return "gone"

    def stop() -> str:
        start.wait()
        try:
            return cancel_request(bench.context, request_id, by=OperatorDecision("test"), wait_seconds=5).outcome
        except Refused as refusal:
            return refusal.code

    with ThreadPoolExecutor(COPIES + 1) as pool:
        waiting = [pool.submit(one, number) for number in range(COPIES)]
        if cancel:
            waiting.append(pool.submit(stop))
        return [future.result() for future in waiting]


def check(bench: Bench, request_id: str, runner: CountingRunner, told: list[str], *, cancel: bool = False) -> None:
    claimed = [
        event for event in Trail(bench.workspace).events() if event.type == "claimed" and event.request_id == request_id
    ]
    assert len(claimed) == runner.runs[request_id], told
    stopped = cancel and told[-1] == "cancelled"
    assert runner.runs[request_id] == told.count("succeeded") == (0 if stopped else 1), told
    assert not list(bench.workspace.approved.glob("*.md"))


def rounds(bench: Bench, count: int) -> None:
    runner = CountingRunner()
    context = daemons(bench, runner)
    for number in range(count):
        request_id = f"race-{number}"
        told = race(bench, context, request_id)
        check(bench, request_id, runner, told)
    for number in range(count // 3):
        request_id = f"cancelled-{number}"
        told = race(bench, context, request_id, cancel=True)
        check(bench, request_id, runner, told, cancel=True)


def test_eight_copies_and_two_daemons_launch_once(bench: Bench) -> None:
    rounds(bench, ROUNDS)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_eight_copies_and_two_daemons_launch_once_a_thousand_times(tmp_path: Path) -> None:
    """A new workspace every hundred rounds: each approval reads its trail from the start."""
    for part in range(SOAK_ROUNDS // 100):
        (tmp_path / str(part)).mkdir()
        rounds(make_bench(tmp_path / str(part)), 100)


def test_a_key_revoked_between_judgement_and_claim_claims_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator revokes just after the signature was checked: the claim sees it."""
    runner = CountingRunner()
    (context,) = daemons(bench, runner, 1)
    bench.operator("bob")
    path = bench.approve(bench.draft(), "bob").path
    real = pipeline.claim

    def late(*arguments: Any) -> Any:
        revoke_operator(bench.workspace, "bob", actor="test")
        return real(*arguments)

    monkeypatch.setattr(pipeline, "claim", late)
    control = Control(bench.workspace.run_folder("req-1"), bench.workspace.inputs, "", "")
    assert launch(context, read_approved(context, path), control).code == "operators_changed"
    monkeypatch.setattr(pipeline, "claim", real)
    assert launch(context, read_approved(context, path), control).code == "signer_revoked"
    assert not runner.runs


def test_eight_approvers_of_one_draft_make_one_approval(bench: Bench) -> None:
    for number in range(6):
        path = bench.draft(f"req-{number}", slug=f"s{number}")
        start = threading.Barrier(8, timeout=120)

        def prepare(path: Path) -> tuple[Context, ReviewedDraft, Sealed, bytes]:
            context = bench.context
            reviewed = kept.enter_context(open_reviewed_draft(context, read_draft(bench.workspace, path)))
            sealed = seal(context, reviewed, "alice")
            return context, reviewed, sealed, sign(sealed, bench.keys["alice"])

        def one(ready: tuple[Context, ReviewedDraft, Sealed, bytes], start: threading.Barrier = start) -> str:
            start.wait()
            try:
                return promote(*ready, actor="test").approval_sha256
            except Refused as refusal:
                return refusal.code

        # All are ready before any of them promotes: one that cannot get ready says why, and none waits for it.
        with ExitStack() as kept, ThreadPoolExecutor(8) as pool:
            told = list(pool.map(one, list(pool.map(prepare, [path] * 8))))
        (winner,) = [word for word in told if word != "replayed"]
        approved = bench.workspace.approved / path.name
        signature = approved.with_name(approved.name + ".sig").read_bytes()
        assert SignedApproval.parse(signature).approval_sha256 == winner
        assert len(list(bench.workspace.approved.iterdir())) == 2 * (number + 1)
        assert len(list(bench.workspace.inputs.iterdir())) == 2 + (number + 1), (
            "the input, the policy, and the text of each"
        )


def test_two_daemon_processes_and_copies_put_back(bench: Bench) -> None:
    """Real daemons: one works, the other says so; what ran and is put back does not run again."""
    path = bench.approve(bench.draft()).path
    data, signature = path.read_bytes(), path.with_name(path.name + ".sig").read_bytes()
    command = [sys.executable, "-m", "threegate", "--workspace", str(bench.workspace.root), "run", "--once"]
    first = subprocess.Popen(command[:-1], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(bench.workspace.daemon_lock_held, "the first daemon")
        assert subprocess.run(command, capture_output=True, timeout=120).returncode == 3
        wait_until(lambda: list(bench.workspace.finished.glob("*.md")), "the end of the run")
        first.terminate()
        assert first.wait(60) == 0
    finally:
        first.kill()
    for name in (path.name, "TR-20260101-000000Z-other.md"):
        back = path.with_name(name)
        back.with_name(name + ".sig").write_bytes(signature)
        back.write_bytes(data)
    assert subprocess.run(command, capture_output=True, timeout=120).returncode == 0
    events = Counter(event.type for event in Trail(bench.workspace).events())
    assert events["claimed"] == events["finished"] == 1 and events["quarantined"] == 2


def test_an_approval_of_a_copied_workspace_does_not_run_there(bench: Bench, tmp_path: Path) -> None:
    """A workspace copied whole, approval and trail and all: the outside head says that it is not the one it was."""
    import shutil

    bench.approve(bench.draft())
    copy = tmp_path / "copy"
    shutil.copytree(bench.workspace.root, copy)
    command = [sys.executable, "-m", "threegate", "--workspace", str(copy), "run", "--once"]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert done.returncode == 3, done.stderr
    other = Bench(replace(bench.workspace, root=copy), bench.keys)
    assert "claimed" not in {event.type for event in Trail(other.workspace).events()}


def test_another_workspaces_approval_does_not_run_here(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = make_bench(tmp_path / "b")
    path = other.approve(other.draft()).path
    for item in (path.with_name(path.name + ".sig"), path):
        (bench.workspace.approved / item.name).write_bytes(item.read_bytes())
    for item in other.workspace.inputs.iterdir():
        (bench.workspace.inputs / item.name).write_bytes(item.read_bytes())
    command = [sys.executable, "-m", "threegate", "--workspace", str(bench.workspace.root), "run", "--once"]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    events = list(Trail(bench.workspace).events())
    assert "claimed" not in {event.type for event in events}
    reasons = {str(event.data.get("reason")) for event in events} & {
        "signer_unknown", "workspace_mismatch", "signature_invalid",
    }  # fmt: skip
    assert reasons, events[-1].data


def test_nothing_is_raised_that_is_not_ours(bench: Bench) -> None:
    with pytest.raises(ThreeGateError):
        cancel_request(bench.context, "unknown-request", by=OperatorDecision("test"))


def test_a_crash_takes_no_file_of_another_request_that_has_the_same_name(bench: Bench) -> None:
    """Agents name their files. Recovery looks for a request's file at its own places, not by its name."""
    first = bench.draft("req-first")
    said = ["--workspace", str(bench.workspace.root), "reject", str(first), "--reason", "no"]
    assert execute(said) == 0
    kept = bench.workspace.refused / first.name
    data = kept.read_bytes()
    second = bench.draft("req-second", code="1 + 1")
    approved = bench.approve(second.rename(second.with_name(first.name))).path
    for path in (approved, approved.with_name(f"{approved.name}.sig")):
        path.unlink()  # as if the crash had come before the delivery
    assert recover(bench.context, Log(quiet=True), ()) == 1
    assert kept.read_bytes() == data and not approved.exists()
    third = bench.draft("req-third", code="2 + 2")
    approved = bench.approve(third.rename(third.with_name(first.name))).path
    mine = approved.read_bytes()
    cancel_request(bench.context, "req-third", by=OperatorDecision("test"))
    ended = next(path for path in bench.workspace.refused.iterdir() if path.read_bytes() == mine)
    relocate(ended, approved)  # as if it had come before the move
    assert recover(bench.context, Log(quiet=True), ()) == 1
    assert kept.read_bytes() == data and ended.read_bytes() == mine and not approved.exists()
    assert execute(["--workspace", str(bench.workspace.root), "audit", "verify"]) == 0
