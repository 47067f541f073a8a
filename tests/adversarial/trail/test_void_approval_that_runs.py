"""An approval that the trail calls void, and files that come back: nothing of it runs, and its id stays free."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.launch.launching import CountingRunner, control_of, daemons, events_of, history_of
from tests.support import make_place, monty_draft, threegate
from threegate.audit.audit_verify import verify_workspace
from threegate.daemon.log import Log
from threegate.daemon.recovery import recover
from threegate.judgement.judge import Cleared
from threegate.launch.approved_file import Approved, Unrunnable, read_approved
from threegate.launch.completion import refuse_unrunnable
from threegate.launch.context import Context
from threegate.launch.pipeline import claim, judge_now, launch
from threegate.launch.results.verdict import read_verdict
from threegate.review.countersign import verify_approval
from threegate.review.status import status_lines
from threegate.trail.index import TrailIndex
from threegate.trail.payloads import ApprovalAbandoned
from threegate.trail.payloads import Approved as ApprovedEvent


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


def named_as_its_id(bench: Bench, code: str) -> tuple[Path, str]:
    """A draft whose file has the name of its id, and the id."""
    moment = datetime.now(UTC) - timedelta(seconds=5)
    request_id = f"TR-{moment:%Y%m%d-%H%M%S}Z-sum"
    draft = bench.draft(request_id, created=moment, data=None, code=code)
    assert draft.stem == request_id
    return draft, request_id


def taken_out(approved: Path, hidden: Path) -> None:
    """Move a request and its signatures out of approved/."""
    hidden.mkdir(exist_ok=True)
    for path in sorted(approved.parent.glob(f"{approved.name}*")):
        shutil.move(path, hidden / path.name)


def put_back(approved: Path, hidden: Path) -> None:
    for path in sorted(hidden.glob(f"{approved.name}*"), reverse=True):
        shutil.copy2(path, approved.with_name(path.name))


def voided(bench: Bench, context: Context, path: Path, hidden: Path, request_id: str = "req-1") -> None:
    """Its file goes, and a daemon starts."""
    taken_out(path, hidden)
    recover(context, Log(quiet=True), ())
    assert history_of(context, request_id).abandoned


def seen_by_the_daemon(context: Context, path: Path) -> str:
    """What a daemon makes of a file in approved/: the code of its end."""
    approved = read_approved(context, path)
    if isinstance(approved, Unrunnable):
        return refuse_unrunnable(context, approved).code
    return launch(context, approved, control_of(context, approved.request_id)).code


def types(bench: Bench) -> list[str]:
    return [event.type for event in events_of(bench.workspace)]


def test_a_file_that_comes_back_after_its_approval_is_void_does_not_run(
    bench: Bench, context: Context, runner: CountingRunner, tmp_path: Path
) -> None:
    path = bench.approve(bench.draft()).path
    voided(bench, context, path, tmp_path / "hidden")
    put_back(path, tmp_path / "hidden")
    assert seen_by_the_daemon(context, path) == "replayed"
    assert not runner.runs and not path.exists() and "claimed" not in types(bench)
    assert {item.name for item in bench.workspace.refused.iterdir()} == {path.name, f"{path.name}.sig"}
    last = events_of(bench.workspace)[-1]
    assert (last.type, last.data["reason"]) == ("quarantined", "replayed")
    assert verify_workspace(bench.workspace).ok


def test_the_event_names_what_is_void(bench: Bench, context: Context, tmp_path: Path) -> None:
    path = bench.approve(bench.draft()).path
    given = ApprovedEvent.of(history_of(context).approved)
    voided(bench, context, path, tmp_path / "hidden")
    event = ApprovalAbandoned.of(events_of(bench.workspace)[-1])
    assert given is not None and event is not None
    assert (event.nonce, event.approval_sha256) == (given.nonce, given.approval_sha256) and event.nonce
    with context.trail.locked() as held:
        assert held.index.nonce_used(given.nonce or "") and held.index.is_void(given.approval_sha256)


def test_the_claim_looks_under_the_lock(bench: Bench, context: Context, runner: CountingRunner, tmp_path: Path) -> None:
    """Judged while it was good; then another daemon starts while the file is away, and it is back before the claim."""
    path = bench.approve(bench.draft()).path
    approved = read_approved(context, path)
    assert isinstance(approved, Approved)
    judgement, _ = judge_now(context, approved)
    assert isinstance(judgement, Cleared)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    names = sorted(item.name for item in path.parent.iterdir())
    for name in names:
        (path.parent / name).rename(hidden / name)
    recover(context, Log(quiet=True), ())
    for name in reversed(names):
        (hidden / name).rename(path.parent / name)
    approved = read_approved(context, path)
    assert isinstance(approved, Approved)
    ended = claim(context, approved, judgement)
    assert not isinstance(ended, Path) and ended.code == "replayed"
    assert not runner.runs and "claimed" not in types(bench)


@pytest.mark.parametrize("came_back", [False, True], ids=["while the file is away", "after it came back"])
def test_the_id_is_free_for_a_new_approval(
    bench: Bench, context: Context, runner: CountingRunner, tmp_path: Path, came_back: bool
) -> None:
    """The file that is put aside has the name of the id."""
    draft, request_id = named_as_its_id(bench, "print(1)")
    kept = draft.read_bytes()
    path = bench.approve(draft).path
    voided(bench, context, path, tmp_path / "hidden", request_id)
    if came_back:
        put_back(path, tmp_path / "hidden")
        assert seen_by_the_daemon(context, path) == "replayed"
    draft.write_bytes(kept)
    again = bench.approve(draft).path
    assert seen_by_the_daemon(context, again) == "succeeded"
    assert runner.runs == {request_id: 1} and verify_workspace(bench.workspace).ok


def test_a_new_approval_does_not_carry_the_void_one(
    bench: Bench, context: Context, runner: CountingRunner, tmp_path: Path
) -> None:
    """The old file takes the new one's place: it is put aside, and the new approval has not been refused."""
    draft = bench.draft()
    kept = draft.read_bytes()
    path = bench.approve(draft).path
    hidden = tmp_path / "hidden"
    voided(bench, context, path, hidden)
    draft.write_bytes(kept)
    again = bench.approve(draft).path
    taken_out(again, tmp_path / "new")
    put_back(path, hidden)
    assert seen_by_the_daemon(context, path) == "replayed"
    assert not runner.runs and history_of(context).end is None
    put_back(again, tmp_path / "new")
    assert seen_by_the_daemon(context, again) == "succeeded" and runner.runs == {"req-1": 1}


@pytest.mark.parametrize(
    ("damage", "code"),
    [("no signature", "signature_missing"), ("another byte", "replayed"), ("unreadable", "request_invalid")],
)
def test_a_damaged_file_that_comes_back_does_not_end_the_id(
    bench: Bench, runner: CountingRunner, tmp_path: Path, damage: str, code: str
) -> None:
    bench.settings(approval__signature="optional")
    (context,) = daemons(bench, runner, 1)
    draft, request_id = named_as_its_id(bench, "print(1)")
    kept = draft.read_bytes()
    path = bench.approve(draft).path
    voided(bench, context, path, tmp_path / "hidden", request_id)
    put_back(path, tmp_path / "hidden")
    if damage == "no signature":
        path.with_name(f"{path.name}.sig").unlink()
    elif damage == "another byte":
        path.write_bytes(path.read_bytes().replace(b"print(1)", b"print(2)"))
    else:
        path.write_bytes(b"\xff" * 10)
    assert seen_by_the_daemon(context, path) == code and not runner.runs
    draft.write_bytes(kept)
    assert seen_by_the_daemon(context, bench.approve(draft).path) == "succeeded"


def test_trails_that_are_there_already(bench: Bench, context: Context, runner: CountingRunner, tmp_path: Path) -> None:
    """An event without nonce and digest, as earlier versions wrote it: the approval before it says what is void."""
    path = bench.approve(bench.draft()).path
    taken_out(path, tmp_path / "hidden")
    with context.trail.locked() as held:
        held.append(ApprovalAbandoned(reason="old", file=path.name), request_id="req-1", actor="daemon")
    put_back(path, tmp_path / "hidden")
    assert seen_by_the_daemon(context, path) == "replayed" and not runner.runs


def test_verify_finds_a_void_approval_that_ran(
    bench: Bench, context: Context, runner: CountingRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trail of an earlier version, in which it happened."""
    path = bench.approve(bench.draft()).path
    with context.trail.locked() as held:
        void = held.append(ApprovalAbandoned(reason="old", file=path.name), request_id="req-1", actor="daemon")
    with monkeypatch.context() as earlier:
        earlier.setattr(TrailIndex, "is_void", lambda self, *marks: False)
        earlier.setattr(TrailIndex, "nonce_used", lambda self, nonce: False)
        assert seen_by_the_daemon(context, path) == "succeeded"
    found = verify_workspace(bench.workspace)
    assert not found.ok and found.problem_count == 1
    assert f"by an approval that is void since event {void.seq}" in found.problems[0].message


def test_the_screens_say_that_it_is_void(bench: Bench, context: Context, tmp_path: Path) -> None:
    path = bench.approve(bench.draft()).path
    before = verify_approval(context, path)
    assert all(check.ok for check in before)
    voided(bench, context, path, tmp_path / "hidden")
    verdict = read_verdict(bench.workspace.requester_folders(os.getuid()), path.name)
    assert verdict is not None and verdict.reason == "approval_void"
    shown = threegate("show", "req-1", cwd=bench.workspace.root)
    assert "void" in shown.out
    put_back(path, tmp_path / "hidden")
    failed = [check for check in verify_approval(context, path) if check.ok is False]
    assert [check.code for check in failed] == ["approval_void", "replayed"] and "is void" in failed[0].detail
    (line,) = status_lines(bench.workspace)
    assert (line.state, line.reason) == ("approved", "approval_void")


def test_a_real_daemon_puts_it_aside(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    draft = place.drop(monty_draft("TR-20261126-101500Z-void", "print(1)"))
    place.approve(draft)
    path = place.root / "tool-exec" / "approved" / draft.name
    taken_out(path, tmp_path / "hidden")
    place.once()
    put_back(path, tmp_path / "hidden")
    verified = place.run("audit", "approval", str(path), expect=2)
    assert "[approval_void]" in verified.out and "never used before" not in verified.out
    place.once()
    assert not place.events("claimed") and not path.exists()
    assert (place.root / "tool-exec" / "refused" / draft.name).exists()
    assert "\nstatus: refused\nreason: replayed\n" in place.result(draft.stem).replace('"', "")
    assert "is void" in place.run("show", draft.stem).out
    place.run("audit", "verify", expect=0)


# ---- gone is gone, and nothing else is


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO, errno.ENOTDIR, errno.ELOOP, errno.ESTALE])
def test_a_file_that_cannot_be_looked_at_is_not_gone(
    bench: Bench, context: Context, runner: CountingRunner, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    path = bench.approve(bench.draft()).path
    real = os.stat

    def failing(what: object, **options: object) -> os.stat_result:
        if os.fspath(what).endswith(path.name):  # type: ignore[call-overload]
            raise OSError(error, os.strerror(error), path.name)
        return real(what, **options)  # type: ignore[call-overload, no-any-return]

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", failing)
        patch.setattr(os, "lstat", failing)
        recover(context, Log(quiet=True), ())
    assert "approval_abandoned" not in types(bench)
    assert seen_by_the_daemon(context, path) == "succeeded"


def test_a_folder_that_is_away_takes_no_approval_with_it(
    bench: Bench, context: Context, runner: CountingRunner, tmp_path: Path
) -> None:
    path = bench.approve(bench.draft()).path
    approved, away = bench.workspace.approved, tmp_path / "away"
    for instead in (lambda: None, lambda: approved.write_bytes(b""), lambda: approved.symlink_to(tmp_path / "none")):
        approved.rename(away)
        instead()
        with suppress(OSError):  # a daemon without the folder does not start
            recover(context, Log(quiet=True), ())
        if approved.is_symlink() or approved.exists():
            approved.unlink()
        away.rename(approved)
    assert "approval_abandoned" not in types(bench)
    assert seen_by_the_daemon(context, path) == "succeeded"
