"""What an event says of a request holds from then on, whoever brings the files back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.launch.launching import CountingRunner, control_of, daemons, events_of, history_of
from threegate.acts.approve import promote, seal, sign
from threegate.acts.cancel import cancel_request
from threegate.acts.reject import reject_draft
from threegate.acts.signed_acts import OperatorDecision
from threegate.audit.audit_verify import verify_workspace
from threegate.core.errors import Refused
from threegate.daemon.log import Log
from threegate.daemon.recovery import recover
from threegate.judgement.judge import Cleared
from threegate.launch.approved_file import Approved, Unrunnable, read_approved
from threegate.launch.completion import refuse_unrunnable
from threegate.launch.context import Context
from threegate.launch.pipeline import claim, judge_now, launch
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


@pytest.fixture
def runner() -> CountingRunner:
    return CountingRunner()


@pytest.fixture
def context(bench: Bench, runner: CountingRunner) -> Iterator[Context]:
    (made,) = daemons(bench, runner, 1)
    yield made


def seen(context: Context, path: Path) -> str:
    """What a daemon makes of a file in approved/: the code of its end."""
    approved = read_approved(context, path)
    if isinstance(approved, Unrunnable):
        return refuse_unrunnable(context, approved).code
    return launch(context, approved, control_of(context, approved.request_id)).code


def end(how: str, bench: Bench, context: Context, path: Path) -> None:
    """Let a request end."""
    if how == "finished":
        assert seen(context, path) == "succeeded"
    elif how == "cancelled":
        cancel_request(context, "req-1", by=OperatorDecision("operator:alice"))
    elif how == "refused":
        name = path.with_name(f"{path.name}.sig")
        signature = name.read_bytes()
        name.write_bytes(signature.replace(b"alice", b"alicf"))
        assert seen(context, path) != "succeeded"
    else:
        approved = read_approved(context, path)
        assert isinstance(approved, Approved)
        judgement, _ = judge_now(context, approved)
        assert isinstance(judgement, Cleared) and isinstance(claim(context, approved, judgement), Path)
        if how == "interrupted":
            recover(context, Log(quiet=True), ())


@pytest.mark.parametrize("how", ["finished", "cancelled", "refused", "interrupted", "claimed"])
def test_what_ended_never_runs_again(
    bench: Bench, context: Context, runner: CountingRunner, tmp_path: Path, how: str
) -> None:
    """The very files that were approved come back, before and after a daemon starts."""
    path = bench.approve(bench.draft()).path
    kept = tmp_path / "kept"
    shutil.copytree(bench.workspace.approved, kept)
    end(how, bench, context, path)
    runs = runner.runs.total()
    for _ in range(2):
        shutil.copytree(kept, bench.workspace.approved, dirs_exist_ok=True)
        assert seen(context, path) == "replayed"
        recover(context, Log(quiet=True), ())
    assert runner.runs.total() == runs == (1 if how == "finished" else 0)
    said = history_of(context).end
    assert said is not None and said.type == ("interrupted" if how == "claimed" else how)
    assert [event.type for event in events_of(bench.workspace)].count("claimed") <= 1


def test_a_rejected_draft_never_runs(bench: Bench, context: Context, runner: CountingRunner) -> None:
    """Neither by the command, nor by a signature that was made before and is put beside it."""
    draft = bench.draft()
    data = draft.read_bytes()
    with open_reviewed_draft(context, read_draft(bench.workspace, draft)) as reviewed:
        sealed = seal(context, reviewed, "alice")
        signature = sign(sealed, bench.keys["alice"])
        reject_draft(context, draft, reason="no", by=OperatorDecision("operator:alice"))
        with pytest.raises(Refused) as caught:
            promote(context, reviewed, sealed, signature, actor="operator:alice")
    assert caught.value.code == "replayed"
    draft.write_bytes(data)
    with pytest.raises(Refused) as caught:
        bench.approve(draft)
    assert caught.value.code == "replayed"
    path = bench.workspace.approved / draft.name
    path.with_name(f"{path.name}.sig").write_bytes(signature)
    path.write_bytes(sealed.data)
    assert seen(context, path) == "replayed" and not runner.runs


def test_a_copy_that_is_put_aside_touches_nothing(bench: Bench, context: Context, runner: CountingRunner) -> None:
    """Under any name, that of another request's id too: the request runs, and so does the other one."""
    path = bench.approve(bench.draft()).path
    other = bench.approve(bench.draft("TR-20261126-101500Z-other", slug="other")).path
    copy = path.with_name("TR-20261126-101500Z-other.md")
    for file in (path, path.with_name(f"{path.name}.sig")):
        shutil.copy(file, copy.with_name(file.name.replace(path.name, copy.name)))
    assert seen(context, copy) == "replayed" and not runner.runs
    assert (bench.workspace.refused / copy.name).exists() and history_of(context).end is None
    assert seen(context, path) == "succeeded" and seen(context, other) == "succeeded"
    assert runner.runs == {"req-1": 1, "TR-20261126-101500Z-other": 1} and verify_workspace(bench.workspace).ok
