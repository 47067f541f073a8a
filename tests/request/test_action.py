"""What the kinds of action answer to what is asked of each of them."""

from __future__ import annotations

import pytest

from threegate.request.action import Action, Changes, Command, ProjectChange, Script, ToolCall

COMMAND = Command(("python3", "-c", "print('/out/a')", "/out/a"))
SCRIPT = Script("open('/out/a')\n", '{"rows": [1], "on": true}')
CHANGE = ProjectChange("web", Changes("a" * 64, 1, 0, 0, 0, 0))
CALL = ToolCall("notes", "add", "b" * 64, '{"rows":[1,{}],"text":"a"}')


@pytest.mark.parametrize(
    ("action", "words", "program", "source", "variables", "does"),
    [
        (COMMAND, COMMAND.argv, "python3", None, "", ""),
        (SCRIPT, (), "", SCRIPT.code, SCRIPT.vars_json, ""),
        (CHANGE, (), "", None, "", "changes the project web"),
        (CALL, (), "", None, "", "calls notes.add"),
    ],
)
def test_what_it_is(
    action: Action, words: tuple[str, ...], program: str, source: str | None, variables: str, does: str
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
