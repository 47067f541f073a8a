"""The order of change sets in a list: what their lines do decides it, and what cannot be read is never the least."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.plugins.changes.applying import place_of
from tests.plugins.changes.end_to_end.test_change_sets import Proposed
from tests.plugins.changes.planted_changes import change_table, seen_changes
from tests.plugins.changes.trees_on_disk import build, made
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.core.workspace import Workspace
from threegate.plugins.changes.change_attention import attention_of_change
from threegate.plugins.changes.table import ChangeSetError
from threegate.review.status import status_lines


def test_the_planted_change_sets_come_first(tmp_path: Path) -> None:
    found = list(seen_changes(tmp_path))
    print("\n".join(change_table(found)))
    assert len(found) == 28 and sum(item.row["harmful"] for item in found) == 20
    late = {item.row["name"] for item in found if item.row["harmful"] and item.attention != "look first"}
    # No line of these says what they do: they are above documents, and no more is claimed.
    assert late == {"a-check-is-gone", "a-test-loses-its-check", "gitattributes-filter"}
    assert {item.attention for item in found if item.row["name"] in late} == {"look"}
    plain = {item.row["name"]: item.attention for item in found if not item.row["harmful"]}
    assert "look first" not in plain.values()
    assert {name for name, attention in plain.items() if attention == "rest"} == {"a-typo", "a-note", "data"}


def attention(folder: Path, before: dict[str, object], after: dict[str, object]) -> str:
    project = build(folder / "project", before)
    data = made(project, build(folder / "work", after)).data
    return attention_of_change(io.BytesIO(data), place_of(project))


PROCESS = "import subprocess\n\nsubprocess.run(words)\n"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a.py": "x = 1\n"}, {"a.py": PROCESS}, "look first"),
        # What a file did before is no news, but is looked at; and a test may start processes.
        ({"a.py": PROCESS}, {"a.py": f"{PROCESS}subprocess.run(others)\n"}, "look"),
        ({"a.py": PROCESS}, {"a.py": f'{PROCESS}subprocess.run(["sh", "-c", words])\n'}, "look first"),
        ({"a.py": PROCESS}, {"a.py": f'{PROCESS}subprocess.run(["get", "https://one.evil.dev"])\n'}, "look first"),
        ({}, {"tests/test_a.py": PROCESS}, "look"),
        ({}, {"tests/test_a.py": f'{PROCESS}requests.get("https://one.evil.dev")\n'}, "look first"),
        ({"a.md": "one\n"}, {"a.md": "two\n"}, "rest"),
        ({"a.md": "one\n"}, {}, "look"),
        ({}, {"a.bin": b"\x00\x01"}, "look first"),
        ({}, {"a.png": b"\x89PNG\r\n\x1a\n\x00"}, "look"),
        ({"a.png": b"\x89PNG\r\n\x1a\n\x00"}, {"a.png": b"\x89PNG\r\n\x1a\n\x01"}, "look"),
    ],
)
def test_a_change(before: dict[str, object], after: dict[str, object], expected: str, tmp_path: Path) -> None:
    assert attention(tmp_path, before, after) == expected


def test_more_than_is_looked_through_is_looked_at_first(tmp_path: Path) -> None:
    line = "a line of a document\n"
    large = line * (limits.CHANGE_LOOKED_BYTES // len(line) + 1)
    assert attention(tmp_path / "new", {}, {"a.md": large}) == "look first"
    half = large[: len(large) // 2 + 128 * limits.KIB]
    assert attention(tmp_path / "old", {"a.md": half}, {"a.md": f"one\n{half}"}) == "look first"


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    project = build(tmp_path / "project", {"a.md": "one\n"})
    data = made(project, build(tmp_path / "work", {"a.md": "two\n"})).data
    place = place_of(project)
    with pytest.raises(ChangeSetError):
        attention_of_change(io.BytesIO(data[:700]), place)
    (project / "a.md").unlink()
    project.rmdir()
    with pytest.raises(Refused):
        attention_of_change(io.BytesIO(data), place)


def in_a_list(proposed: Proposed) -> str:
    (line,) = status_lines(Workspace(proposed.place.root))
    assert line.asked is not None
    return line.asked.attention


def test_a_list_has_the_class(tmp_path: Path) -> None:
    proposed = Proposed(tmp_path, {"a.py": "x = 1\n"}, {"a.py": PROCESS})
    assert in_a_list(proposed) == "look first"
    (archive,) = (path for path in (proposed.place.root / "inbox/files").iterdir())
    data = archive.read_bytes()
    archive.write_bytes(data[:700])
    assert in_a_list(proposed) == "look"
    archive.write_bytes(data + bytes(limits.LISTED_INPUT_BYTES))
    assert in_a_list(proposed) == "look first"
    archive.unlink()
    assert in_a_list(proposed) == "look"
