"""Attacks on batches in a real workspace: a member swapped, moved, edited, replayed, cancelled, abandoned, or used
alone.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.approval import material
from tests.launch.launching import CountingRunner, control_of, daemons
from threegate.acts import approve_group
from threegate.acts.approve import Promoted, promote, seal, sign
from threegate.acts.approve_group import deliver_group, open_group, seal_group, sign_group
from threegate.acts.cancel import cancel_request
from threegate.acts.signed_acts import OperatorDecision
from threegate.approval.statement import Batch, SignedBytes
from threegate.audit.audit_verify import verify_workspace
from threegate.core import durable
from threegate.core.canonical import canonical_bytes
from threegate.core.errors import InvalidInput, Refused
from threegate.daemon.log import Log
from threegate.daemon.recovery import recover
from threegate.launch.approved_file import Ended, Unrunnable, Waiting, read_approved
from threegate.launch.context import Context
from threegate.launch.pipeline import launch
from threegate.review import group_screen
from threegate.review.countersign import verify_approval
from threegate.review.reviewed_draft import Draft, ReviewedDraft, open_reviewed_draft, read_draft


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def drafts(bench: Bench, count: int = 3) -> list[Path]:
    """Drafts of one shape: a, b, c, … with the ids req-a, req-b, …"""
    made = []
    for number, letter in enumerate("abcdefgh"[:count]):
        path = bench.draft(f"req-{letter}", slug=letter, data=None, code="print(n)")
        given = f'## Inputs (JSON)\n\n```json\n{{"n": {number}}}\n```\n\n## Output'
        path.write_text(path.read_text().replace("## Output", given))
        made.append(path)
    return made


def approve(bench: Bench, paths: list[Path], *, stop_after: int = 99) -> list[Promoted]:
    """Approve the group of the first draft, as the command does; deliver so many of them."""
    context = bench.context
    done: list[Promoted] = []
    with open_group(context, read_draft(bench.workspace, paths[0])) as group:
        sealed = seal_group(context, group, "alice")
        signature = sign_group(sealed, bench.keys["alice"])
        for promoted in deliver_group(context, group, sealed, signature, actor="operator:alice"):
            done.append(promoted)
            if len(done) == stop_after:
                break
    return done


def launched(bench: Bench, path: Path) -> tuple[str, int]:
    """What becomes of a file in approved/, in a word, and how often anything ran."""
    runner = CountingRunner()
    (context,) = daemons(bench, runner, 1)
    approved = read_approved(context, path)
    if isinstance(approved, Unrunnable):
        return approved.code, runner.runs.total()
    outcome = launch(context, approved, control_of(context, approved.request_id))
    assert isinstance(outcome, (Ended, Waiting))
    return outcome.code, runner.runs.total()


def sig(path: Path) -> Path:
    return path.with_name(f"{path.name}.sig")


def test_each_member_runs_once(bench: Bench) -> None:
    done = approve(bench, drafts(bench))
    assert len(done) == 3 and len({sig(one.path).read_bytes() for one in done}) == 1
    assert len({one.approval_sha256 for one in done}) == 3
    for one in done:
        assert all(check.ok for check in verify_approval(bench.context, one.path))
        kept = one.path.read_bytes(), sig(one.path).read_bytes()
        assert launched(bench, one.path) == ("succeeded", 1)
        one.path.write_bytes(kept[0])
        sig(one.path).write_bytes(kept[1])
        assert launched(bench, one.path)[1] == 0  # replayed


def altered(change: Callable[[list[dict[str, object]]], object]) -> Callable[[bytes], bytes]:
    """The batch with its list changed, below the same signature."""

    def edit(data: bytes) -> bytes:
        line, _, armor = data.partition(b"\n")
        value = json.loads(line)
        change(value["statements"])
        return canonical_bytes(value) + b"\n" + armor

    return edit


def test_a_statement_of_any_depth_is_no_batch_for_the_audit(bench: Bench) -> None:
    one, two = (done.path for done in approve(bench, drafts(bench, 2)))
    sig(one).write_bytes(b"[" * 60_000 + b"\n")
    problems = [str(item) for item in verify_workspace(bench.workspace).problems]
    assert any(str(sig(one)) in line and "it was changed" in line for line in problems)
    assert not any(str(sig(two)) in line for line in problems)


FORM, SIGNATURE = "signature_file_malformed", "signature_invalid"
EDITS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "two members swapped": (SIGNATURE, altered(lambda items: items.reverse())),
    "a member taken out": (SIGNATURE, altered(lambda items: items.pop())),
    "a member added": (
        SIGNATURE,
        altered(lambda items: items.append({**items[0], "request_id": "x-1", "nonce": "f" * 32})),
    ),
    "a member twice": (FORM, altered(lambda items: items.append(items[0]))),
    "two members of one id": (
        FORM,
        altered(lambda items: items[1].update(request_id=items[0]["request_id"])),
    ),
    "one nonce for two": (FORM, altered(lambda items: items[1].update(nonce=items[0]["nonce"]))),
    "another end": (
        SIGNATURE,
        altered(lambda items: [item.update(expires_utc="2099-01-01T00:00:00Z") for item in items]),
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_batch_lets_nothing_run(bench: Bench, name: str) -> None:
    wanted, edit = EDITS[name]
    paths = drafts(bench)
    for one in approve(bench, paths):
        sig(one.path).write_bytes(edit(sig(one.path).read_bytes()))
        without = name == "a member taken out" and one.path.name == paths[-1].name
        assert launched(bench, one.path) == (FORM if without else wanted, 0)


def test_an_older_batch_of_the_same_drafts_is_none(bench: Bench) -> None:
    """A batch that was signed and never delivered: genuine, for the same bytes, and nobody announced it."""
    paths = drafts(bench)
    context = bench.context
    with open_group(context, read_draft(bench.workspace, paths[0])) as group:
        earlier = sign_group(seal_group(context, group, "alice"), bench.keys["alice"])
    for one in approve(bench, paths):
        sig(one.path).write_bytes(earlier)
        code, runs = launched(bench, one.path)
        assert code == "statement_mismatch" and runs == 0


def test_the_same_members_in_another_order_are_another_batch(bench: Bench) -> None:
    """Signed by the same operator: the place in the batch is announced, too."""
    done = approve(bench, drafts(bench, 2))
    listed = Batch.parse(SignedBytes.parse(sig(done[0].path).read_bytes()).statement)
    moved = material.signed(Batch(listed.risk, listed.statements[::-1]).to_bytes(), bench.keys["alice"])
    for one in done:
        sig(one.path).write_bytes(moved)
        assert launched(bench, one.path) == ("statement_mismatch", 0)


def test_a_member_alone_and_a_single_approval_in_a_batch(bench: Bench) -> None:
    done = approve(bench, drafts(bench))
    listed = Batch.parse(SignedBytes.parse(sig(done[0].path).read_bytes()).statement)
    sig(done[0].path).write_bytes(material.signed(listed.statements[0].to_bytes(), bench.keys["alice"]))
    assert launched(bench, done[0].path) == ("statement_mismatch", 0)
    # the same the other way round: a single approval was announced, a batch of it is there
    paths = drafts(bench, 5)[3:]
    context = bench.context
    with ExitStack() as held:
        opened = [held.enter_context(open_reviewed_draft(context, read_draft(bench.workspace, path))) for path in paths]
        first = seal(context, opened[0], "alice")
        moment = first.statement.approved_utc
        second = seal(context, opened[1], "alice", approved_utc=moment)
        batch = Batch("low", (first.statement, second.statement))
        single = promote(context, opened[0], first, sign(first, bench.keys["alice"]), actor="operator:alice")
    sig(single.path).write_bytes(material.signed(batch.to_bytes(), bench.keys["alice"]))
    assert launched(bench, single.path) == ("statement_mismatch", 0)


def test_a_cancelled_member_is_spent_and_the_others_run(bench: Bench) -> None:
    done = approve(bench, drafts(bench))
    kept = done[0].path.read_bytes(), sig(done[0].path).read_bytes()
    cancel_request(bench.context, "req-a", reason="no", by=OperatorDecision("account:test"))
    assert not done[0].path.exists()
    done[0].path.write_bytes(kept[0])
    sig(done[0].path).write_bytes(kept[1])
    assert launched(bench, done[0].path)[1] == 0
    assert [launched(bench, one.path) for one in done[1:]] == [("succeeded", 1)] * 2


def test_what_was_signed_and_not_delivered_is_not_approved(bench: Bench) -> None:
    """The signature that lies beside the delivered members covers the others, too: it is worth nothing for them."""
    paths = drafts(bench)
    context = bench.context
    with open_group(context, read_draft(bench.workspace, paths[0])) as group:
        sealed = seal_group(context, group, "alice")
        signature = sign_group(sealed, bench.keys["alice"])
        next(deliver_group(context, group, sealed, signature, actor="operator:alice"))
        rest = sealed.sealed[1:]
    for path, one in zip(paths[1:], rest, strict=True):
        target = bench.workspace.approved / path.name
        path.rename(path.with_suffix(".kept"))
        target.write_bytes(one.data)
        sig(target).write_bytes(signature)
        assert launched(bench, target) == ("statement_mismatch", 0)


def test_kill_9_between_members(bench: Bench) -> None:
    """The rest are drafts as before; they can be approved again, and the statements of the killed batch are spent."""
    paths = drafts(bench)
    done = subprocess.run(  # a process of its own: Monty's type checker has threads, so this one cannot be forked
        [sys.executable, "-m", "tests.adversarial.approval.killed_approver", str(bench.workspace.root),
         str(paths[0]), str(bench.keys["alice"])],
        cwd=Path(__file__).parents[3], capture_output=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    first = bench.workspace.approved / paths[0].name
    assert first.exists() and not paths[0].exists() and all(path.exists() for path in paths[1:])
    old = sig(first).read_bytes()
    assert launched(bench, first) == ("succeeded", 1)
    again = approve(bench, paths[1:])
    assert len(again) == 2
    for one in again:
        new = sig(one.path).read_bytes()
        sig(one.path).write_bytes(old)
        # its time of approval may be the same second: then the recorded approval tells them apart
        assert launched(bench, one.path)[1] == 0
        assert new != old


def test_a_delivery_that_was_abandoned_spends_the_member(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event is on disk and the file never came: recovery frees the id, and the old signature does not count for
    it.
    """
    paths = drafts(bench, 2)
    real = durable.rename

    def full(source: Path, path: Path) -> None:
        if path.name == f"{paths[1].name}.sig":
            raise OSError(28, "No space left on device")
        real(source, path)

    monkeypatch.setattr(durable, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        approve(bench, paths)
    monkeypatch.undo()
    old = sig(bench.workspace.approved / paths[0].name).read_bytes()
    (context,) = daemons(bench, CountingRunner(), 1)
    recover(context, Log(quiet=True), ())
    with bench.context.trail.locked() as held:
        history = held.index.history("req-b")
        assert history is not None and history.abandoned and history.approved is None
    assert b'"req-b"' in old
    one = bench.approve(paths[1])
    sig(one.path).write_bytes(old)
    assert launched(bench, one.path)[1] == 0


# ---- what is of a group


def test_drafts_that_are_not_of_the_group_are_left_as_they_are(bench: Bench) -> None:
    paths = drafts(bench, 3)
    paths[2].write_text(paths[2].read_text().replace("memory_limit_mb: 64", "memory_limit_mb: 65"))
    assert len(approve(bench, paths)) == 2 and paths[2].exists()
    with pytest.raises(InvalidInput, match="no other draft"):
        approve(bench, [paths[2]])


@pytest.mark.parametrize(
    ("data", "grouped"),
    [
        (b"2\n", True),
        (b"2\n" * 4000, False),
        (b"\xff\n", False),
        (b"\x1b[2J", False),
        (b"\xe2\x80\xae", False),
    ],
)
def test_an_input_that_differs_is_in_the_table_whole_or_its_draft_is_left_out(
    bench: Bench, data: bytes, grouped: bool
) -> None:
    paths = [bench.draft("req-1", slug="one", data=b"1\n"), bench.draft("req-2", slug="two", data=data)]
    for found in (b"1\n", data):
        (bench.workspace.files / hashlib.sha256(found).hexdigest()).write_bytes(found)
    if grouped:
        assert len(approve(bench, paths)) == 2
        return
    with pytest.raises(InvalidInput, match="no other draft.*not plain text"):
        approve(bench, paths)


def test_a_member_with_a_screen_of_its_own_is_left_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = drafts(bench)
    real = group_screen._told_beside

    def told(member: ReviewedDraft) -> tuple[object, ...]:
        return (*real(member), member.request.request_id == "req-b")

    monkeypatch.setattr(group_screen, "_told_beside", told)
    with open_group(bench.context, read_draft(bench.workspace, paths[0])) as group:
        assert [member.request.request_id for member in group.members] == ["req-a", "req-c"]
        assert [name for name, _ in group.left_out] == [paths[1].name]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("print(n)", "print(0)"),
        ("Data sensitivity: public", "Data sensitivity: internal"),
        ("memory_limit_mb: 64", "memory_limit_mb: 65"),
        ("req-b", "req-z"),
    ],
)
def test_a_draft_that_is_replaced_after_it_was_listed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    """By another of the same name; what is opened is what counts."""
    paths = drafts(bench)
    real = approve_group.group_paths

    def listed(context: Context, lead: Draft) -> list[Path]:
        found = real(context, lead)
        assert len(found) == 3
        paths[1].write_text(paths[1].read_text().replace(old, new))
        return found

    monkeypatch.setattr(approve_group, "group_paths", listed)
    with open_group(bench.context, read_draft(bench.workspace, paths[0])) as group:
        ids = [member.request.request_id for member in group.members]
        assert ids == (["req-a", "req-z", "req-c"] if new == "req-z" else ["req-a", "req-c"])


def test_a_batch_holds_no_more_than_its_bound(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = drafts(bench, 4)
    monkeypatch.setattr("threegate.core.limits.BATCH_MEMBERS", 3)
    with open_group(bench.context, read_draft(bench.workspace, paths[0])) as group:
        assert len(group.members) == 3 and "full" in group.left_out[0][1]


def test_the_same_id_twice_is_never_delivered(bench: Bench) -> None:
    paths = drafts(bench)
    paths[1].write_text(paths[1].read_text().replace("req-b", "req-a"))
    with open_group(bench.context, read_draft(bench.workspace, paths[0])) as group:
        assert [member.request.request_id for member in group.members] == ["req-a", "req-c"]


def test_nothing_of_a_refused_signature_is_delivered(bench: Bench) -> None:
    paths = drafts(bench)
    stranger = material.make_key(bench.keys["alice"].parent, "stranger")
    context = bench.context
    with open_group(context, read_draft(bench.workspace, paths[0])) as group:
        sealed = seal_group(context, group, "alice")
        with pytest.raises(Refused) as caught:
            list(deliver_group(context, group, sealed, sign_group(sealed, stranger), actor="operator:alice"))
    assert caught.value.code == "signer_unknown"
    assert all(path.exists() for path in paths) and not list(bench.workspace.approved.iterdir())
