"""What ran before is counted from the trail: only runs that succeeded, of requests that were signed by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.trail.workspaces import WORKSPACE_ID, make_workspace
from threegate.core import limits
from threegate.trail.event import make_event
from threegate.trail.index import TrailIndex
from threegate.trail.past_uses import PastUses, Ran
from threegate.trail.payloads import Approved, Cancelled, Claimed, Finished, Interrupted, Payload, Refused, Uses
from threegate.trail.trail import LockedTrail, Trail

USES = Uses(
    requester="core", hosts=("api.example.com",), urls=("docs.example.org",), program="curl", folders=("inbox",)
)


class Events:
    """An index, and the events that it takes, one a minute."""

    def __init__(self) -> None:
        self.index = TrailIndex()
        self._seq, self._prev = 0, WORKSPACE_ID

    def add(self, payload: Payload, request_id: str) -> None:
        self._seq += 1
        event = make_event(
            seq=self._seq, time=f"2026-01-{1 + self._seq // 60:02d}T00:{self._seq % 60:02d}:00.000Z", type=payload.kind,
            request_id=request_id, actor="x", data=payload.to_data(), prev=self._prev,
        )  # fmt: skip
        self._prev = event.hash
        self.index.add(event)

    def run(self, name: str, uses: Uses | None = USES, end: Payload | None = None, **approved: Any) -> None:
        signed = {"approval_sha256": f"a-{name}", **approved}
        self.add(Approved(uses=uses, **signed), name)
        self.add(Claimed(approval_sha256=signed["approval_sha256"], grant=signed.get("grant")), name)
        self.add(end or Finished(status="succeeded"), name)


def test_a_run_counts_for_everything_that_its_request_uses() -> None:
    events = Events()
    events.run("r-1")
    events.run("r-2")
    uses = events.index.uses
    for kind, value in (
        ("requester", "core"),
        ("host", "api.example.com"),
        ("url", "docs.example.org"),
        ("program", "curl"),
        ("folder", "inbox"),
    ):
        ran = uses.by("core", kind, value)
        assert ran == Ran(2, "2026-01-01T00:03:00.000Z", "2026-01-01T00:06:00.000Z"), kind
    assert uses.runs == 2 and not uses.forgotten
    assert [host for host, _ in uses.hosts()] == ["api.example.com"]


@pytest.mark.parametrize(
    "approved",
    [
        {"grant": "g1", "approval_sha256": None},
        {"grant": "g1"},
        {"approval_sha256": None},
        {"batch_sha256": "b1", "batch_index": 0},
        {"uses": None},
        {"uses": Uses(requester=None, program="curl")},
    ],
)
def test_what_nobody_signed_by_itself_counts_for_nothing(approved: dict[str, Any]) -> None:
    events = Events()
    events.run("r-1", **approved)
    assert events.index.uses.runs == 0 and not list(events.index.uses.hosts())


@pytest.mark.parametrize(
    "end",
    [
        *(Finished(status=status) for status in ("failed", "exited", "timed_out", "out_of_memory", None)),
        Interrupted(),
        Cancelled(),
        Refused(),
    ],
)
def test_a_run_that_did_not_succeed_counts_for_nothing(end: Payload) -> None:
    events = Events()
    events.run("r-1", end=end)
    events.add(Finished(status="succeeded"), "r-1")
    assert events.index.uses.runs == 0


def test_a_run_that_no_claim_or_another_approval_began_counts_for_nothing() -> None:
    events = Events()
    events.add(Approved(approval_sha256="a1", uses=USES), "r-1")
    events.add(Finished(status="succeeded"), "r-1")
    events.add(Approved(approval_sha256="a2", uses=USES), "r-2")
    events.add(Claimed(approval_sha256="a3"), "r-2")
    events.add(Finished(status="succeeded"), "r-2")
    assert events.index.uses.runs == 0


def test_requesters_have_histories_of_their_own() -> None:
    events = Events()
    events.run("r-1")
    events.run("r-2", Uses(requester="else", hosts=("api.example.com",)))
    uses = events.index.uses
    assert uses.by("else", "program", "curl") is None
    assert (one := uses.by("else", "host", "api.example.com")) and one.runs == 1
    assert (both := uses.by_all("host", "api.example.com")) and both.runs == 2
    assert uses.by_all("host", "api.example.org") is None


def test_the_counts_are_bounded_and_what_ran_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAST_USES", 20)
    events = Events()
    for number in range(30):
        events.run(f"r-{number}", Uses(requester="core", hosts=(f"h{number}.example.com",)))
        assert len(events.index.uses.to_json()[2]) <= 20
    uses = events.index.uses
    assert uses.forgotten and uses.runs == 30
    assert uses.by("core", "host", "h0.example.com") is None
    assert uses.by("core", "host", "h29.example.com") is not None
    assert (core := uses.by("core", "requester", "core")) and core.runs == 30, "what ran lately is kept"


def test_the_header_of_the_index_file_has_them_and_nothing_else_is_taken_for_them() -> None:
    events = Events()
    events.run("r-1")
    header = orjson.loads(orjson.dumps(events.index.to_header()))
    again = TrailIndex(header=header).uses
    assert again.to_json() == events.index.uses.to_json()
    copy = events.index.uses.copy()
    events.run("r-2")
    assert copy.to_json() == again.to_json(), "a copy stays as it was"
    time = "2026-01-01T00:03:00.000Z"
    row = ["host", "a.example", "core", 1, time, time]
    for bad in (
        None, [], [1, False], ["1", False, []], [1, 0, []], [1, False, [row[:5]]], [1, False, [["place", *row[1:]]]],
        [1, False, [[*row[:3], True, *row[4:]]]], [1, False, [[*row[:3], 0, *row[4:]]]],
        [1, False, [[*row[:5], "today"]]], [1, False, [["host", ["a"], *row[2:]]]],
    ):  # fmt: skip
        with pytest.raises(ValueError):
            PastUses.from_json(bad)
    assert PastUses.from_json([1, False, [row]]).runs == 1


def test_a_long_trail_gives_the_same_counts_from_its_index_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TRAIL_INDEX_LINES", 5)
    workspace, trail = make_workspace(tmp_path / "ws")

    def run(held: LockedTrail, name: str) -> None:
        held.append(Approved(approval_sha256=f"a-{name}", uses=USES), request_id=name, actor="x")
        held.append(Claimed(approval_sha256=f"a-{name}"), request_id=name, actor="x")
        held.append(Finished(status="succeeded"), request_id=name, actor="x")

    for number in range(4):
        with trail.locked() as held:
            run(held, f"r-{number}")
    with Trail(workspace).locked() as held:
        assert held.index.saved > 0, "it begins with the file"
        assert (ran := held.index.uses.by("core", "host", "api.example.com")) and ran.runs == 4
