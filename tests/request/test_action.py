"""What the kinds of action answer to what is asked of each of them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from threegate.core.screen_parts import Item
from threegate.request.action import Action, Command, Script

COMMAND = Command(("python3", "-c", "print('/out/a')", "/out/a"))
ASKED = {"runs_code", "grouped", "least_category", "own_tool", "open_part", "never_granted", "never_replayed"}
"""What a gate asks of an action."""
SCRIPT = Script("open('/out/a')\n", '{"rows": [1], "on": true}')


@pytest.mark.parametrize(
    ("action", "words", "program", "source", "variables", "does"),
    [
        (COMMAND, COMMAND.argv, "python3", "", "", ""),
        (SCRIPT, (), "", SCRIPT.code, SCRIPT.vars_json, ""),
    ],
)
def test_what_it_is(
    action: Action, words: tuple[str, ...], program: str, source: str, variables: str, does: str
) -> None:
    assert (action.words, action.program, action.source) == (words, program, source)
    assert (action.variables, action.does) == (variables, does)


def test_its_values() -> None:
    assert list(COMMAND.values()) == list(Script("1\n").values()) == []
    assert list(SCRIPT.values()) == [(("rows",), [1]), (("on",), True)]


def test_code_has_no_arguments_of_a_call() -> None:
    assert COMMAND.arguments() == SCRIPT.arguments() == {}


def test_by_what_it_is_compared() -> None:
    assert SCRIPT.parts() == {"code": SCRIPT.code, "vars_json": SCRIPT.vars_json}


def test_what_a_person_reads_whole() -> None:
    assert [(item.name, item.text, item.head) for item in COMMAND.texts()] == [
        ("the command", "\n".join(COMMAND.argv), "the command, 4 words, run without a shell:")
    ]
    assert [(item.name, item.text, item.head, item.listing) for item in SCRIPT.texts()] == [
        ("the code", SCRIPT.code, "the code, 1 lines:", True),
        ("the Inputs", SCRIPT.vars_json, "the Inputs (JSON), 25 characters:", False),
    ]
    assert len(Script("1\n").texts()) == 1


def test_its_python_and_other_code_in_its_place() -> None:
    for action, code, other in (
        (COMMAND, COMMAND.argv[2], Command(("python3", "-c", "1", "/out/a"))),
        (SCRIPT, SCRIPT.code, Script("1", SCRIPT.vars_json)),
    ):
        found = action.python()
        assert found is not None and (found[0], found[1]("1")) == (code, other)
    assert Command(("sort", "-c", "a")).python() is None


def test_another_path_wherever_it_is() -> None:
    assert COMMAND.replaced("/out/a", "/out/b") == Command(("python3", "-c", "print('/out/b')", "/out/b"))
    assert SCRIPT.replaced("/out/a", "/out/b") == Script("open('/out/b')\n", SCRIPT.vars_json)


def test_what_is_the_same_in_all_of_one_shape() -> None:
    assert COMMAND.without_open() == Command(()) and SCRIPT.without_open() == Script(SCRIPT.code)


def test_code_is_tied_to_no_project() -> None:
    assert COMMAND.may_change(None) and SCRIPT.may_change("web")


def told(items: Iterable[Item]) -> list[tuple[str, str]]:
    """Each item with all that it says."""
    return [tuple(str(getattr(item, name, "")) for name in ("label", "value")) for item in items]  # type: ignore[misc]


def test_what_runs_code_is_shown_by_its_texts_alone() -> None:
    for action in (COMMAND, SCRIPT):
        assert not [*action.names(), *action.card(), *action.walls(), *action.digests()]
        assert (action.alone, action.stateful, action.sends_out, action.risks()) == (None, False, False, ())
        assert action.without_state({"a": 1}) == {"a": 1} and action.why_other()[0] == "job_changed"


def test_what_a_gate_asks_of_an_action_has_no_answer_that_a_new_kind_inherits() -> None:
    assert not ASKED & vars(Action).keys() and Action.__annotations__.keys() >= ASKED
    assert {"may_change", "stateful", "sends_out", "risks", "exposure", "meaning"} <= Action.__abstractmethods__
    for kind in (Command, Script):
        assert all(hasattr(kind, name) for name in ASKED) and not kind.__abstractmethods__


def test_what_each_kind_answers() -> None:
    answers = [
        (action.may_change("web"), action.may_change("other"), action.stateful, action.sends_out)
        for action in (COMMAND, SCRIPT)
    ]
    assert answers == [
        (True, True, False, False),
        (True, True, False, False),
    ]
