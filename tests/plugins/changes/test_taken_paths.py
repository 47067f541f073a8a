"""Which paths of a change set can be taken, and what must come along."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.changes.trees_on_disk import Spec, build, made
from threegate.core.errors import InvalidInput
from threegate.plugins.changes.change_tar import ChangeSet, read_change_set
from threegate.plugins.changes.take_part import chosen_rows


@pytest.fixture
def change(tmp_path: Path, request: pytest.FixtureRequest) -> ChangeSet:
    before, after = request.param
    return read_change_set(made(build(tmp_path / "project", before), build(tmp_path / "work", after)).data)


def of(before: Spec, after: Spec) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("change", [(before, after)], indirect=True)


def taken(change: ChangeSet, *only: str, without: tuple[str, ...] = ()) -> list[str]:
    return [row.path for row in chosen_rows(change, only=only, without=without)]


def refused(change: ChangeSet, *only: str, without: tuple[str, ...] = ()) -> str:
    with pytest.raises(InvalidInput) as error:
        chosen_rows(change, only=only, without=without)
    assert "\n" not in str(error.value)
    return str(error.value)


@of({"a": "1", "b": "1"}, {"a": "2", "b": "2", "new/deep/one": "1", "new/two": "2", "empty": None})
def test_new_folders_come_along_and_none_is_made_for_nothing(change: ChangeSet) -> None:
    assert taken(change, "new/deep/one") == ["new", "new/deep", "new/deep/one"]
    assert taken(change, "./new/", "a") == ["a", "new", "new/deep", "new/deep/one", "new/two"]
    assert taken(change, "empty") == ["empty"]
    assert taken(change, without=("new/deep/one",)) == ["a", "b", "empty", "new", "new/two"]
    assert taken(change, without=("new", "empty", "b")) == ["a"]


@of({"a": "1", "b": "1"}, {"a": "2", "b": "2", "--yes": "x"})
def test_a_name_that_looks_like_an_option_is_a_path(change: ChangeSet) -> None:
    assert taken(change, "--yes") == ["--yes"]
    assert taken(change, without=("--yes",)) == ["a", "b"]


@of({"a": "1", "b": "1"}, {"a": "2", "b": "2"})
def test_what_is_not_a_choice_is_refused(change: ChangeSet) -> None:
    assert "name the paths" in refused(change)
    assert "name the paths" in refused(change, "a", without=("b",))
    for wrong in ("c", "", "../a", "/a", "a/b", "A"):
        assert "has no such path" in refused(change, wrong)
        assert "has no such path" in refused(change, without=(wrong,))
    assert "that is all of it; approve" in refused(change, "a", "b")
    assert "nothing of it is left; reject" in refused(change, without=("a", "b"))


@of({"old": "moved", "a": "1", "none": ""}, {"new/name": "moved", "a": "2", "nothing": ""})
def test_both_halves_of_a_rename_go_together(change: ChangeSet) -> None:
    assert "old must come along" in refused(change, "new/name")
    assert "new/name must come along" in refused(change, "old")
    assert "must come along" in refused(change, without=("old",))
    assert taken(change, "old", "new") == ["new", "new/name", "old"]
    assert taken(change, "a") == ["a"]
    # Empty files have the same bytes, which says nothing of where they come from.
    assert taken(change, "none") == ["none"]


@of({"f": "1", "d/x": "1", "d/y": "2", "a": "1"}, {"f/x": "3", "f/y": "4", "d": "5", "a": "2"})
def test_what_becomes_another_kind_goes_with_what_is_in_it(change: ChangeSet) -> None:
    assert "must come along" in refused(change, "f/x")
    assert "d/x and 1 more must come along" in refused(change, without=("d/x", "d/y"))
    assert taken(change, "f") == ["f", "f/x", "f/y"]
    assert taken(change, "d") == ["d", "d/x", "d/y"]


@of({"gone/x": "1", "gone/in/y": "2", "a": "1"}, {"a": "2"})
def test_a_folder_goes_with_all_that_is_in_it(change: ChangeSet) -> None:
    assert "gone: a folder goes with all that is in it, so gone/x must come along" in refused(
        change, without=("gone/x",)
    )
    assert taken(change, "gone") == ["gone", "gone/in", "gone/in/y", "gone/x"]
    assert taken(change, "gone/x") == ["gone/x"]
    assert taken(change, "gone/in") == ["gone/in", "gone/in/y"]
