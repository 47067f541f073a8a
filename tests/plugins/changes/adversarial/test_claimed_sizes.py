"""A work copy that claims sizes: what an agent says with one system call must not cost the operator's memory or
hours.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.plugins.changes.test_make import changes, made
from tests.plugins.changes.trees_on_disk import build
from threegate.plugins.changes.table import ChangeSetError


def test_a_file_that_is_too_large_is_known_by_its_size(tmp_path: Path) -> None:
    """A terabyte that was never written is named and not read; what is too much together is refused before it is
    read.
    """
    work = build(tmp_path / "w", {"f": "2"})
    project = build(tmp_path / "p", {"f": "1", "d/x": "1"})
    os.truncate(work / "f", 1 << 40)
    (work / "d").touch()
    os.truncate(work / "d", 1 << 40)
    (work / "small").write_text("1")
    found = made(project, work)
    assert changes(found) == {"small": "add"}
    assert [(item.path, item.reason) for item in found.left_out] == [
        (path, "is larger than the 496 MiB of a change set") for path in ("d", "f")
    ]
    os.truncate(work / "d", 20 << 20)
    os.truncate(work / "f", 480 << 20)
    with pytest.raises(ChangeSetError, match="more than 496 MiB; propose it in parts"):
        made(build(tmp_path / "e", {}), work)
