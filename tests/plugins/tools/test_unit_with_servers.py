"""The service's unit is opened for jails only where a server of tools needs it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support import Place, make_place
from threegate.plugins.tools.manifest import Manifest, ServerFolder, functions_manifest, tool_of_list


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        return make_place(tmp_path_factory.mktemp("unit"))


def server_of(**fields: Any) -> Manifest:
    said = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}, "instructions": None}
    plain = Manifest("notes", ("/usr/bin/true",), "jail", "", (), (), {}, (), said, (), {})
    return replace(plain, **fields)


@pytest.mark.root
def test_a_unit_is_opened_for_jails_only_where_a_server_was_added(place: Place) -> None:
    """Its folders are seen, and those that it may write to can be written; a host of its own needs a network."""
    said = server_of(
        place="jail",
        allow=("example.org",),
        binds=(ServerFolder("/home/a/notes", True), ServerFolder("/srv/b")),
    )
    before = place.run("settings", "service", "install", "--print", expect=0).out
    assert "RestrictNamespaces=user net ipc" in before and "@mount" not in before
    folder = place.root / "tool-exec" / "tools"
    folder.mkdir(exist_ok=True)
    (folder / "broken.json").write_text("{}")  # what is none counts for nothing
    assert place.run("settings", "service", "install", "--print", expect=0).out == before
    tool = tool_of_list({"name": "send", "inputSchema": {"type": "object"}})
    (folder / "pay.json").write_bytes(functions_manifest("pay", (tool,)).to_bytes())  # of which nothing is started
    assert place.run("settings", "service", "install", "--print", expect=0).out == before
    (folder / "notes.json").write_bytes(said.to_bytes())
    unit = place.run("settings", "service", "install", "--print", expect=0).out
    for line in (
        "RestrictNamespaces=no",
        "MemoryDenyWriteExecute=no",
        "ProtectHome=read-only",
        "PrivateNetwork=no",
    ):
        assert f"\n{line}\n" in unit, line
    assert (
        " -/home/a/notes\n" in unit
        and "/srv/b" not in unit
        and "SystemCallFilter=@mount sethostname sched_setaffinity\n" in unit
    )
    for path in folder.iterdir():
        path.unlink()
