"""Grants for calls of a tool, attacked: calls made to fit, grants that ended, and what they were bound to changed."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.grants.granting_bench import GrantingBench
from tests.plugins.tools.tool_bench import CALL
from threegate.core.errors import Refused
from threegate.judgement.judge import Cleared
from threegate.launch.pipeline import judge_now
from threegate.plugins.grants.giving import revoke_grant
from threegate.plugins.grants.promotion import use_grants
from threegate.review.countersign import read_waiting, verify_approval

ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrantingBench]:
    """One workspace with one grant, for every call that must not change anything in it."""
    tools = GrantingBench(tmp_path_factory.mktemp("shared"))
    tools.give(by=ME, uses=100)
    yield tools


@pytest.fixture
def tools(tmp_path: Path) -> GrantingBench:
    return GrantingBench(tmp_path)


def changed(**values: Any) -> dict[str, Any]:
    """The call that is covered, with other arguments; None takes one away."""
    return {name: value for name, value in {**CALL, **values}.items() if value is not None}


FITTED: dict[str, dict[str, Any]] = {
    "percent": changed(repo="acme/a%2fb"),
    "backslash": changed(repo="acme/a\\b"),
    "two dots": changed(repo="acme/..x"),
    "a path up": changed(repo="acme/.."),
    "two slashes": changed(repo="acme//x"),
    "a slash where the star is": changed(repo="acme/x/y"),
    "nothing where the star is": changed(repo="acme/"),
    "another beginning": changed(repo="acmes/x"),
    "another case": changed(repo="Acme/x"),
    "not in NFC": changed(repo="acme/cafe\u0301"),
    "a newline": changed(repo="acme/x\n"),
    "a blank": changed(repo="acme/a b"),
    "too long": changed(repo="acme/" + "x" * 300),
    "a free text not in NFC": changed(body="cafe\u0301"),
    "true for a number": changed(number=True),
    "one for true": changed(options={"deep": 1, "rate": 0.5}),
    "false for true": changed(options={"deep": False, "rate": 0.5}),
    "a text for true": changed(options={"deep": "true", "rate": 0.5}),
    "a text for a number": changed(number="7"),
    "a fraction for a whole number": changed(number=7.5),
    "below the range": changed(number=0),
    "above the range": changed(options={"deep": True, "rate": 1.5}),
    "true in a range": changed(options={"deep": True, "rate": True}),
    "a number for a text": changed(repo=7),
    "an object for a text": changed(repo={"acme": "x"}),
    "a list for a text": changed(repo=["acme/x"]),
    "a list for a free text": changed(body=["x"]),
    "no list": changed(labels="bug"),
    "a longer list": changed(labels=["bug", "docs"]),
    "a shorter list": changed(labels=[]),
    "an object for a list": changed(labels={"0": "bug"}),
    "one of no list": changed(labels=["bugs"]),
    "an argument more": changed(more="x"),
    "an argument more at depth": changed(options={"deep": True, "rate": 0.5, "more": 1}),
    "an argument less": changed(body=None),
    "an argument less at depth": changed(options={"deep": True}),
    "what must not be there": changed(token="x"),
    "a name in another case": {**changed(repo=None), "Repo": "acme/x"},
    "a dotted name for a depth": {**changed(options=None), "options.deep": True, "options.rate": 0.5},
    "nothing at all": {},
}


@pytest.mark.parametrize("arguments", FITTED.values(), ids=FITTED.keys())
def test_what_is_made_to_fit_waits_for_a_person(shared: GrantingBench, arguments: dict[str, Any]) -> None:
    draft = shared.draft(arguments)
    assert use_grants(shared.bench.context, [draft]) == []
    assert draft.exists() and not list(shared.workspace.approved.glob("*.md"))


def test_what_no_argument_may_be_waits_too(shared: GrantingBench) -> None:
    """Numbers and texts that gate 1 refuses: they could not be written as a call, so the file is."""
    for odd in ("9007199254740993", "1e300", "7.0", "-0"):
        draft = shared.draft()
        draft.write_text(draft.read_text().replace('"number":7', f'"number":{odd}'))
        assert use_grants(shared.bench.context, [draft]) == [], odd
    hidden = shared.draft()
    hidden.write_text(hidden.read_text().replace("acme/site", "acme/s\u200bite"))
    assert use_grants(shared.bench.context, [hidden]) == []


@pytest.mark.parametrize(
    "line", ["session_id: s", "workflow: w", "labels: [x]", "time_limit_sec: 1", "requested_by: alice"]
)
def test_every_other_field_of_the_request_counts(shared: GrantingBench, line: str) -> None:
    draft = shared.draft()
    name = line.partition(":")[0]
    lines = [row for row in draft.read_text().splitlines() if not row.startswith(f"{name}:")]
    draft.write_text("\n".join([lines[0], line, *lines[1:]]) + "\n")
    assert use_grants(shared.bench.context, [draft]) == []


def test_an_honest_call_is_covered_in_every_shape_that_was_signed(tools: GrantingBench) -> None:
    tools.give(by=ME, uses=9)
    for number, more in enumerate(
        ({}, {"repo": "acme/b-c.d"}, {"number": 2**53 - 1}, {"labels": ["docs"]}, {"body": ""},
         {"options": {"deep": True, "rate": 1}}, {"options": {"deep": True, "rate": 0}}),
    ):  # fmt: skip
        draft = tools.draft(changed(**more))
        (done,) = use_grants(tools.bench.context, [draft])
        assert all(check.ok for check in verify_approval(tools.bench.context, done.path)), number


def codes(tools: GrantingBench, path: Path) -> list[str]:
    return [check.code for check in verify_approval(tools.bench.context, path) if check.ok is False]


def test_a_grant_that_was_revoked_or_used_up(tools: GrantingBench) -> None:
    grant = tools.give(by=ME, uses=1)
    (promoted,) = use_grants(tools.bench.context, [tools.draft()])
    second = tools.draft()
    assert use_grants(tools.bench.context, [second]) == [], "its one use is promised"
    revoke_grant(tools.bench.context, grant.id, actor="test")
    assert codes(tools, promoted.path) == ["grant_missing"]
    assert use_grants(tools.bench.context, [second]) == [] and second.exists()


def test_an_expiry_that_has_passed(tools: GrantingBench) -> None:
    tools.give(by=ME, seconds=0)
    draft = tools.draft()
    assert use_grants(tools.bench.context, [draft]) == [] and draft.exists()


def test_another_description_is_another_manifest(tools: GrantingBench) -> None:
    tools.give(by=ME)
    (promoted,) = use_grants(tools.bench.context, [tools.draft()])
    stale = tools.draft()
    first, *others = tools.manifest.tools
    tools.manifest = replace(tools.manifest, tools=(replace(first, description="Read it well."), *others))
    tools.pin()
    assert use_grants(tools.bench.context, [stale, tools.draft()]) == []
    with pytest.raises(Exception, match="tools_changed"):
        verify_approval(tools.bench.context, promoted.path)


def test_another_contract_or_policy(tools: GrantingBench) -> None:
    tools.give(by=ME)
    (promoted,) = use_grants(tools.bench.context, [tools.draft()])
    draft = tools.draft()
    tools.contract("issue", "write")
    assert use_grants(tools.bench.context, [draft]) == [] and "policy_changed" in codes(tools, promoted.path)
    tools.contract("issue", "read")
    tools.bench.settings(results__release="never")
    assert use_grants(tools.bench.context, [draft]) == [] and codes(tools, promoted.path) == ["policy_changed"]


def test_another_run_and_another_account(tools: GrantingBench) -> None:
    mine, others = tools.run(), tools.run()
    tools.give(by=mine.run_id)
    drafts = [tools.draft(run=others), tools.draft()]
    assert use_grants(tools.bench.context, drafts) == []
    (promoted,) = use_grants(tools.bench.context, [tools.draft(run=mine)])
    assert codes(tools, promoted.path) == []
    elsewhere = tools.draft(run=others)
    taken = elsewhere.read_bytes()
    (tools.workspace.inbox / elsewhere.name).write_bytes(taken)
    assert use_grants(tools.bench.context) == []


def test_another_tool_of_the_server(tools: GrantingBench) -> None:
    tools.give(by=ME)
    assert use_grants(tools.bench.context, [tools.draft(tool="close"), tools.draft({}, tool="now")]) == []


def test_a_write_needs_the_setting_at_both_ends(tools: GrantingBench) -> None:
    with pytest.raises(Refused, match="no contract says of it side_effect: read"):
        tools.give("close", by=ME)
    tools.bench.settings(grants__allow_write=True)
    tools.give("close", by=ME)
    (promoted,) = use_grants(tools.bench.context, [tools.draft(tool="close")])
    assert codes(tools, promoted.path) == []
    context = tools.bench.context
    judgement, _ = judge_now(context, read_waiting(context, promoted.path))
    assert isinstance(judgement, Cleared) and judgement.approval.authorization == "confirmed"
    tools.bench.settings(grants__allow_write=False)
    assert "policy_changed" in codes(tools, promoted.path)


@pytest.mark.parametrize("reach", [{"allow": ("api.example.com",)}, {"place": "host"}])
def test_a_server_with_network_takes_no_free_text(tmp_path: Path, reach: dict[str, Any]) -> None:
    tools = GrantingBench(tmp_path, **reach)
    with pytest.raises(Refused, match=r"arguments\.body: the server has network"):
        tools.give(by=ME)
    tools.give(where=[*(w for w in ("repo glob acme/*", "body glob v*")), "number gte 1 lte 9"], any_of=(),
               absent=("labels", "options", "token"), by=ME)  # fmt: skip
    (done,) = use_grants(tools.bench.context, [tools.draft({"repo": "acme/x", "body": "v1", "number": 3})])
    assert codes(tools, done.path) == []
