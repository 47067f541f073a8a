"""The index is a pure function of the events, however it keeps them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trail.workspaces import WORKSPACE_ID
from threegate.trail.event import Event, known_kinds, make_event
from threegate.trail.history import RequestHistory
from threegate.trail.index import TrailIndex
from threegate.trail.payloads import PAYLOADS, Stopped

KINDS = sorted(known_kinds().keys() - {"workspace_created"})
STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, 2),
        st.fixed_dictionaries(
            {},
            optional={
                "state": st.sampled_from(["approved", "running", "finished", "refused"]),
                "file": st.sampled_from(["TR-a.md", "TR-b.md"]),
                "owner_uid": st.integers(0, 9),
                "proposal_sha256": st.sampled_from(["p", "q"]),
                "nonce": st.sampled_from(["n1", "n2"]),
                "approval_sha256": st.sampled_from(["a1", "a2"]),
                "grant": st.just("g1"),
                "request_sha256": st.sampled_from(["q1", "q2"]),
            },
        ),
    ),
    max_size=12,
)


def events_of(steps) -> list[Event]:
    events = []
    prev = WORKSPACE_ID
    for seq, (kind, number, data) in enumerate([("workspace_created", None, {}), *steps], start=1):
        event = make_event(
            seq=seq,
            time="2026-01-01T00:00:00.000Z",
            type=kind,
            request_id=None if number is None else f"r-{number}",
            actor="x",
            data=data,
            prev=prev,
        )
        prev = event.hash
        events.append(event)
    return events


@settings(max_examples=250)
@given(STEPS)
def test_histories_are_the_fold_of_their_events(steps) -> None:
    index = TrailIndex()
    plain: dict[str, RequestHistory] = {}
    nonces: set[str] = set()
    for event in events_of(steps):
        index.add(event)
        before = plain.get(event.request_id or "")
        if event.type == "approval_abandoned" and before is not None and before.approved is not None:
            nonces |= {before.approved.data["nonce"]} if "nonce" in before.approved.data else set()
        if event.request_id is not None:
            plain.setdefault(event.request_id, RequestHistory(event.request_id, event)).add(event)
        # In every kind of a plugin it is used up, whether or not the kind has a field for it.
        has_nonce = "nonce" in event.data and (
            event.type not in PAYLOADS or "nonce" in known_kinds()[event.type].__dataclass_fields__
        )
        # Events that only name the nonce of an approval (its own, a countersignature's, an end's) do not use it up.
        ends = issubclass(known_kinds()[event.type], Stopped)
        if has_nonce and not ends and event.type not in ("approved", "countersigned"):
            nonces.add(event.data["nonce"])
        for request_id, history in plain.items():
            assert index.history(request_id) == history
            used = bool(history.approved or history.claimed or history.end)
            assert index.id_used(request_id) == used
            assert not history.interrupted or history.end is None
    assert list(index.histories()) == list(plain.values())
    assert {nonce for nonce in ("n1", "n2") if index.nonce_used(nonce)} == nonces
    assert index.head.seq == index.frontier.size == len(steps) + 1
    assert sum(index.counts.values()) == len(steps) + 1


@given(STEPS)
def test_an_end_is_the_last_end(steps) -> None:
    index = TrailIndex()
    ends: dict[str, Event] = {}
    for event in events_of(steps):
        index.add(event)
        if (
            event.type in ("refused", "rejected", "cancelled", "interrupted", "finished")
            and event.request_id is not None
        ):
            ends[event.request_id] = event
    for history in index.histories():
        assert history.end == ends.get(history.request_id)


def test_hashes_of_recent_events_only() -> None:
    index = TrailIndex()
    assert index.hash_at(1) is None and index.request_of("TR-a.md") is None
    events = events_of([("observed", 0, {})] * 5)
    for event in events:
        index.add(event)
    assert [index.hash_at(seq) for seq in range(8)] == [None, *(event.hash for event in events), None]
