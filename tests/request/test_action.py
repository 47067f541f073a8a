"""What the kinds of action answer to what is asked of each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from threegate.core.screen_parts import Item
from threegate.plugins.changes.action import (
    Changes,
    JobBranch,
    JobChange,
    ProjectChange,
    ProjectPlace,
    branch_undo_facts,
)
from threegate.plugins.tools.action import EarlierCall, JobServer, ServerState, ToolCall
from threegate.request.action import Action, Command, Script

COMMAND = Command(("python3", "-c", "print('/out/a')", "/out/a"))
SCRIPT = Script("open('/out/a')\n", '{"rows": [1], "on": true}')
CHANGE = ProjectChange("web", Changes("a" * 64, 1, 0, 0, 0, 0))
CALL = ToolCall("notes", "add", "b" * 64, '{"rows":[1,{}],"text":"a"}')


@pytest.mark.parametrize(
    ("action", "words", "program", "source", "variables", "does"),
    [
        (COMMAND, COMMAND.argv, "python3", "", "", ""),
        (SCRIPT, (), "", SCRIPT.code, SCRIPT.vars_json, ""),
        (CHANGE, (), "", "", "", "changes the project web"),
        (CALL, (), "", "", "", "calls notes.add"),
    ],
)
def test_what_it_is(
    action: Action, words: tuple[str, ...], program: str, source: str, variables: str, does: str
) -> None:
    assert (action.words, action.program, action.source) == (words, program, source)
    assert (action.variables, action.does) == (variables, does)


def test_its_values() -> None:
    assert list(COMMAND.values()) == list(CHANGE.values()) == list(Script("1\n").values()) == []
    assert list(SCRIPT.values()) == [(("rows",), [1]), (("on",), True)]
    assert list(CALL.values()) == [(("rows", 0), 1), (("rows", 1), {}), (("text",), "a")]


def test_what_only_a_call_has() -> None:
    assert COMMAND.arguments() == {} and CALL.arguments() == {"rows": [1, {}], "text": "a"}


def test_by_what_it_is_compared() -> None:
    assert SCRIPT.parts() == {"code": SCRIPT.code, "vars_json": SCRIPT.vars_json}
    assert CALL.parts() == {"call": CALL} and list(CHANGE.parts()) == ["project", "changes"]


def test_what_a_person_reads_whole() -> None:
    assert [(item.name, item.text, item.head) for item in COMMAND.texts()] == [
        ("the command", "\n".join(COMMAND.argv), "the command, 4 words, run without a shell:")
    ]
    assert [(item.name, item.text, item.head, item.listing) for item in SCRIPT.texts()] == [
        ("the code", SCRIPT.code, "the code, 1 lines:", True),
        ("the Inputs", SCRIPT.vars_json, "the Inputs (JSON), 25 characters:", False),
    ]
    assert len(Script("1\n").texts()) == 1 and CHANGE.texts() == ()
    assert [(item.name, item.text, item.head) for item in CALL.texts()] == [("the call", CALL.arguments_json, "")]


def test_its_python_and_other_code_in_its_place() -> None:
    for action, code, other in (
        (COMMAND, COMMAND.argv[2], Command(("python3", "-c", "1", "/out/a"))),
        (SCRIPT, SCRIPT.code, Script("1", SCRIPT.vars_json)),
    ):
        found = action.python()
        assert found is not None and (found[0], found[1]("1")) == (code, other)
    assert Command(("sort", "-c", "a")).python() is CHANGE.python() is CALL.python() is None


def test_another_path_wherever_it_is() -> None:
    assert COMMAND.replaced("/out/a", "/out/b") == Command(("python3", "-c", "print('/out/b')", "/out/b"))
    assert SCRIPT.replaced("/out/a", "/out/b") == Script("open('/out/b')\n", SCRIPT.vars_json)
    assert CHANGE.replaced("web", "app") is CHANGE


def test_what_is_the_same_in_all_of_one_shape() -> None:
    assert COMMAND.without_open() == Command(()) and SCRIPT.without_open() == Script(SCRIPT.code)
    assert CHANGE.without_open() is CHANGE and CALL.without_open() == CALL.changed(arguments_json="")


def test_only_a_change_is_tied_to_the_project_of_a_run() -> None:
    assert [CHANGE.may_change(name) for name in ("web", "app", None)] == [True, False, False]
    assert COMMAND.may_change(None) and CALL.may_change("web")


PLACE = ProjectPlace("web", "/srv/web", 1, 2, 3)
MADE = JobChange(PLACE, "9" * 64, 1, 1, 0, 0)
BRANCH = JobBranch(
    "threegate/run", "a" * 40, "b" * 40, "an agent", "words\n\nCloses #5\n\nThreeGate-Request: a", ("a note",)
)
HOST = JobServer("jail", ("/usr/bin/hub", "-x"), ("a.example.com",), ("/srv (read-only)",), ("TOKEN",))
STATE = ServerState("p-1", 12, (EarlierCall("TR-a", "add", "{}", "succeeded"),))


def told(items: Iterable[Item]) -> list[tuple[str, str]]:
    """Each item with all that it says."""
    return [tuple(str(getattr(item, name, "")) for name in ("label", "value")) for item in items]  # type: ignore[misc]


def test_what_runs_code_is_shown_by_its_texts_alone() -> None:
    for action in (COMMAND, SCRIPT):
        assert not [*action.names(), *action.card(), *action.walls(), *action.digests()]
        assert (action.alone, action.stateful, action.sends_out, action.risks()) == (None, False, False, ())
        assert action.without_state({"a": 1}) == {"a": 1} and action.why_other()[0] == "job_changed"


def test_what_a_person_sees_of_a_change() -> None:
    bound = CHANGE.bound(MADE)
    assert told(bound.names()) == [("project", "web")] and bound.alone == (1, 2)
    assert [label for label, _ in told(bound.card())] == ["project", "changes"]
    assert told(bound.card())[1][1] == "1 path; 1 deleted or replaced by another kind of file"
    assert told(bound.walls())[1] == ("folder", "device 1, inode 2, owned by uid 3")
    assert bound.why_other()[0] == "job_changed"


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


def test_what_a_person_sees_of_a_call() -> None:
    bound = CALL.bound(HOST)
    assert told(bound.names())[0] == ("calls", "add of the server notes") and len(told(bound.names())) == 2
    assert [getattr(item, "text", "") for item in CALL.changed(arguments_json="{}").names()][1] == "without arguments"
    assert told(bound.digests()) == [("manifest", "b" * 64)]
    assert told(bound.walls()) == [
        ("server in", "jail"), ("server as", "the daemon's own account"), ("server", "/usr/bin/hub\n-x"),
    ]  # fmt: skip
    boxed = told(CALL.bound(replace(HOST, image="sha256:1")).walls())
    assert boxed[1:3] == [("server image", "sha256:1"), ("server as", "nobody, in its container")]
    assert bound.exposure("/in", ()).reach[1:] == (
        "network a.example.com (the server)", "folder /srv (read-only)", "secret TOKEN",
    )  # fmt: skip
    assert "runs in no sandbox" in CALL.bound(replace(HOST, place="host")).exposure("/in", ()).reach[-1]


def test_what_a_call_finds_and_where_it_may_go() -> None:
    bound, meaning = CALL.bound(HOST), {"server": {"state": "x", "place": "jail"}}
    assert CALL.sends_out and bound.sends_out and not CALL.bound(replace(HOST, hosts=())).sends_out
    assert CALL.bound(replace(HOST, hosts=(), place="host")).sends_out
    assert not bound.stateful and bound.without_state(meaning) is meaning and bound.why_other()[0] == "job_changed"
    kept = CALL.bound(replace(HOST, state=STATE))
    assert kept.stateful and kept.why_other()[0] == "state_changed"
    assert kept.without_state(meaning) == {"server": {"state": None, "place": "jail"}}
    assert told(kept.names())[2:] == [
        ("state", "what 12 calls left in the process p-1, the last 1:"), ("before", "add {}\nsucceeded, TR-a"),
    ]  # fmt: skip
    assert "fresh process" in told(CALL.bound(replace(HOST, state=ServerState())).names())[2][1]
    assert "what 1 call left in the process p-1:" in [
        value for _, value in told(CALL.bound(replace(HOST, state=replace(STATE, count=1))).names())
    ]


def test_what_a_gate_asks_of_an_action_has_no_answer_that_a_new_kind_inherits() -> None:
    asked = {"runs_code", "grouped", "least_category", "own_tool", "open_part", "never_granted", "never_replayed"}
    assert not asked & vars(Action).keys() and asked <= Action.__annotations__.keys()
    assert {"may_change", "stateful", "sends_out", "risks", "exposure", "meaning"} <= Action.__abstractmethods__
    for kind in (Command, Script, ProjectChange, ToolCall):
        assert all(hasattr(kind, name) for name in asked) and not kind.__abstractmethods__


def test_what_each_kind_answers() -> None:
    answers = [
        (action.may_change("web"), action.may_change("other"), action.stateful, action.sends_out)
        for action in (COMMAND, SCRIPT, CHANGE, CALL)
    ]
    assert answers == [
        (True, True, False, False),
        (True, True, False, False),
        (True, False, False, False),
        (True, True, False, True),
    ]
