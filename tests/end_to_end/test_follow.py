"""Following a request to its end: the last line says how it ended, however late the daemon writes that down."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest

from tests.conftest import few
from tests.support import Place, monty_draft, request_id
from threegate.core.workspace import Workspace
from threegate.review.follow import follow
from threegate.review.show import show_request


@pytest.fixture
def ended(place: Place) -> str:
    """The id of a request that has succeeded."""
    name = request_id("end")
    place.approve(place.drop(monty_draft(name, "6 * 7")))
    place.once()
    return name


def test_the_last_line_waits_for_the_verdict_that_says_how_it_ended(place: Place, ended: str) -> None:
    workspace = Workspace(place.root)
    verdict = next(path for path in (place.root / "tool-exec" / "verdicts").iterdir() if ended in path.name)
    later = verdict.read_bytes()
    verdict.unlink()
    with workspace.daemon_lock():
        writing = threading.Timer(0.4, verdict.write_bytes, [later])
        writing.start()
        lines = [*follow(workspace, show_request(workspace, ended))]
        writing.join()
    assert [(line.state, line.reason) for line in lines] == [("finished", "succeeded")]


@pytest.mark.parametrize("alive", few([False, True], 1))
def test_without_any_verdict_it_ends_all_the_same(place: Place, ended: str, alive: bool) -> None:
    workspace = Workspace(place.root)
    for path in (place.root / "tool-exec" / "verdicts").iterdir():
        path.unlink()
    with workspace.daemon_lock() if alive else nullcontext():
        lines = [*follow(workspace, show_request(workspace, ended))]
    assert [(line.state, line.reason) for line in lines] == [("finished", None)]
