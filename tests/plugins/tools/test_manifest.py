"""A manifest has one form in bytes, and a file that the trail did not announce is none."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.core import canonical
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.core.workspace import Workspace
from threegate.plugins.tools.manifest import (
    Manifest,
    PinnedTool,
    ServerFolder,
    differences,
    door_name,
    functions_manifest,
    parse_manifest,
    read_manifest,
    tool_of_list,
)
from threegate.trail.index import TrailIndex

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "n", "version": "1"},
    "instructions": None,
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(max_size=5), VALUES, max_size=3)
TOOLS = st.builds(
    PinnedTool,
    name=st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True),
    title=st.none() | st.text(max_size=9),
    description=st.none() | st.text(max_size=9),
    input_schema=OBJECTS,
    output_schema=st.none() | OBJECTS,
    annotations=st.none() | OBJECTS,
)
TEXTS = st.lists(st.text(max_size=9), max_size=3).map(tuple)
MANIFESTS = st.builds(
    Manifest,
    server=st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,63}", fullmatch=True),
    argv=TEXTS.map(lambda words: ("/bin/x", *words)),
    place=st.sampled_from(["jail", "host"]),
    account=st.text(max_size=9),
    allow=TEXTS,
    binds=st.lists(st.builds(ServerFolder, st.just("/srv"), st.booleans()), max_size=2).map(tuple),
    env=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    secrets=TEXTS,
    initialize=st.just(INITIALIZE),
    tools=st.lists(TOOLS, max_size=3, unique_by=lambda tool: tool.name).map(tuple),
    program=st.dictionaries(st.text(max_size=9), st.just("ab" * 32), max_size=2),
)
EXAMPLE = Manifest(
    "files", ("/bin/files",), "jail", "", (), (ServerFolder("/srv"),), {}, (), INITIALIZE,
    (PinnedTool("read", None, "Reads.", {"type": "object"}, None, None),), {"/bin/files": "ab" * 32},
)  # fmt: skip


@given(MANIFESTS)
def test_a_manifest_is_read_as_it_was_written(manifest: Manifest) -> None:
    data = manifest.to_bytes()
    assert parse_manifest(data) == manifest and manifest.digest == canonical.sha256_hex(data)


@pytest.mark.slow
@given(MANIFESTS, MANIFESTS)
def test_what_has_no_difference_has_one_digest(one: Manifest, other: Manifest) -> None:
    changed = differences(one, initialize=other.initialize, tools=other.tools, program=other.program)
    tools, others = ({tool.name: tool for tool in manifest.tools} for manifest in (one, other))
    same = (one.initialize, tools, one.program) == (other.initialize, others, other.program)
    assert (not changed) == same


def test_another_order_of_the_tools_is_no_difference() -> None:
    """Servers in Go list them from a map, in another order at each start."""
    (read,) = EXAMPLE.tools
    write = replace(read, name="write")
    both = replace(EXAMPLE, tools=(read, write))
    assert differences(both, tools=(write, read)) == []
    assert [item.what for item in differences(both, tools=(write,))] == ["tool read"]
    assert [item.what for item in differences(both, tools=(write, replace(read, description="x")))] == [
        "tool read: description"
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("server", "2files"), ("server", "files\n"), ("server", 7), ("argv", []), ("argv", ["files"]), ("argv", ["/x", 1]),  # noqa: E501
        ("place", "moon"), ("account", None), ("allow", "x"), ("binds", [{"path": "srv", "writable": True}]),
        ("binds", [{"path": "/srv", "writable": 1}]), ("binds", [{"path": "/srv"}]), ("env", {"A": 1}), ("secrets", None),  # noqa: E501
        ("initialize", {}), ("tools", {}), ("tools", [{}]), ("program", {"/x": "ab"}), ("program", []),
        ("tools", [EXAMPLE.tools[0].to_data()] * 2), ("tools", [{**EXAMPLE.tools[0].to_data(), "name": "a\nb"}]),
        ("tools", [{**EXAMPLE.tools[0].to_data(), "input_schema": None}]), ("more", 1),
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_refused(key: str, value: Any) -> None:
    data = canonical.canonical_bytes({**EXAMPLE.to_data(), key: value})
    with pytest.raises(InvalidInput, match="not a manifest"):
        parse_manifest(data)


def test_another_form_of_the_same_is_refused() -> None:
    with pytest.raises(InvalidInput, match="canonical form"):
        parse_manifest(json.dumps(EXAMPLE.to_data(), indent=1).encode())


def test_only_what_the_trail_announced_is_read(tmp_path: Path) -> None:
    workspace, index = Workspace(tmp_path), TrailIndex()
    (tmp_path / "tool-exec" / "tools").mkdir(parents=True)
    file = tmp_path / "tool-exec" / "tools" / "files.json"
    with pytest.raises(Refused) as unknown:
        read_manifest(workspace, index, "files")
    index.files["tools/files.json"] = EXAMPLE.digest
    with pytest.raises(Refused) as gone:
        read_manifest(workspace, index, "files")
    file.write_bytes(EXAMPLE.to_bytes() + b"\n")
    with pytest.raises(Refused) as other:
        read_manifest(workspace, index, "files")
    assert (unknown.value.code, gone.value.code, other.value.code) == (
        "tools_unknown",
        "tools_changed",
        "tools_changed",
    )
    file.write_bytes(EXAMPLE.to_bytes())
    assert read_manifest(workspace, index, "files") == EXAMPLE
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unavailable):
        read_manifest(workspace, index, "files")


def test_a_name_at_the_door_is_short_and_means_one_tool() -> None:
    assert door_name("files", "read_file") == "files__read_file"
    pairs = [("files", name) for name in ("a" * 60, "a" * 61, "a.b", "a_b", "a__b", "_ab", "")]
    pairs += [
        ("a", "_b"),
        ("a_", "b"),
        ("a__b", "c"),
        ("a", "b__c"),
        ("Files", "a_b"),
        ("f" * 64, "a"),
        ("f" * 63, "a"),
    ]
    pairs += [
        ("files", name.removeprefix("files__")) for name in (door_name("files", "a.b"), door_name("files", "c" * 60))
    ]
    names = [door_name(*pair) for pair in pairs]
    assert len(set(names)) == len(pairs)
    for name in names:
        assert len(name) <= 40 and "__" in name and re.fullmatch(r"[A-Za-z0-9_-]+", name)
    assert door_name("My_Notes", "add") == "My_Notes__add"


@pytest.mark.parametrize(
    "more",
    [
        {"argv": ["/usr/bin/true"]}, {"account": "nobody"}, {"allow": ["a.example"]}, {"env": {"A": "b"}},
        {"binds": [{"path": "/srv", "writable": False}]}, {"secrets": ["TOKEN"]}, {"program": {"/bin": "a" * 64}},
        {"stateful": True}, {"image": f"sha256:{'a' * 64}"}, {"data": ["/srv"]}, {"place": "jail"}, {"place": "host"},
        {"url": "https://a.example"},
        {"initialize": {"protocolVersion": "1", "capabilities": None, "serverInfo": None, "instructions": None}},
    ],
)  # fmt: skip
def test_functions_of_a_program_have_nothing_that_a_process_has(more: dict[str, Any]) -> None:
    tool = tool_of_list({"name": "send", "description": "Pay.", "inputSchema": {"type": "object"}})
    made = functions_manifest("pay", (tool,))
    assert Manifest.parse(made.to_data()) == made
    with pytest.raises(ValueError):  # noqa: PT011 - each for a reason of its own
        Manifest.parse({**made.to_data(), **more})
