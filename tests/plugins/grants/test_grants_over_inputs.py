"""A grant for a file of a name, whatever is in it up to a size: drafts that `threegate draft --input` made."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support import Place, make_place
from threegate.acts.draft import DraftOptions, write_draft
from threegate.core.workspace import Workspace

CODE = "print('sum', sum(int(x) for x in open('/in/data.csv').read().split()))\n"


@pytest.fixture
def granting(tmp_path: Path) -> Place:
    return make_place(tmp_path, settings={"grants.allow": True})


def draft(place: Place, path: Path, text: str, slug: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    options = DraftOptions("monty", "Sum a column.", code=CODE, inputs=(path,), slug=slug)
    return write_draft(Workspace(place.root), options, now=datetime.now(UTC)).path


def test_a_grant_covers_a_name_with_other_content_from_any_folder(granting: Place, tmp_path: Path) -> None:
    """All drafts are there at once, and what is waiting keeps its own content."""
    place = granting
    first = draft(place, tmp_path / "january" / "data.csv", "1\n2\n", "first")
    place.approve(first)
    place.once()
    (approved,) = place.events("approved")
    words = ["grant", "new", approved["request_id"], "--widen", "inputs.data.csv gte 0 lte 8", "--max-uses", "3"]
    words += ["--expires", "1h", "--as", "operator", "--key", str(place.key), "--yes"]
    assert "inputs.data.csv" in place.run(*words, expect=0).out
    covered = [
        draft(place, tmp_path / "february" / "data.csv", "10\n20\n", "february"),
        draft(place, tmp_path / "march" / "data.csv", "100\n200\n", "march"),
    ]
    large = draft(place, tmp_path / "april" / "data.csv", "1\n2\n3\n4\n5\n", "april")
    other = draft(place, tmp_path / "may" / "other.csv", "5\n", "may")
    place.once()
    ran = {event["request_id"]: place.result(event["request_id"]) for event in place.events("claimed")}
    assert [text.count("sum 3\n") + text.count("sum 30\n") + text.count("sum 300\n") for text in ran.values()] == [
        1
    ] * 3
    finished = place.root / "tool-exec" / "finished"
    assert all((finished / path.name).exists() for path in (first, *covered))
    assert large.exists() and other.exists()
