"""A note is stored or removed wholly or not at all, wherever the disk fails or the process ends, and the trail is
true.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from tests.acts.bench_workspace import Bench
from tests.conftest import few, slow
from threegate.acts.signed_acts import sign_act
from threegate.acts.signing_key import Acting
from threegate.audit.audit_verify import verify_workspace
from threegate.core import durable
from threegate.core.errors import Refused, ThreeGateError
from threegate.daemon import run_daemon
from threegate.daemon.log import Log
from threegate.plugins.proposals.memory import APPLY, ProposedNote, notes, remove_note, store_note
from threegate.trail.index import TrailIndex


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


def store(bench: Bench, request_id: str) -> None:
    about = {"request_id": request_id, "approval_sha256": "a" * 64, "note_sha256": "b" * 64}
    context = bench.context
    proposed = ProposedNote({"content": f"note of {request_id}"}, about)
    store_note(context, proposed, sign_act(context, Acting("alice", bench.keys["alice"]), APPLY, about))


def remove(bench: Bench, request_id: str) -> None:
    remove_note(bench.context, request_id, actor="account:test")


def stored(bench: Bench) -> list[str]:
    return [note["request_id"] for note in notes(bench.context)]


def stopped_at(bench: Bench, stop: int, work: Callable[[], None], error: BaseException) -> str | None:
    """What the work was stopped at, as "moment operation"; None when it came to its end before."""
    met: list[str] = []

    def fail(moment: str, operation: str, path: str) -> None:
        if moment == "from" or (isinstance(error, OSError) and moment == "after"):
            return
        met.append(f"{moment} {operation}")
        if len(met) == stop:
            raise error

    forget = durable.observe(fail)
    try:
        work()
    except (OSError, ThreeGateError, Killed):
        return met[-1]
    finally:
        forget()
    assert len(met) < stop
    return None


def by_a_list(bench: Bench) -> None:
    notes(bench.context)


def by_a_start(bench: Bench) -> None:
    assert run_daemon(bench.workspace, once=True, log=Log(quiet=True)) == 0


@pytest.mark.parametrize("opens", [by_a_list, slow(by_a_start)])
@pytest.mark.parametrize(
    "error", [Killed(), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))], ids=["killed", "ENOSPC"]
)
@pytest.mark.parametrize("act", few([store, remove], 1))
def test_all_or_nothing(
    bench: Bench,
    act: Callable[[Bench, str], None],
    error: BaseException,
    opens: Callable[[Bench], None],
) -> None:
    store(bench, "kept")
    met = set()
    for number in range(1, 100):
        name = f"req-{number}"
        if act is remove:
            store(bench, name)
        at = stopped_at(bench, number, lambda name=name: act(bench, name), error)
        if at is None:
            break
        met.add(at)
        audit = verify_workspace(bench.workspace)
        assert audit.ok, (at, [str(item) for item in audit.problems])
        opens(bench)
        left = [path.name for path in bench.workspace.memory.iterdir()]
        if opens is by_a_list:  # temporary files are left to the daemon's next start
            left = [name for name in left if not durable.is_temporary(name)]
        assert left == ["notes.jsonl"], at
        audit = verify_workspace(bench.workspace)
        assert audit.ok, (at, [str(item) for item in audit.problems])
        done = (name in stored(bench)) == (act is store)
        if not done:
            act(bench, name)
        elif act is store:
            with pytest.raises(Refused):
                act(bench, name)
        assert (name in stored(bench)) == (act is store) and stored(bench)[0] == "kept", at
    assert {"before write", "before sync", "before rename", "before replace"} <= met
    assert verify_workspace(bench.workspace).ok


def test_what_the_trail_did_not_announce_is_never_taken(bench: Bench) -> None:
    store(bench, "one")
    path = bench.workspace.memory / "notes.jsonl"
    for data in (b"", b'{"content": "planted"}\n'):
        durable.staged(path).write_bytes(path.read_bytes() + data if data else b"")
        assert stored(bench) == ["one"] and not durable.staged(path).exists()


def test_notes_that_were_changed_are_found_after_a_removal(bench: Bench) -> None:
    """The removal's event has the digest of what is left: audit accepts that, and nothing else."""
    store(bench, "one")
    store(bench, "two")
    remove(bench, "one")
    assert verify_workspace(bench.workspace).ok and stored(bench) == ["two"]
    path = bench.workspace.memory / "notes.jsonl"
    path.write_bytes(path.read_bytes().replace(b"two", b"2wo"))
    audit = verify_workspace(bench.workspace)
    assert "was changed" in str(audit.problems[0])


def test_a_kept_index_knows_what_was_announced_last(bench: Bench) -> None:
    store(bench, "one")
    with bench.context.trail.locked() as held:
        known = held.index
    again = TrailIndex()
    again.begin_from(known.to_header())
    assert again.notes == known.notes and set(known.notes) == {"notes.jsonl"}
