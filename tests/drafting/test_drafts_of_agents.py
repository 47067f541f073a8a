"""What an agent in a hurry writes is valid at first and right at the first signature: as a file, and by the door.

The requests were written after reading `threegate agent prompt` only. Where an aim is missed, the rules or the prompt
are to be made better, and not the requests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drafting.corpus import answers, requests
from tests.drafting.desk import as_files, by_door, daemon, proven
from tests.support import Place, make_place

pytestmark = pytest.mark.jail

SAMPLE = ("sum-by-region", "flatten-orders", "monthly-report", "svg-bars", "errors-per-client")
ERA_SAMPLE = ("jq-totals", "diff-notes", "csv-to-sqlite", "unittest-package", "c-and-run")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace in which commands run without an engine."""
    return make_place(tmp_path, settings={"runners.era.runtime": "bubblewrap"})


def test_there_are_a_hundred_and_each_has_its_answer() -> None:
    assert len(requests()) == len({one.key for one in requests()}) == 100
    assert {one.key for one in requests() if one.answer and not one.refused} == answers().keys()


def test_some_of_them(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    some = [one for one in requests() if one.name in (ERA_SAMPLE if one.backend == "ERA" else SAMPLE)]
    assert len(some) == 10
    with daemon(place):
        proven(as_files(place, some), "as files", capsys)


@pytest.mark.soak
def test_all_of_them_as_files(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    with daemon(place):
        proven(as_files(place, requests()), "as files", capsys)


@pytest.mark.soak
def test_all_of_them_by_the_door(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    with daemon(place):
        proven(by_door(place, [one for one in requests() if one.by_door]), "by the door", capsys)
