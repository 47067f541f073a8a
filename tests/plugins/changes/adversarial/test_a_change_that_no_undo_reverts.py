"""An archive of its own takes away what no undo could make again: it is refused before anyone signs it."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests import support
from tests.plugins.changes.applying import Change, own, picture
from tests.plugins.changes.trees_on_disk import build, made
from threegate.core import limits
from threegate.core.settings import RequestSettings
from threegate.plugins.changes.change_draft import draft_change_set
from threegate.plugins.changes.change_tar import change_tar
from threegate.plugins.changes.make import MadeChangeSet
from threegate.plugins.changes.table import FILE, LINK, Mode, Row, TableNode, table_digest


def gone(path: str, data: bytes, mode: Mode = FILE) -> Row:
    return Row(path, TableNode(mode, hashlib.sha256(data).hexdigest()), None)


def archive(*rows: Row) -> MadeChangeSet:
    ordered = tuple(sorted(rows, key=lambda row: row.parts))
    return MadeChangeSet(change_tar(ordered, lambda row: b""), ordered, table_digest(ordered))


def project(folder: Path) -> Path:
    root = build(folder / "project", {"README": "1", "readme": "2", "out": ("link", "/etc/hostname"), "keep": "1"})
    os.symlink(b"\xff", os.fsencode(root / "odd"))
    return own(root)


CASES = {
    "a link out of the project": ([gone("out", b"/etc/hostname", LINK)], "out: is a link to an absolute path"),
    "a link that is not UTF-8": ([gone("odd", b"\xff", LINK)], "odd: is a link to a"),
    "two names that differ in case": (
        [gone("README", b"1"), gone("readme", b"2")],
        "README: differs from another name",
    ),
    "one of them": ([gone("readme", b"2")], "readme: differs from another name"),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_before_the_signature(tmp_path: Path, name: str) -> None:
    rows, why = CASES[name]
    root = project(tmp_path)
    place = support.make_place(tmp_path, settings={"project.root": str(root)})
    found = archive(*rows)
    draft = draft_change_set(
        found, project="default", request_id=support.request_id("odd"), requested_by="codex", purpose="Tidy up.",
        justification="It is old.", now=datetime.now(UTC).replace(microsecond=0), settings=RequestSettings(),
    )  # fmt: skip
    place.input("changes.tar", found.data)
    refused = place.approve(place.drop(draft.data.decode(), draft.name), expect=2)
    assert why in refused.err and "undo" in refused.err, refused.err


@pytest.mark.parametrize("name", CASES)
def test_refused_at_the_launch(tmp_path: Path, name: str) -> None:
    change = Change(project(tmp_path), archive(*CASES[name][0]).data, tmp_path)
    before = picture(change.project)
    done = change.apply()
    assert done.status == "project_changed" and "undo" in done.message, done
    assert picture(change.project) == before


@pytest.mark.parametrize("name", CASES)
def test_left_out_by_name_of_what_a_work_copy_becomes(tmp_path: Path, name: str) -> None:
    root = project(tmp_path)
    work = build(tmp_path / "work", {"keep": "2"})
    names = {row.path for row in CASES[name][0]}
    found = made(root, work)
    assert [row.path for row in found.rows] == ["keep"]
    assert names <= {item.path for item in found.left_out}, found.left_out


def test_a_file_that_is_too_large_to_be_kept_is_never_read_to_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its originals would be as large: before, all of it was in memory when that was found."""
    change = Change(own(build(tmp_path / "project", {"big": "x" * 70})), archive(gone("big", b"x" * 70)).data, tmp_path)
    monkeypatch.setattr(limits, "TAR_BYTES", limits.CHANGE_TABLE_BYTES + 69)
    done = change.apply()
    assert done.status == "project_changed" and "big: " in done.message and "kept for an undo" in done.message
    assert (tmp_path / "apply.tar").stat().st_size == 0
