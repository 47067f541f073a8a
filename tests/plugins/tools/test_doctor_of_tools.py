"""doctor and the servers of tools."""

from __future__ import annotations

from pathlib import Path

from tests.setup.test_doctor import states
from tests.support import make_place


def test_a_broken_trail_does_not_tell_which_servers_there_are(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    trail = place.root / "tool-exec" / "audit" / "trail.jsonl"
    trail.write_bytes(trail.read_bytes().replace(b"workspace_created", b"workspace_creatd"))
    found = states(place.run("doctor", "--no-probes", "--json", expect=2).json()["lines"])
    assert {name for name, state in found.items() if state == "failure"} == {"trail", "tools"}
