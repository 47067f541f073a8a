"""Calls that are decided on together: one structure of plain values, each its own statement; a call with any other
difference is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import few
from tests.plugins.tools.adversarial.test_what_a_call_is_bound_to import outcome
from tests.plugins.tools.tool_bench import CALL, CONTRACT, ToolBench
from threegate.acts.approve import Promoted
from threegate.acts.approve_group import deliver_group, open_group, seal_group, sign_group
from threegate.core.errors import InvalidInput, Refused
from threegate.plugins.tools.kinds import ToolsAdded
from threegate.plugins.tools.manifest import Manifest
from threegate.review.group_screen import render_group
from threegate.review.reviewed_draft import read_draft
from threegate.review.status import status_lines

LIKE: list[Mapping[str, Any]] = [
    CALL,
    {**CALL, "number": 8, "labels": ["docs"]},
    {**CALL, "number": 9999, "options": {"deep": False, "rate": 1}, "repo": "acme/site"},
]


def approve(tools: ToolBench, paths: list[Path]) -> tuple[list[Promoted], str]:
    """Approve the group of the first call, as the command does; what was delivered, and the screen."""
    context = tools.bench.context
    with open_group(context, read_draft(tools.workspace, paths[0])) as group:
        lines = render_group(group.members, group.left_out, context.policy.settings, operator="alice", width=200)
        sealed = seal_group(context, group, "alice")
        signature = sign_group(sealed, tools.bench.keys["alice"])
        done = list(deliver_group(context, group, sealed, signature, actor="operator:alice"))
    return done, "\n".join(lines)


def test_each_is_a_statement_of_its_own_and_every_difference_is_in_the_table(tmp_path: Path) -> None:
    tools = ToolBench(tmp_path)
    paths = [tools.draft(arguments) for arguments in LIKE]
    assert all("one of 3" in line.group for line in status_lines(tools.workspace))
    context = tools.bench.context
    with open_group(context, read_draft(tools.workspace, paths[0])) as group:
        texts = [one.shown.decode().splitlines() for one in seal_group(context, group, "alice").sealed]
    done, screen = approve(tools, paths)
    table = screen.split("== WHAT DIFFERS")[1]
    for text in ('labels.0 = "docs"', "number = 9999", "options.deep = false", "options.rate = 0.5"):
        assert text in table, text
    assert "50% done" not in table and "acme/site" not in table  # the same in each
    names = [path.name for path in paths] + [path.stem for path in paths]
    others = set()
    for line in (line for lines in texts[1:] for line in lines if line not in texts[0]):
        ours, _, foreign = line.partition("|")
        value = foreign.strip().removesuffix(",").rpartition(": ")[2]
        if value:
            assert f"= {value}\n" in f"{table}\n" or value in names, line
        else:
            others.add(ours.split()[0])
    # The digest of the job, how long the arguments are, and, where a second passed between two drafts, their time.
    assert others - {"created"} == {"job", "the"}
    assert len({one.approval_sha256 for one in done}) == 3
    assert [outcome(tools, one.path) for one in done] == ["made"] * 3
    (one,) = (one for one in done if '"number":8' in one.path.read_text())
    one.path.write_text(one.path.read_text().replace('"number":8', '"number":7'))
    assert outcome(tools, one.path) == "request_changed"
    assert [outcome(tools, other.path) for other in done if other is not one] == ["made"] * 2


LONG = "a" * 201
NEAR_MISSES: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "one more key": (CALL, {**CALL, "token": "x"}),
    "another key": ({"repo": "a", "body": "x"}, {"repo": "a", "token": "x"}),
    "a key of an object": (CALL, {**CALL, "options": {"deep": True}}),
    "a longer list": (CALL, {**CALL, "labels": ["bug", "docs"]}),
    "an empty list": (CALL, {**CALL, "labels": []}),
    "an empty list and an empty object": ({"repo": "a", "x": []}, {"repo": "a", "x": {}}),
    "a list and an object": ({"repo": "a", "x": ["b"]}, {"repo": "a", "x": {"0": "b"}}),
    "a depth": ({"repo": "a", "x": {"y": "b"}}, {"repo": "a", "x": {"y": ["b"]}}),
    "a dot in a key": ({"repo": "a", "x": {"y": "b"}}, {"repo": "a", "x.y": "b"}),
    "a number and a text": ({"repo": "a", "x": 1}, {"repo": "a", "x": "1"}),
    "a number and a truth": ({"repo": "a", "x": 1}, {"repo": "a", "x": True}),
    "null and a text": ({"repo": "a", "x": None}, {"repo": "a", "x": "b"}),
    "a path": ({"repo": "acme/site"}, {"repo": "acme/sitf"}),
    "a host": ({"repo": "api.example.org"}, {"repo": "apj.example.org"}),
    "an address": ({"repo": "10.0.0.1"}, {"repo": "10.0.0.2"}),
    "a mail address": ({"repo": "a@b"}, {"repo": "a@c"}),
    "two lines": ({"repo": "a\nb"}, {"repo": "a\nc"}),
    "a look-alike": ({"repo": "anna"}, {"repo": "ann\u0430"}),
    "a long text": ({"repo": "a"}, {"repo": LONG}),
    "no text": ({"repo": "a", "body": "x"}, {"repo": "a", "body": ""}),
    "a key that reads as a value": ({"repo": "a", "x = 1; y": 1}, {"repo": "a", "x = 1; y": 2}),
}


@pytest.mark.parametrize("name", few(NEAR_MISSES, 8))
def test_another_structure_or_a_value_that_is_not_plain_is_of_no_group(tmp_path: Path, name: str) -> None:
    tools = ToolBench(tmp_path)
    paths = [tools.draft(arguments) for arguments in NEAR_MISSES[name]]
    with pytest.raises(InvalidInput, match="no other draft"):
        approve(tools, paths)
    for path in paths:
        tools.bench.approve(path)  # alone, each of them could run


def test_a_call_that_its_pinned_schema_does_not_take_is_left_out(tmp_path: Path) -> None:
    tools = ToolBench(tmp_path)
    paths = [tools.draft({**CALL, "number": number}) for number in (7, 8, 7.5)]
    done, screen = approve(tools, paths)
    assert len(done) == 2 and paths[2].exists() and "hub.issue does not take these arguments" in screen


def test_hidden_characters_keep_a_call_out(tmp_path: Path) -> None:
    """Gate 1 refuses them, as text and as an escape, and so does the group."""
    tools = ToolBench(tmp_path)
    paths = [tools.draft({"repo": name}) for name in ("anna", "bert", "carl", "dora")]
    for path, hidden in zip(paths[2:], ("ca\u200brl", "\\u200bdora"), strict=True):
        text = path.read_text()
        path.write_text(text.replace("carl", hidden).replace('"dora"', f'"{hidden}"'))
        assert path.read_text() != text
    done, screen = approve(tools, paths)
    assert [one.path.name for one in done] == [path.name for path in paths[:2]]
    assert all(path.exists() for path in paths[2:]) and "carl" not in screen and "dora" not in screen
    with pytest.raises(InvalidInput, match="not valid"):
        approve(tools, paths[2:])


def pin(tools: ToolBench, manifest: Manifest) -> None:
    """Lay a manifest where it belongs, and announce it."""
    name = f"{manifest.server}.json"
    (tools.workspace.tools / name).write_bytes(manifest.to_bytes())
    added = ToolsAdded(server=manifest.server, files={f"tools/{name}": manifest.digest})
    tools.bench.context.trail.announce(added, actor="operator:alice")


def test_another_tool_server_or_run_is_another_group(tmp_path: Path) -> None:
    tools = ToolBench(tmp_path)
    first, second = tools.draft({"repo": "a"}), tools.draft({"repo": "b"})
    others = [tools.draft({"repo": "c"}, tool="close"), tools.draft({"repo": "d"}, run=tools.run())]
    twin = replace(tools.manifest, server="hub2")
    pin(tools, twin)
    others.append(tools.draft({"repo": "e"}))
    text = others[-1].read_text().replace("server: hub\n", "server: hub2\n")
    others[-1].write_text(text.replace(tools.manifest.digest, twin.digest))
    (tools.workspace.contracts / "hub2.issue.yaml").write_text(CONTRACT.format(tool="hub2.issue", effect="read"))
    assert "hub2" in others[-1].read_text()
    done, screen = approve(tools, [first])
    assert [one.path.name for one in done] == [first.name, second.name] and "left out" not in screen
    for other in others:
        tools.bench.approve(other)  # alone, each of them could run


def test_calls_of_the_manifest_before_are_no_group_with_those_of_now(tmp_path: Path) -> None:
    tools = ToolBench(tmp_path)
    before = tools.draft({"repo": "a"})
    issue, *rest = tools.manifest.tools
    tools.manifest = replace(tools.manifest, tools=(replace(issue, description="Read it well."), *rest))
    tools.pin()
    now = [tools.draft({"repo": name}) for name in ("b", "c")]
    done, _ = approve(tools, now)
    assert [one.path.name for one in done] == [path.name for path in now] and before.exists()
    with pytest.raises(Refused, match="signed again"):
        approve(tools, [before])


def test_calls_of_a_stateful_server_are_decided_one_by_one(tmp_path: Path) -> None:
    """The second would meet what the first one did, which its signed text does not have."""
    tools = ToolBench(tmp_path, stateful=True)
    paths = [tools.draft({"repo": name}) for name in ("a", "b")]
    assert [line.group for line in status_lines(tools.workspace)] == ["", ""]
    with pytest.raises(InvalidInput, match=r"no other draft.*stateful.*approve it alone"):
        approve(tools, paths)
    assert all(path.exists() for path in paths)
    assert outcome(tools, tools.bench.approve(paths[0]).path) == "made"
    # the same once the process is there
    with pytest.raises(InvalidInput, match="no other draft"):
        approve(tools, [paths[1]])


def test_a_call_that_its_contract_stops_is_left_out(tmp_path: Path) -> None:
    tools = ToolBench(tmp_path)
    path = tools.workspace.contracts / "hub.issue.yaml"
    rule = "input_invariants: [{path: $.number, lte: 100}]"
    text = path.read_text().replace("input_invariants: []", rule)
    path.write_text(text.replace("arguments: {}", "arguments: {number: 1}"))
    paths = [tools.draft({"repo": "a", "number": number}) for number in (1, 2, 300)]
    done, screen = approve(tools, paths)
    assert len(done) == 2 and paths[2].exists()
    assert "left out" in screen and "input_invariant" in screen
