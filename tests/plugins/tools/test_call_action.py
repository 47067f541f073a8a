"""What a call of a tool answers to what is asked of each action."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.request.test_action import ASKED, told
from threegate.core.errors import InvalidInput
from threegate.plugins.tools.action import CALLERS_REACH, EarlierCall, JobServer, ServerState, ToolCall
from threegate.request.backend import BACKENDS

CALL = ToolCall("notes", "add", "b" * 64, '{"rows":[1,{}],"text":"a"}')
HOST = JobServer("jail", ("/usr/bin/hub", "-x"), ("a.example.com",), ("/srv (read-only)",), ("TOKEN",))
STATE = ServerState("p-1", 12, (EarlierCall("TR-a", "add", "{}", "succeeded"),))


def test_what_it_is() -> None:
    assert (CALL.words, CALL.program, CALL.source, CALL.variables) == ((), "", "", "")
    assert CALL.does == "calls notes.add"


def test_its_values_are_its_arguments() -> None:
    assert list(CALL.values()) == [(("rows", 0), 1), (("rows", 1), {}), (("text",), "a")]
    assert CALL.arguments() == {"rows": [1, {}], "text": "a"}


def test_by_what_it_is_compared() -> None:
    assert CALL.parts() == {"call": CALL}


def test_what_a_person_reads_whole() -> None:
    assert [(item.name, item.text, item.head) for item in CALL.texts()] == [("the call", CALL.arguments_json, "")]
    assert CALL.python() is None


def test_what_is_the_same_in_all_calls_of_one_shape() -> None:
    assert CALL.without_open() == CALL.changed(arguments_json="")


def test_what_a_gate_asks_of_it() -> None:
    assert all(hasattr(ToolCall, name) for name in ASKED) and not ToolCall.__abstractmethods__
    answers = (CALL.may_change("web"), CALL.may_change("other"), CALL.stateful, CALL.sends_out)
    assert answers == (True, True, False, True)


def test_what_a_person_sees_of_a_call() -> None:
    bound = CALL.bound(HOST)
    assert told(bound.names())[0] == ("calls", "add of the server notes") and len(told(bound.names())) == 2
    assert [getattr(item, "text", "") for item in CALL.changed(arguments_json="{}").names()][1] == "without arguments"
    assert told(bound.digests()) == [("manifest", "b" * 64)]
    assert told(bound.walls()) == [
        ("server in", "jail"), ("server as", "the daemon's own account"), ("server", "/usr/bin/hub\n-x"),
    ]  # fmt: skip
    in_a_box = CALL.bound(replace(HOST, image="sha256:1"))
    assert (bound.in_container, in_a_box.in_container) == (False, True)
    boxed = told(in_a_box.walls())
    assert boxed[1:3] == [("server image", "sha256:1"), ("server as", "nobody, in its container")]
    assert bound.exposure("/in", ()).reach[1:] == (
        "network a.example.com (the server)", "folder /srv (read-only)", "secret TOKEN",
    )  # fmt: skip
    assert "runs in no sandbox" in CALL.bound(replace(HOST, place="host")).exposure("/in", ()).reach[-1]


def test_what_a_person_sees_of_a_server_at_a_url() -> None:
    url = "https://mcp.example.com/mcp"
    bound = CALL.bound(JobServer("remote", (), ("mcp.example.com",), (), (), url=url))
    assert told(bound.walls()) == [("server at", url)] and bound.sends_out and not bound.in_container
    assert bound.exposure("/in", ()).reach[1:] == (
        "network mcp.example.com (the server)", f"code at {url}, which can change unseen",
    )  # fmt: skip
    assert bound.meaning()["server"]["url"] == url and "url" not in CALL.bound(HOST).meaning()["server"]


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


def test_options_of_the_command_line_do_not_make_it() -> None:
    with pytest.raises(InvalidInput, match="not drafted from options"):
        BACKENDS["mcp"].drafted("", "1", None)


def test_what_a_person_sees_of_a_call_that_its_program_makes() -> None:
    """No command, no account, no folder: what a function does is known to its program alone."""
    bound = CALL.bound(JobServer("caller", (), (), (), ()))
    assert bound.by_caller and not CALL.bound(HOST).by_caller
    assert told(bound.names())[0] == ("calls", "add of the program that asks (notes)")
    assert told(bound.walls()) == [
        ("called by", "the program that asks for it, in its own process; its code is not pinned")
    ]
    exposure = bound.exposure("/in", ())
    assert exposure.reach == ("the function add of the program that asks (notes)", CALLERS_REACH)
    assert not exposure.opaque and "its code is not pinned" in exposure.why
    assert bound.sends_out and not bound.stateful and not bound.in_container
    assert bound.meaning()["server"]["place"] == "caller"
