"""An event of a plugin's kind does to the core what its reserved keys say, whether the plugin is on, off, deleted or
was never listed; nothing of it runs where it is not known, and what it says in a wrong form opens nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.adversarial.trail.probe_plugin.kinds import did
from tests.launch.launching import CountingRunner, control_of, daemons, events_of, history_of
from tests.support import threegate
from threegate.acts.cancel import cancel_request
from threegate.acts.reject import reject_draft
from threegate.acts.replay import ended_request
from threegate.acts.signed_acts import OperatorDecision
from threegate.audit.audit_verify import verify_workspace
from threegate.audit.prune import prune
from threegate.audit.trail_checkpoints import write_trail_checkpoint
from threegate.core import limits, plugins
from threegate.core.errors import Refused, Unavailable
from threegate.core.plugins import PLUGINS, Plugin
from threegate.daemon import recovery
from threegate.daemon.log import Log
from threegate.daemon.loop import Daemon
from threegate.daemon.recovery import refuse_open
from threegate.judgement.judge import Cleared, NotCleared
from threegate.launch import approved_file
from threegate.launch.approved_file import Approved, Unrunnable, Waiting, read_approved
from threegate.launch.pipeline import claim, judge_now, launch
from threegate.trail import payloads
from threegate.trail.event import Opaque, make_event, plugin_kinds
from threegate.trail.index import TrailIndex
from threegate.trail.story import story_line
from threegate.trail.trail import Trail

HERE = "tests.adversarial.trail"


class _Elsewhere(Plugin):
    """A plugin whose folder is among the tests, or nowhere."""

    __slots__ = ()
    folder = "probe_plugin"

    @property
    def package(self) -> str:
        return f"{HERE}.{self.folder}"


class _Deleted(_Elsewhere):
    __slots__ = ()
    folder = "deleted"


PROBE = _Elsewhere("probe", "is there for a test", offers={"kinds": "kinds:KINDS"})
GONE = _Deleted("probe", "is there for a test", offers={"kinds": "kinds:KINDS"})
D1, D2 = hashlib.sha256(b"1").hexdigest(), hashlib.sha256(b"2").hexdigest()
SAID = {"what": "anything"}
List = Callable[[str], None]


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Iterator[List]:
    """Makes the plugin one that is there, is deleted, or was never heard of."""

    def change(how: str) -> None:
        more = {"there": (PROBE,), "off": (PROBE,), "deleted": (GONE,), "never known": ()}[how]
        monkeypatch.setattr(plugins, "PLUGINS", (*PLUGINS, *more))
        plugin_kinds.cache_clear()

    change("there")
    yield change
    monkeypatch.undo()
    plugin_kinds.cache_clear()


@pytest.fixture
def bench(tmp_path: Path, listed: List) -> Bench:
    return make_bench(tmp_path)


@pytest.fixture
def runner() -> CountingRunner:
    return CountingRunner()


def say(bench: Bench, data: Mapping[str, Any], request_id: str | None = None) -> None:
    """The plugin, while it was there."""
    Trail(bench.workspace).announce(did(data), request_id=request_id, actor="probe")


def become(bench: Bench, listed: List, how: str) -> None:
    listed(how)
    if how == "off":
        bench.settings(plugins__off=["probe"])
        assert bench.workspace.load_settings().plugins.off == ("probe",)


def index_of(bench: Bench) -> TrailIndex:
    with Trail(bench.workspace).locked() as held:
        return held.index


def problems(bench: Bench) -> list[str]:
    return [str(item) for item in verify_workspace(bench.workspace).problems]


EVERY_WAY = pytest.mark.parametrize("how", ["there", "off", "deleted", "never known"])


@EVERY_WAY
@pytest.mark.parametrize("key", ["nonce", "signed"])
def test_a_nonce_is_used_up(bench: Bench, runner: CountingRunner, listed: List, how: str, key: str) -> None:
    path = bench.approve(bench.draft()).path
    nonce = payloads.Approved.of(history_of(bench.context).approved).nonce  # type: ignore[union-attr]
    say(bench, {"nonce": nonce} if key == "nonce" else {"signed": {"nonce": nonce, "key": "SHA256:x"}})
    become(bench, listed, how)
    assert index_of(bench).nonce_used(str(nonce))
    (context,) = daemons(bench, runner, 1)
    approved = read_approved(context, path)
    assert isinstance(approved, Approved)
    ended = launch(context, approved, control_of(context, approved.request_id))
    assert ended.code == "replayed" and not runner.runs


@EVERY_WAY
def test_an_id_is_spent(bench: Bench, runner: CountingRunner, listed: List, how: str) -> None:
    """It is not approved, and what was approved before does not run."""
    path = bench.approve(bench.draft("req-1")).path
    say(bench, {"ids_sha256": [hashlib.sha256(name).hexdigest() for name in (b"req-1", b"req-2")]})
    become(bench, listed, how)
    (context,) = daemons(bench, runner, 1)
    found = read_approved(context, path)
    assert isinstance(found, Unrunnable) and found.code == "replayed"
    with pytest.raises(Refused) as caught:
        bench.approve(bench.draft("req-2", slug="two"))
    assert caught.value.code == "replayed"
    bench.approve(bench.draft("req-3", slug="three"))


@EVERY_WAY
def test_files_are_announced(bench: Bench, listed: List, how: str) -> None:
    folder = bench.workspace.tool_exec / "probe" / "deep"
    folder.mkdir(parents=True)
    (folder / "a.json").write_bytes(b"1")
    pinned = bench.workspace.inputs / D2
    pinned.write_bytes(b"2")
    assert any("probe" in item for item in problems(bench)), "foreign until it is announced"
    say(bench, {"files": {"probe/deep/a.json": D1, f"inputs/{D2}": D2}})
    become(bench, listed, how)
    assert problems(bench) == []
    assert index_of(bench).files == {"probe/deep/a.json": D1, f"inputs/{D2}": D2}
    later = datetime.now(UTC) + timedelta(days=1)
    assert prune(bench.workspace, before=later, actor="me").inputs == () and pinned.exists()
    assert problems(bench) == []
    (folder / "b.json").write_bytes(b"1")
    assert [item for item in problems(bench) if "probe/deep/b.json" in item and "no event announced" in item]
    (folder / "b.json").rename(folder / "a.json")
    (folder / "a.json").write_bytes(b"2")
    assert [item for item in problems(bench) if "probe/deep/a.json" in item and "it was changed" in item]
    (folder / "a.json").unlink()
    pinned.unlink()
    assert len([item for item in problems(bench) if "probe/deep/a.json" in item or D2 in item]) == 2


@EVERY_WAY
def test_a_file_that_went_is_foreign(bench: Bench, listed: List, how: str) -> None:
    (bench.workspace.tool_exec / "probe").mkdir()
    path = bench.workspace.tool_exec / "probe" / "a"
    path.write_bytes(b"1")
    say(bench, {"files": {"probe/a": D1, f"inputs/{D2}": D2}})
    say(bench, {"files": {"probe/a": None, f"inputs/{D2}": None}})
    become(bench, listed, how)
    assert [item for item in problems(bench) if "probe/a" in item and "no event announced" in item]
    path.unlink()
    assert problems(bench) == [] and index_of(bench).files == {}


MALFORMED: list[dict[str, Any]] = [
    {"nonce": 5}, {"nonce": ["n"]}, {"nonce": {}}, {"nonce": False}, {"signed": "n"}, {"signed": []}, {"signed": {"nonce": 7}},  # noqa: E501
    {"ids_sha256": D1}, {"ids_sha256": {D1: D1}}, {"ids_sha256": [5]}, {"ids_sha256": ["req-1"]}, {"ids_sha256": [D1.upper()]},  # noqa: E501
    {"ids_sha256": [D1] * (limits.TRAIL_LIST_ITEMS + 1)},
    {"files": "probe/a"}, {"files": ["probe/a"]}, {"files": 1}, {"files": {"probe/a": 5}}, {"files": {"probe/a": "x"}},
    {"files": {"probe/a": [D1, D2]}}, {"files": {"probe/a": {"sha256": D1}}}, {"files": {"../a": D1}}, {"files": {"": D1}},  # noqa: E501
    {"files": {"probe/../operators": D1}}, {"files": {"/etc/passwd": D1}}, {"files": {"probe//a": D1}}, {"files": {"probe/./a": D1}},  # noqa: E501
    {"files": {"probe/": D1}}, {"files": {"operators": D1}}, {"files": {"approved/TR-1.md": D1}}, {"files": {"results/a": D1}},  # noqa: E501
    {"files": {"audit/trail.jsonl": D1}}, {"files": {"audit/checkpoints/000000000001": D1}}, {"files": {"control/a": None}},  # noqa: E501
    {"files": {f"inputs/{D1}": D2}}, {"files": {"inputs/a": D1}}, {"files": {f"runs/req-1/{D1}": D1}}, {"files": {"contracts/a.yaml": None}},  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize("how", ["there", "deleted"])
@pytest.mark.parametrize("data", MALFORMED, ids=lambda data: json.dumps(data)[:60])
def test_what_cannot_be_read_is_a_problem_and_nothing_is_launched(
    bench: Bench, runner: CountingRunner, listed: List, data: dict[str, Any], how: str
) -> None:
    path = bench.approve(bench.draft()).path
    say(bench, data)
    become(bench, listed, how)
    found = problems(bench)
    assert len([item for item in found if "(probe.did) names a" in item and "form that cannot be read" in item]) == 1
    index = index_of(bench)
    assert index.problem is not None and not index.files
    (context,) = daemons(bench, runner, 1)
    approved = read_approved(context, path)
    assert isinstance(approved, Approved)
    waits = launch(context, approved, control_of(context, approved.request_id))
    assert isinstance(waits, Waiting) and waits.code == "event_unreadable" and not runner.runs


def test_two_digests_for_a_path_are_no_event(bench: Bench) -> None:
    """A line with a key twice is not in canonical form: the trail does not verify, and nothing reads on."""
    say(bench, {"files": {"probe/a": D1}})
    text = bench.workspace.trail_file.read_text()
    bench.workspace.trail_file.write_text(text.replace(f'"probe/a":"{D1}"', f'"probe/a":"{D1}","probe/a":"{D2}"'))
    assert any("is not in canonical form" in item for item in problems(bench))


def test_what_an_event_uses_up_is_never_cut(bench: Bench) -> None:
    """A line that is too long loses its other lists, and not these; where even these do not fit, nothing is written."""
    ids = [hashlib.sha256(bytes([number])).hexdigest() for number in range(200)]
    long = {f"text{number}": ["x" * 150] * 200 for number in range(3)}
    say(bench, {**long, "ids_sha256": ids, "files": {"probe/a": D1}})
    *_, event = Trail(bench.workspace).events()
    assert event.data["ids_sha256"] == ids and event.data["files"] == {"probe/a": D1} and "cut_sha256" in event.data
    many = {f"probe/{number}": D1 for number in range(1000)}
    with pytest.raises(ValueError, match="announces more than a line takes"):
        say(bench, {"files": many})
    assert len(list(Trail(bench.workspace).events())) == event.seq


# ---- a request whose history has such an event


def test_it_is_not_approved_and_can_be_rejected(bench: Bench, listed: List) -> None:
    draft = bench.draft()
    say(bench, {}, "req-1")
    listed("deleted")
    with pytest.raises(Refused) as caught:
        bench.approve(draft)
    assert caught.value.code == "unknown_event" and "probe.did" in str(caught.value)
    assert history_of(bench.context).approved is None
    reject_draft(bench.context, draft, reason="no", by=OperatorDecision("operator:alice"))
    assert history_of(bench.context).end is not None


def test_it_is_neither_claimed_nor_run(bench: Bench, runner: CountingRunner, listed: List) -> None:
    """It waits; with the plugin back it runs, and it can be cancelled."""
    path = bench.approve(bench.draft()).path
    other = bench.approve(bench.draft("req-2", slug="two")).path
    (before,) = daemons(bench, runner, 1)
    approved = read_approved(before, path)
    assert isinstance(approved, Approved)
    judgement, _ = judge_now(before, approved)
    assert isinstance(judgement, Cleared)
    for name in ("req-1", "req-2"):
        say(bench, {}, name)
    listed("deleted")
    (context,) = daemons(bench, runner, 1)
    late = claim(context, approved, judgement)
    assert isinstance(late, Waiting) and late.code == "unknown_event", "judged before, claimed after"
    judgement, _ = judge_now(context, approved)
    assert isinstance(judgement, NotCleared) and (judgement.verdict, judgement.code) == ("wait", "unknown_event")
    for payload in (payloads.Claimed(), payloads.Cleared(would_block=False), payloads.Started(), payloads.Approved()):
        with context.trail.locked() as held, pytest.raises(Refused, match=r"of the kind probe\.did"):
            held.append(payload, request_id="req-1", actor="daemon")
    assert not runner.runs and path.exists()
    cancel_request(context, "req-2", by=OperatorDecision("operator:alice"))
    assert not other.exists()
    listed("there")
    (again,) = daemons(bench, runner, 1)
    assert launch(again, approved, control_of(again, "req-1")).code == "succeeded"
    say(bench, {}, "req-1")
    listed("deleted")
    with pytest.raises(Refused) as caught:
        ended_request(bench.context, "req-1")
    assert caught.value.code == "unknown_event"


def test_it_is_shown_as_it_is(bench: Bench, listed: List) -> None:
    """By every command that tells of it, and never written again."""
    path = bench.approve(bench.draft()).path
    say(bench, SAID, "req-1")
    workspace = bench.workspace
    told = "recorded probe.did, a kind of event that is not known here"
    assert told in threegate("audit", "show", cwd=workspace.root).out
    shown = threegate("show", "req-1", cwd=workspace.root).out
    assert "probe.did    probe  a kind of event that is not known here" in shown
    assert json.loads(threegate("show", "req-1", "--json", cwd=workspace.root).out)["events"][-1]["data"] == SAID
    assert threegate("audit", "verify", cwd=workspace.root).code == 0
    assert path.name[3:] in threegate("status", cwd=workspace.root).out
    listed("deleted")
    (event,) = (event for event in events_of(workspace) if event.type == "probe.did")
    assert type(event.payload) is Opaque and told in story_line(event)
    with pytest.raises(ValueError, match="no event type"):
        make_event(seq=2, time=event.time, type="probe.did", request_id=None, actor="x", data={}, prev=event.hash)
    with pytest.raises(ValueError, match="no event type"):
        Trail(workspace).announce(did({}), actor="x")


# ---- the index, and what is open


def test_the_index_is_made_again_where_a_plugin_came_or_went(
    bench: Bench, listed: List, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TRAIL_INDEX_LINES", 5)
    bench.approve(bench.draft())
    say(bench, {}, "req-1")
    for _ in range(5):
        say(bench, {"nonce": "n"})
    with Trail(bench.workspace).locked() as held:
        write_trail_checkpoint(held, actor="me")
    assert index_of(bench).saved and history_of(bench.context).unknown is None
    listed("deleted")
    index = index_of(bench)
    assert history_of(bench.context).unknown == "probe.did" and index.nonce_used("n")
    listed("there")
    assert index_of(bench).saved and history_of(bench.context).unknown is None


def claimed(bench: Bench, runner: CountingRunner) -> None:
    path = bench.approve(bench.draft()).path
    (context,) = daemons(bench, runner, 1)
    approved = read_approved(context, path)
    assert isinstance(approved, Approved)
    judgement, _ = judge_now(context, approved)
    assert isinstance(judgement, Cleared) and isinstance(claim(context, approved, judgement), Path)


def start(bench: Bench) -> str:
    """What a daemon says that does not start."""
    with pytest.raises(Unavailable) as caught:
        Daemon(bench.workspace, Log(quiet=True), once=True).run()
    assert "\n" not in str(caught.value) and str(caught.value).endswith("nothing is started before")
    assert history_of(bench.context).end is None, "not called interrupted"
    return str(caught.value)


@pytest.mark.parametrize("started", [True, False])
def test_what_a_missing_backend_left_half_done_is_not_called_interrupted(
    bench: Bench, runner: CountingRunner, monkeypatch: pytest.MonkeyPatch, started: bool
) -> None:
    claimed(bench, runner)
    if not started:
        bench.workspace.trail_file.write_text(_without_started(bench))
    with monkeypatch.context() as patch:
        for module in (recovery, approved_file):
            patch.setattr(module, "BACKENDS", {"ERA"})
        assert "req-1 is claimed and has not ended, and its backend monty is not here" in start(bench)
    if started:
        assert Daemon(bench.workspace, Log(quiet=True), once=True).run() == 0
        assert history_of(bench.context).end.type == "interrupted"  # type: ignore[union-attr]


def test_what_nobody_here_can_read_is_not_called_interrupted(
    bench: Bench, runner: CountingRunner, listed: List
) -> None:
    claimed(bench, runner)
    say(bench, {}, "req-1")
    listed("deleted")
    assert "req-1 is claimed and has not ended, and nothing here knows the kind probe.did" in start(bench)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("off", "the plugin probe is off (plugins.off in threegate.toml)"),
        ("deleted", "the plugin probe is not part of this installation"),
        ("never known", "there is no plugin probe here"),
    ],
)
def test_no_daemon_starts_over_the_open_work_of_a_plugin(bench: Bench, listed: List, how: str, why: str) -> None:
    mark = bench.workspace.control / "open-probe-undo-req-1.json"
    mark.write_bytes(b"")
    settings = bench.workspace.load_settings()
    refuse_open(bench.workspace, Trail(bench.workspace), settings)
    become(bench, listed, how)
    settings = bench.workspace.load_settings()
    with pytest.raises(Unavailable) as caught:
        refuse_open(bench.workspace, Trail(bench.workspace), settings)
    assert str(caught.value).startswith(f"{mark} is open, and {why}; ")
    mark.unlink()
    refuse_open(bench.workspace, Trail(bench.workspace), settings)


# ---- what plugins may give


def _without_started(bench: Bench) -> str:
    """The trail as it is before a runner on another machine says that it began."""
    lines = bench.workspace.trail_file.read_text().splitlines(keepends=True)
    assert json.loads(lines[-1])["type"] == "started"
    return "".join(lines[:-1])
