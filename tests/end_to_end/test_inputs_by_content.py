"""Inputs that `threegate draft` copied: one name and different content, decided on alone and together, as they run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support import Place
from threegate.acts.draft import DraftOptions, write_draft
from threegate.core.workspace import Workspace

CODE = "print('sum', sum(int(x) for x in open('/in/data.csv').read().split()))\n"


def draft(place: Place, folder: Path, text: str, slug: str = "sum") -> Path:
    """The draft of `threegate draft --backend monty --code sum.py --input data.csv`."""
    (folder / "data.csv").write_text(text)
    options = DraftOptions("monty", "Sum a column.", code=CODE, inputs=(folder / "data.csv",), slug=slug)
    return write_draft(Workspace(place.root), options, now=datetime.now(UTC)).path


def ids(place: Place) -> dict[str, str]:
    """request_id by the name of the file."""
    return {event["data"]["file"]: event["request_id"] for event in place.events("approved")}


def test_two_requests_on_one_name_run_on_their_own_content(place: Place, tmp_path: Path) -> None:
    """The first one is approved when the second one's file comes, and a third one is still a draft."""
    first = draft(place, tmp_path, "1\n2\n", "first")
    place.approve(first)
    third = draft(place, tmp_path, "100\n", "third")
    second = draft(place, tmp_path, "10\n20\n", "second")
    (tmp_path / "data.csv").write_text("none of them\n")
    place.approve(second)
    place.once()
    found = ids(place)
    assert "sum 3" in place.result(found[first.name]) and "sum 30" in place.result(found[second.name])
    shown = place.approve(third).out
    assert "100" in shown and "data.csv" in shown
    place.once()
    assert "sum 100" in place.result(ids(place)[third.name])
    assert place.events("refused") == []
    place.run("audit", "verify", expect=0)


@pytest.mark.slow
def test_ten_drafts_on_one_name_are_decided_together_by_what_is_read(place: Place, tmp_path: Path) -> None:
    drafts = [draft(place, tmp_path, f"{number}\n{number}\n") for number in range(10)]
    screen = place.run("approve", "--group", drafts[0].name, "--key", str(place.key), "--yes", expect=0).out
    assert screen.count("all of input 1:") == 10 and "10 of 10 approved" in screen
    place.once()
    found = ids(place)
    for number, path in enumerate(drafts):
        assert f"sum {2 * number}\n" in place.result(found[path.name])
