"""What a change of a project answers to what is asked of each action."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plugins.changes.example_change import PROJECT as CHANGE
from tests.request.test_action import ASKED, told
from threegate.core.errors import InvalidInput, Refused
from threegate.plugins.changes.action import (
    JobBranch,
    JobChange,
    JobPart,
    ProjectChange,
    ProjectPlace,
    branch_undo_facts,
)
from threegate.request.backend import BACKENDS, Bound

PLACE = ProjectPlace("web", "/srv/web", 1, 2, 3)
MADE = JobChange(PLACE, "9" * 64, 1, 1, 0, 0)
BRANCH = JobBranch(
    "threegate/run", "a" * 40, "b" * 40, "an agent", "words\n\nCloses #5\n\nThreeGate-Request: a", ("a note",)
)


def test_what_it_is() -> None:
    assert (CHANGE.words, CHANGE.program, CHANGE.source, CHANGE.variables) == ((), "", "", "")
    assert CHANGE.does == "changes the project web"


def test_it_has_no_values_no_text_and_no_python() -> None:
    assert list(CHANGE.values()) == [] and CHANGE.texts() == () and CHANGE.python() is None


def test_by_what_it_is_compared() -> None:
    assert list(CHANGE.parts()) == ["project", "changes", "derived_from"]


def test_another_path_and_an_open_part_change_nothing_in_it() -> None:
    assert CHANGE.replaced("web", "app") is CHANGE and CHANGE.without_open() is CHANGE


def test_it_is_tied_to_the_project_of_a_run() -> None:
    assert [CHANGE.may_change(name) for name in ("web", "app", "other", None)] == [True, False, False, False]


def test_what_a_gate_asks_of_it() -> None:
    assert all(hasattr(ProjectChange, name) for name in ASKED) and not ProjectChange.__abstractmethods__
    assert (CHANGE.stateful, CHANGE.sends_out) == (False, False)


def test_what_a_person_sees_of_a_change() -> None:
    bound = CHANGE.bound(MADE)
    assert told(bound.names()) == [("project", "web")] and bound.alone == (1, 2)
    assert [label for label, _ in told(bound.card())] == ["project", "changes"]
    assert told(bound.card())[1][1] == "1 path; 1 deleted or replaced by another kind of file"
    assert told(bound.walls())[1] == ("folder", "device 1, inode 2, owned by uid 3")
    assert bound.why_other()[0] == "job_changed"


def test_what_a_person_sees_of_a_part_of_a_change() -> None:
    part = JobPart("TR-20261126-000000Z-whole", 1, 4, ("b",))
    bound = CHANGE.bound(replace(MADE, part=part))
    assert told(bound.card())[2:] == [
        ("part", "1 of 4 paths; the request's words, below, describe all 4"),
        ("derived from", "TR-20261126-000000Z-whole"),
        ("left out", "b"),
        ("", "and 2 more"),
    ]
    assert bound.meaning()["change"]["part"] == part.to_json()
    assert len(told(CHANGE.bound(replace(MADE, part=replace(part, of=2))).card())) == 5


@pytest.mark.parametrize("commits", [(), (("1" * 40, "one\n"), ("2" * 40, "two\n"))])
def test_what_a_person_sees_of_a_branch(commits: tuple[tuple[str, str], ...]) -> None:
    bound = CHANGE.bound(replace(MADE, branch=replace(BRANCH, commits=commits)))
    many = "2 commits" if commits else "one commit"
    warned = [getattr(item, "text", "") for item in bound.card() if "LOOK CLOSELY" in getattr(item, "text", "")]
    assert len(warned) == (not commits) and all("closes an issue" in text for text in warned)
    said = told(bound.card())
    assert said[2] == ("delivers", f"{many} on the new branch threegate/run; the project's files stay as they are")
    assert len(said) >= 3 + max(1, len(commits)) + 1
    assert [value for label, value in told(bound.walls()) if label == "tree"] == (
        [tree for tree, _ in commits] or ["b" * 40]
    )
    assert bound.why_other()[0] == "project_changed" and "/srv/web: its HEAD" in bound.why_other()[1]


def test_what_a_person_sees_of_the_undo_of_a_branch() -> None:
    about = {"project": {"name": "web", "path": "/srv/web"}, "branch": "b", "commit": "c"}
    assert told(branch_undo_facts(about)) == [("project", "web: /srv/web"), ("removes", "the branch b, which is at c")]


def test_options_of_the_command_line_do_not_make_it() -> None:
    with pytest.raises(InvalidInput, match="not drafted from options"):
        BACKENDS["apply"].drafted("ls", "", None)


def test_the_next_way_is_the_first_again_after_the_last() -> None:
    bound = Bound(action=CHANGE, way="branch", ways=("tree", "branch"))
    assert bound.next_way == "tree" and Bound(action=CHANGE, way="commits", ways=("tree",)).next_way == "tree"
    assert Bound(action=CHANGE, unfit=Refused("x", "y")).why_unfit() is not None
