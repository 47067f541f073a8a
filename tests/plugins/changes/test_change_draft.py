"""The request that is written for a change set is one that gate 1 takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.plugins.changes.trees_on_disk import build, made
from tests.request.examples import NOW, SETTINGS, read
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput
from threegate.plugins.changes.action import ProjectChange
from threegate.plugins.changes.change_draft import ChangeDraft, draft_change_set
from threegate.plugins.changes.change_tar import read_change_set
from threegate.plugins.changes.make import MadeChangeSet


def draft(found: MadeChangeSet, **changes: Any) -> ChangeDraft:
    given: dict[str, Any] = {
        "project": "web",
        "request_id": "change-1",
        "requested_by": "codex",
        "purpose": "Fix the rounding of prices",
        "justification": "The test failed and now passes.",
        "now": NOW,
        "settings": SETTINGS,
    }
    return draft_change_set(found, **{**given, **changes})


def found(tmp_path: Path, work: dict[str, Any]) -> MadeChangeSet:
    return made(build(tmp_path / "p", {"a": "1"}), build(tmp_path / "w", work))


def test_a_draft_says_what_its_archive_is(tmp_path: Path) -> None:
    made_set = found(tmp_path, {"a": "2", "b/c": "1", "out": ("link", "/etc"), ".env": "x"})
    written = draft(made_set)
    request = read(written.data, name=written.name).request
    assert request is not None and isinstance(request.action, ProjectChange) and request.signature_needed
    assert request.action.project == "web" and request.backend == "apply"
    assert request.inputs[0].sha256 == sha256_hex(made_set.data)
    assert request.action.changes.sha256 == read_change_set(made_set.data).sha256
    assert (request.action.changes.add, request.action.changes.modify) == (2, 1)
    assert request.action.changes.rows == (("modify", "a"), ("add", "b"), ("add", "b/c"))
    assert [line.split(":")[1].strip() for line in request.constraints] == [".env", "out"]


def test_names_that_gate_1_would_refuse_are_left_to_the_table(tmp_path: Path) -> None:
    secret = "AKIA" + "IOSFODNN7EXAMPLA"
    written = draft(found(tmp_path, {"a": "2", secret: "1"}))
    assert secret.encode() not in written.data
    request = read(written.data, name=written.name).request
    assert request is not None and isinstance(request.action, ProjectChange) and request.action.changes.rows == ()


def test_many_that_cannot_be_carried_are_counted(tmp_path: Path) -> None:
    work = {"a": "2", ".git/x": "1", **{f"l{number}": ("link", "/x") for number in range(30)}}
    request = read(draft(found(tmp_path, work)).data).request
    assert request is not None
    assert (
        len(request.constraints) == 22 and request.constraints[-2] == "left out: 10 more: is a link to an absolute path"
    )


def test_nothing_to_propose_and_words_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nothing was changed"):
        draft(found(tmp_path, {"a": "1"}))
    with pytest.raises(InvalidInput, match="TG171"):
        draft(found(tmp_path, {"a": "2"}), project="../x")
