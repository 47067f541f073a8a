"""Drills: none can be signed, delivered, claimed or run, wherever its file is copied to, and nothing of it reaches
an agent.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.acts.bench_workspace import DATA, Bench, make_bench
from tests.conftest import few
from tests.plugins.drills.practice import answer_drill
from threegate.acts.approve import Sealed, insert_approval, promote, seal, sign
from threegate.acts.approve_group import open_group
from threegate.acts.cancel import cancel_request
from threegate.acts.reject import expire_draft, reject_draft
from threegate.acts.retry import retry_request
from threegate.acts.signed_acts import OperatorDecision
from threegate.acts.signing_key import Acting
from threegate.audit.audit_verify import verify_workspace
from threegate.cli import execute
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, Refused
from threegate.daemon import run_daemon
from threegate.daemon.log import Log
from threegate.plugins.drills.drills import place_drill, set_drills
from threegate.plugins.drills.placed_drill import Drill, drills_folder
from threegate.review import reviewed_draft
from threegate.review.reviewed_draft import Draft, open_reviewed_draft, read_draft
from threegate.review.status import status_lines
from threegate.trail.payloads import Approved, Claimed, Started
from threegate.trail.trail import Trail

_GOES_ON = (Approved, Claimed, Started)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A workspace in which one request ran and drills are on."""
    bench = make_bench(tmp_path)
    bench.settings(approval__signature="optional")
    bench.approve(bench.draft("req-20260101-101010-abcdef"))
    assert run_daemon(bench.workspace, once=True, log=Log()) == 0
    set_drills(bench.context, Acting("alice", bench.keys["alice"]), on=True)
    return bench


@pytest.fixture
def drill(bench: Bench) -> Drill:
    found = place_drill(bench.context, chance=Random(7))
    assert found is not None
    return found


def listed(bench: Bench, drill: Drill) -> Draft:
    found = read_draft(bench.workspace, drill.listed(bench.workspace))
    assert found.placed == drill
    return found


def went_on(bench: Bench) -> list[str | None]:
    """Ids of what was approved, claimed or started, without the request that really ran."""
    return [
        event.request_id
        for event in Trail(bench.workspace).events()
        if isinstance(event.payload, _GOES_ON) and event.request_id != "req-20260101-101010-abcdef"
    ]


def run(bench: Bench) -> None:
    assert run_daemon(bench.workspace, once=True, log=Log()) == 0
    assert went_on(bench) == []
    assert [path.name for path in bench.workspace.runs.iterdir() if path.is_dir()] == ["req-20260101-101010-abcdef"]


def told_nobody(bench: Bench, drill: Drill) -> None:
    """Nothing that an agent may read names it, the trail is true, and no event gives its id away."""
    for folder in (bench.workspace.verdicts, bench.workspace.results):
        for path in (path for path in folder.rglob("*") if path.is_file()):
            data = path.read_bytes()
            assert drill.request_id.encode() not in data and drill.name.encode() not in data, path
            assert drill.name not in path.name and drill.request_id not in path.name
    audit = verify_workspace(bench.workspace)
    assert audit.ok, [str(item) for item in audit.problems]
    assert all(event.request_id != drill.request_id for event in Trail(bench.workspace).events())


def forged(bench: Bench, drill: Drill, monkeypatch: pytest.MonkeyPatch) -> tuple[Sealed, bytes]:
    """What somebody signs who has taken both walls before the signature away."""
    draft = replace(listed(bench, drill), placed=None)
    context = bench.context
    place = reviewed_draft._places
    with monkeypatch.context() as patch:
        patch.setattr(reviewed_draft, "refuse_used", lambda held, request: None)
        patch.setattr(
            reviewed_draft, "_places", lambda *given: place(*given[:1], replace(draft, placed=drill), given[2])
        )
        with open_reviewed_draft(context, draft) as reviewed:
            sealed = seal(context, reviewed, "alice")
            signed = sign(sealed, bench.keys["alice"])
            with pytest.raises(Refused) as error:
                promote(context, reviewed, sealed, signed, actor="operator:alice")
            assert error.value.code == "replayed", "the id is spent"
    return sealed, signed


def test_it_is_not_sealed(bench: Bench, drill: Drill) -> None:
    draft = listed(bench, drill)
    with open_reviewed_draft(bench.context, draft) as reviewed, pytest.raises(Refused) as error:
        seal(bench.context, reviewed, "alice")
    assert error.value.code == "drill"


@pytest.mark.parametrize(
    "words", [["--yes"], ["--group"], ["--print-statement", "--as", "alice"], ["--signature", "x.sig"]]
)
def test_it_is_given_to_nobody_who_is_not_asked(
    bench: Bench, drill: Drill, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = [
        "-w",
        str(bench.workspace.root),
        "approve",
        drill.name,
        "--key",
        str(bench.keys["alice"]),
        *words,
    ]
    assert execute(given) == 2
    said = capsys.readouterr()
    assert "its own, at the prompt" in said.err and said.out == ""
    assert listed(bench, drill) and went_on(bench) == []


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize("folder", ["inbox", "drafts"])
def test_a_copy_among_the_drafts_is_a_replay(bench: Bench, drill: Drill, folder: str, over: bool) -> None:
    data = drill.file(bench.workspace).read_bytes()
    if over:
        answer_drill(bench.context, listed(bench, drill), yes=False, actor="operator:alice")
    place = bench.workspace.inbox if folder == "inbox" else bench.workspace.drafts
    (place / "files").mkdir(exist_ok=True)
    (place / "files" / sha256_hex(DATA)).write_bytes(DATA)
    for name in (drill.name, "TR-20260101-000000Z-copy.md"):
        (place / name).write_bytes(data)
        draft = read_draft(bench.workspace, place / name)
        assert draft.placed is None
        with pytest.raises(Refused) as error, open_reviewed_draft(bench.context, draft):
            pass
        assert error.value.code == "replayed"
    if folder == "inbox":
        done = reject_draft(bench.context, draft, reason="", by=OperatorDecision("operator:alice"))
        assert done.request_id is None, "nothing has the drill's id in its result"
    run(bench)


@pytest.mark.parametrize("signature", [False, True])
def test_a_copy_in_approved_never_runs(
    bench: Bench, drill: Drill, signature: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.workspace.approved / drill.name
    if signature:
        sealed, signed = forged(bench, drill, monkeypatch)
        path.with_name(f"{drill.name}.sig").write_bytes(signed)
        data = sealed.data
    else:
        draft = listed(bench, drill)
        with open_reviewed_draft(bench.context, draft) as reviewed:
            data = insert_approval(draft.data, "alice", reviewed.now.replace(microsecond=0))
    path.write_bytes(data)
    run(bench)
    assert not path.exists() and (bench.workspace.refused / drill.name).exists()
    told_nobody(bench, drill)


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize("folder", ["inbox", "drafts", "approved"])
@pytest.mark.parametrize("broken", few([False, True], 1))
def test_a_copy_is_told_to_nobody(bench: Bench, drill: Drill, folder: str, broken: bool, over: bool) -> None:
    """Nor under another name, nor where gate 1 has something else to say of it, nor when the drill is over."""
    data = drill.file(bench.workspace).read_bytes()
    if over:
        answer_drill(bench.context, listed(bench, drill), yes=False, actor="operator:alice")
    place = {name: getattr(bench.workspace, name) for name in ("inbox", "drafts", "approved")}[folder]
    names = [drill.name, "TR-20260101-000000Z-copy.md"]
    for name in names:
        (place / name).write_bytes(data.replace(b"## Code", b"## Coda") if broken else data)
    run(bench)
    told = [event for event in Trail(bench.workspace).events() if getattr(event.payload, "file", "") in names]
    kind = "quarantined" if folder == "approved" else "validated"
    assert {(event.type, event.payload.file) for event in told} == {(kind, name) for name in names}
    if folder == "approved":
        assert all((bench.workspace.refused / name).exists() for name in names)
        told_nobody(bench, drill)
    elif folder == "inbox":
        for name in names:
            assert not (bench.workspace.verdicts / f"{name}.json").exists()
            reject_draft(bench.context, bench.workspace.inbox / name, reason="", by=OperatorDecision("operator:alice"))
        told_nobody(bench, drill)
    assert not any(bench.workspace.verdicts.glob("*copy*"))


def test_no_other_act_takes_it(bench: Bench, drill: Drill) -> None:
    context, draft = bench.context, listed(bench, drill)
    with pytest.raises(Refused) as error:
        reject_draft(context, draft, reason="", by=OperatorDecision("operator:alice"))
    assert error.value.code == "drill"
    assert expire_draft(context, replace(draft, identity=(0, 0, 0, 0, 0))) is None
    with pytest.raises(Refused):
        cancel_request(context, drill.request_id, by=OperatorDecision("operator:alice"))
    with pytest.raises(InvalidInput):
        retry_request(context, drill.file(bench.workspace))
    run(bench)
    assert listed(bench, drill)


def test_nothing_of_it_reaches_an_agent(bench: Bench, drill: Drill) -> None:
    root = bench.workspace.root
    for over in (False, True):
        run(bench)
        readable = [root / "inbox", bench.workspace.verdicts, bench.workspace.results, bench.workspace.drafts]
        for path in (path for folder in readable for path in folder.rglob("*") if path.is_file()):
            data = path.read_bytes()
            assert drill.request_id.encode() not in data and drill.name not in path.name, path
        if not over:
            answer_drill(bench.context, listed(bench, drill), yes=True, actor="operator:alice")


def test_no_batch_has_one(bench: Bench, drill: Drill) -> None:
    """The planted limit makes it of another shape; a drill that has the shape of its group is left out all the same."""
    first, other = (bench.draft(f"req-{name}", slug=name, created=None) for name in ("one", "two"))
    context = bench.context
    lead = read_draft(bench.workspace, first)
    with open_group(context, lead) as group:
        assert [member.draft.path for member in group.members] == [first, other]
    drill.file(bench.workspace).write_bytes(first.read_bytes().replace(b"req-one", drill.request_id.encode()))
    with open_group(context, lead) as group:
        assert [member.draft.path for member in group.members] == [first, other]
        assert [name for name, _ in group.left_out] == []
    lines = {line.file: line.together for line in status_lines(bench.workspace) if line.state == "draft"}
    assert lines == {first.name: 2, other.name: 2, drill.name: 0}
    assert execute(["-w", str(bench.workspace.root), "reject", drill.name, "--group"]) != 0
    assert first.exists() and other.exists()


@pytest.mark.root  # as another account than the operator's
def test_another_account_cannot_read_it(bench: Bench, drill: Drill) -> None:
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            os.listdir(drills_folder(bench.workspace))
        except PermissionError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
