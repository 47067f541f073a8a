"""What an operator writes of a tool's arguments: the types that come out, the call that is shown, and what is
refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.approval import material
from threegate.approval.ssh_wire import MalformedError
from threegate.core import limits
from threegate.core.canonical import canonical_bytes
from threegate.core.errors import Refused
from threegate.core.json_operators import first_match
from threegate.plugins.grants.call_rules import read_rules
from threegate.plugins.grants.constraint import Constraint
from threegate.plugins.grants.grant import matches, opened, refuse_write
from threegate.plugins.grants.near_misses import near_calls
from threegate.plugins.grants.widened import Widened, open_job, read_widened, with_value
from threegate.plugins.tools.action import EarlierCall, JobServer, ServerState, ToolCall
from threegate.request.job import Job

JAIL = JobServer(place="jail", argv=("/usr/bin/hub",), hosts=(), binds=(), secrets=())


def call(arguments: dict[str, Any], server: JobServer = JAIL, **changes: Any) -> Job:
    made = ToolCall("hub", "issue", "0" * 64, canonical_bytes(arguments).decode())
    request = material.make_request(
        backend="mcp", inputs=(), outputs=(), action=made.bound(server), tool=made.name, risk_level="medium"
    )
    return material.make_job(request, **changes)


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def rules(of: dict[str, Any], *where: str, any_of: tuple[str, ...] = (), absent: tuple[str, ...] = ()) -> Any:
    return read_rules(of, where=where, any_of=any_of, absent=absent)


TEXT, WHOLE, NUMBER, TRUTH = ({"type": name} for name in ("string", "integer", "number", "boolean"))
EITHER = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
REFERS = {"$ref": "#/$defs/Size"}
DEFINED = {"$defs": {"Size": {"type": "integer", "minimum": 5}}}

READ: list[tuple[dict[str, Any], str, str, Any]] = [
    (TEXT, "a  glob  acme/*", "has the form acme/*", "acme/x"),
    (TEXT, "a glob acme/*", "has the form acme/*", "acme/x"),
    (TEXT, "a equals 5", "is 5", "5"),
    (TEXT, "a equals true", "is true", "true"),
    (TEXT, "a gte 1 lte 5", "is from 1 to 5", None),
    (TEXT, 'a one_of ["x", "y"]', 'is one of ["x", "y"]', "x"),
    (TEXT, "a regex 2026-[0-9]{2}", "matches 2026-[0-9]{2} from end to end", "2026-00"),
    (TEXT, "a regex [a-z-]+/[a-z]+", "matches [a-z-]+/[a-z]+ from end to end", "a/a"),
    (TEXT, "a regex [a-z]+/(x|y)[0-9]{3}\\.md", "matches [a-z]+/(x|y)[0-9]{3}\\.md from end to end", "a/x000.md"),
    (TEXT, "a under /srv/notes", "is the path /srv/notes or below it", "/srv/notes/x"),
    (TEXT, 'a under ["/srv/a", "/srv/b/"]', 'is the path ["/srv/a", "/srv/b/"] or below it', "/srv/a/x"),
    (TEXT, "a glob src/**/*.py", "has the form src/**/*.py", "src/x/x.py"),
    (TEXT, "a starts_with v", "begins with v", "v"),
    (TEXT, "a ends_with .txt", "ends with .txt", ".txt"),
    (TEXT, "a host_in *.example.com", 'is one of the hosts ["*.example.com"]', "x.example.com"),
    (TEXT, 'a host_in ["a.com"]', 'is one of the hosts ["a.com"]', "a.com"),
    (TEXT, "a email_domain_in example.com", 'is an e-mail address at one of ["example.com"]', "x@example.com"),
    (TEXT, "a any", "is any string", "text"),
    ({"type": "string", "enum": ["open", "closed"]}, "a any", "is any string", "open"),
    ({"const": "only"}, "a any", "is any string", "only"),
    ({"type": "string", "pattern": "^v[0-9]$"}, "a any", "is any string", "v0"),
    ({"type": "string", "pattern": "^v[0-9]$"}, "a glob v*", "has the form v*", "v0"),
    ({"type": "string", "minLength": 7}, "a any", "is any string", "xxxxxxx"),
    ({"type": "string", "examples": ["acme/eg"]}, "a glob acme/*", "has the form acme/*", "acme/eg"),
    (WHOLE, "a gte 3 lte 9", "is from 3 to 9", 3),
    (WHOLE, "a gte 1 lte 2048", "is from 1 to 2048", 1),
    (WHOLE, "a equals 7", "is 7", 7),
    (WHOLE, "a one_of [3, 5]", "is one of [3, 5]", 3),
    (WHOLE, "a any", "is any integer", 1),
    (EITHER, "a gte 3 lte 9", "is from 3 to 9", 3),
    (EITHER, "a any", "is any integer", 1),
    (REFERS, "a any", "is any integer", 5),
    ({"type": ["integer", "null"], "minimum": 4, "maximum": 9}, "a any", "is any integer", 4),
    (NUMBER, "a gte 0.5 lte 1", "is from 0.5 to 1", 0.5),
    (NUMBER, "a gte 2 lte 3", "is from 2 to 3", 2),
    (NUMBER, "a one_of [2, 3]", "is one of [2, 3]", 2),
    (NUMBER, "a one_of [2.5]", "is one of [2.5]", 2.5),
    (NUMBER, "a any", "is any number", 1),
    ({"type": ["integer", "number"]}, "a any", "is any number", 1),
    (TRUTH, "a equals true", "is true", True),
    (TRUTH, "a any", "is any boolean", True),
    ({}, "a gte 1 lte 9", "is from 1 to 9", 1),
    ({}, "a gte 1.5 lte 9", "is from 1.5 to 9", 1.5),
    ({}, "a equals 7", "is 7", 7),
    ({}, "a equals false", "is false", False),
    ({}, "a glob x*", "has the form x*", "xx"),
    ({}, "a one_of []", "", None),
    ({"enum": ["a", None]}, "a any", "is any string", "a"),
]  # fmt: skip


@pytest.mark.parametrize(("of", "text", "shown", "example"), READ, ids=lambda value: str(value)[:30])
def test_the_type_is_what_text_and_schema_leave(of: Any, text: str, shown: str, example: Any) -> None:
    whole = {**schema(a=of), **DEFINED}
    if example is None:
        with pytest.raises(Refused):
            rules(whole, text)
        return
    found = rules(whole, text)
    (item,) = found.widened
    assert str(item) == f"arguments.a {shown}"
    assert found.example == {"a": example} and type(found.example["a"]) is type(example)
    job = call(found.example)
    assert matches(job, found.widened, opened(job, found.widened).pattern)
    assert Widened.parse(item.to_json()) == item
    assert Constraint.read(text.removeprefix("a "), [item.constraint.kind]) == item.constraint


def test_depth_and_lists() -> None:
    inside = {"type": "array", "prefixItems": [{"type": "object", "properties": {"x": WHOLE}}], "items": TEXT}
    found = rules(
        schema(rows=inside, deep=schema(one=TEXT, two=TEXT)),
        "rows.0.x gte 1 lte 3", "rows.1 glob b*", "deep.one glob c*", "free.0 glob d*", absent=("deep.two", "gone"),
    )  # fmt: skip
    assert found.example == {"rows": [{"x": 1}, "bx"], "deep": {"one": "cx"}, "free": ["dx"]}
    assert found.absent == ("deep.two", "gone")
    job = call(found.example)
    assert opened(job, found.widened).pattern["call"] == {
        "server": "hub", "tool": "issue", "manifest_sha256": "0" * 64,
        "arguments": {"rows": [{"x": None}, None], "deep": {"one": None}, "free": [None]},
    }  # fmt: skip
    assert rules(schema()).example == {}
    refers = {"properties": {"a": {"$ref": "#/properties/b"}, "b": TEXT}}
    assert rules(refers, "b glob y*", any_of=("a",)).example == {"a": "text", "b": "yx"}
    for odd in ({"$ref": "#/properties/a"}, {"$ref": "#/nowhere/x"}, {"anyOf": 5}):
        with pytest.raises(Refused, match="no value was found"):
            rules(schema(a=odd), "a glob x*")
    assert rules({"properties": 5}, "a glob x*").example == {"a": "xx"}


REFUSED: list[tuple[dict[str, Any], tuple[str, ...], tuple[str, ...], tuple[str, ...], str]] = [
    (schema(a=TEXT, b=TEXT), ("a glob x*",), (), (), "b: has no rule"),
    (schema(a=schema(b=TEXT, c=TEXT)), ("a.b glob x*",), (), (), "a.c: has no rule"),
    (schema(a=TEXT), ("a glob x*",), (), ("a",), "declared absent and has a rule"),
    (schema(a=TEXT), ("a glob x*",), ("a",), (), "widened twice"),
    (schema(a=TEXT), ("a",), (), (), "has no operator"),
    (schema(a=TEXT), ("a glob *",), (), (), "takes any text"),
    (schema(a=TEXT), ("a glob x*", "a.b glob y*"), (), (), "name one or the other"),
    (schema(a=TEXT), ("a b glob y*",), (), (), "has no operator"),
    (schema(a=TEXT), (" glob y*",), (), (), "not the name of an argument"),
    (schema(a=schema()), ("a glob x*",), (), (), "is an object in the tool's schema; name what is below it"),
    (schema(a=TEXT), ("a one_of [1]",), (), (), "for the type integer, but the value's type is string"),
    (schema(a=TEXT), ('a one_of ["x", 1]',), (), (), "values of several types"),
    (schema(a=WHOLE), ("a glob x*",), (), (), "for the type string, but the value's type is integer"),
    (schema(a=WHOLE), ("a one_of [1.5]",), (), (), "for the type number, but the value's type is integer"),
    (schema(a=WHOLE), ("a regex [0-9]",), (), (), "for the type string"),
    (schema(a=WHOLE), ("a one_of [",), (), (), "not JSON"),
    (schema(a=WHOLE), ("a gte 1.5 lte 2",), (), (), "for the type number"),
    (schema(a={}), (), ("a",), (), "unknown type"),
    (schema(a={"type": ["string", "integer"]}), (), ("a",), (), "unknown type"),
    (schema(a={"type": "string", "enum": ["b"]}), ("a glob c*",), (), (), "no value was found"),
    (schema(a=TEXT), ("a regex [^a]/[^b]{3}",), (), (), "no value was found"),
    (schema(), ("a.0 glob x*", "a.2 glob y*"), (), (), "without a gap"),
    (schema(), tuple(f"a{n} = x*" for n in range(limits.GRANT_PARTS + 1)), (), (), "at most 16"),
]  # fmt: skip


@pytest.mark.parametrize(("of", "where", "any_of", "absent", "why"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_is_refused(of: Any, where: Any, any_of: Any, absent: Any, why: str) -> None:
    with pytest.raises(Refused) as caught:
        rules(of, *where, any_of=any_of, absent=absent)
    assert caught.value.code == "grant_mismatch" and why in str(caught.value)


def test_the_near_calls_are_near_and_wait() -> None:
    of = schema(repo=TEXT, body=TEXT, flag=TRUTH, token=TEXT)
    found = rules(of, "repo glob acme/*", "flag equals true", any_of=("body",), absent=("token", "deep.x"))
    job = call(found.example)
    near = near_calls(job, found.widened, found.absent)
    assert [why for why, _ in near] == ["flag is another", "token is there", "body is a list"]
    assert not any(matches(other, found.widened, opened(job, found.widened).pattern) for _, other in near)
    without = rules(schema())
    near = near_calls(call({}), without.widened, ())
    assert [why for why, _ in near] == ["more is there", "an argument more", "an argument more"]


def test_values_of_a_call() -> None:
    job = call({"a": [1, {"b": "x"}], "n": None, "flag": True})
    assert open_job(job, ["arguments.a.1.b"]).values == {"arguments.a.1.b": "x"}
    assert with_value(job, "arguments.a.0", 2) == call({"a": [2, {"b": "x"}], "n": None, "flag": True})
    for part, why in (
        ("arguments.n", "not a text, a number, true or false"),
        ("arguments.a", "not a text"),
        ("arguments.z", "no such argument"),
        ("arguments.a.1.b.c", "no such argument"),
        ("arguments.a.x", "no such word"),
        ("arguments.", "no such part"),
    ):
        with pytest.raises(Refused, match=why):
            open_job(job, [part])
    with pytest.raises(Refused, match=r"there are limits\.time_sec, .*arguments\.flag"):
        open_job(job, ["code"])
    with pytest.raises(Refused, match="no such part"):
        open_job(material.make_job(material.make_request()), ["arguments.a"])
    (item,) = read_widened(job, ["arguments.flag equals true"])
    assert item.takes(True) and not item.takes(1) and not item.takes(False)


def test_numbers_beyond_what_json_holds_exactly_match_nothing() -> None:
    edge = 2**53 - 1
    for text in ("a any", f"a gte 1 lte {edge}"):
        for of in (WHOLE, NUMBER):
            (item,) = rules(schema(a=of), text).widened
            assert item.takes(edge) and not item.takes(2**53) and not item.takes(2**53 + 1)
            assert not item.takes(1e300) and not item.takes(True) and not item.takes("1")
    (item,) = rules(schema(a=NUMBER), "a any").widened
    assert item.takes(0.5) and not item.takes(-1e300)


def test_only_an_argument_may_be_anything() -> None:
    with pytest.raises(MalformedError, match="open to anything"):
        Widened.parse({"part": "vars.month", "type": "string"})
    with pytest.raises(Refused, match="open to anything"):
        read_widened(material.make_job(material.make_request(vars_json='{"a": "b"}')), ["vars.a any"])
    for term in (
        {"type": "boolean", "equals": 1}, {"type": "string", "equals": True}, {"type": "string", "host_in": "a.com"},
        {"type": "string", "host_in": []}, {"type": "string", "under": [5]}, {"type": "string", "under": "../x"},
        {"type": "boolean", "gte": 0, "lte": 1}, {"type": "boolean", "one_of": [True]}, {"type": "string", "glob": "**"},  # noqa: E501
        {"type": "string", "starts_with": ["a"]}, {"type": "string", "contains": "a"},
    ):  # fmt: skip
        with pytest.raises(MalformedError):
            Widened.parse({"part": "arguments.a", **term})
    with pytest.raises(MalformedError, match="for the type string, but the value's type is boolean"):
        Constraint.read("equals perhaps", ["boolean"])


def test_a_pattern_says_its_first_text_where_it_can() -> None:
    assert first_match("v[0-9]+") == "v0"
    assert first_match(".*x") is None and first_match("(?=x)") is None and first_match("(") is None


@pytest.mark.parametrize(
    "server", [JobServer("jail", ("/h",), ("a.com",), (), ()), JobServer("host", ("/h",), (), (), ())]
)
def test_free_text_never_goes_to_a_server_with_network(server: JobServer) -> None:
    (item,) = rules(schema(a=TEXT), "a any").widened
    opened(call({"a": "x"}), [item])
    with pytest.raises(Refused, match="could carry anything out"):
        opened(call({"a": "x"}, server), [item])
    (number,) = rules(schema(a=WHOLE), "a any").widened
    opened(call({"a": 1}, server), [number])


def test_free_text_goes_to_a_server_in_a_container_for_that_has_no_network() -> None:
    (item,) = rules(schema(a=TEXT), "a any").widened
    opened(call({"a": "x"}, JobServer("era", ("/h",), (), (), (), image=f"sha256:{'0' * 64}")), [item])
    with pytest.raises(Refused, match="could carry anything out"):
        opened(call({"a": "x"}, JobServer("elsewhere", ("/h",), (), (), ())), [item])


def test_a_server_that_is_not_known_may_have_network() -> None:
    (item,) = rules(schema(a=TEXT), any_of=("a",)).widened
    job = replace(call({"a": "x"}), action=ToolCall("hub", "issue", "0" * 64, '{"a":"x"}'))
    assert opened(job, ()).pattern == job.meaning()
    with pytest.raises(Refused, match="could carry anything out"):
        opened(job, [item])


def test_a_grant_for_a_stateful_server_says_so_and_leaves_the_state_open() -> None:
    used = ServerState("p", 1, (EarlierCall("TR-a", "issue", "{}", "succeeded"),))
    (item,) = rules(schema(a=TEXT), "a glob x*").widened
    fresh, later = (call({"a": "xy"}, replace(JAIL, state=state)) for state in (ServerState(), used))
    pattern = opened(fresh, [item]).pattern
    assert pattern["server"]["state"] is None
    assert matches(fresh, [item], pattern) and matches(later, [item], pattern)
    assert not matches(call({"a": "xy"}), [item], pattern), "one that has a fresh process is another server"
    assert not matches(later, [item], opened(call({"a": "xy"}), [item]).pattern)


def test_a_call_that_may_write_is_granted_only_where_the_settings_allow_it() -> None:
    may_write = call({"n": 1}, effective_risk="high")
    refuse_write(may_write, allowed=True)
    refuse_write(call({"n": 1}, effective_risk="medium"), allowed=False)
    with pytest.raises(Refused, match="issue: no contract says of it side_effect: read"):
        refuse_write(may_write, allowed=False)
