"""Tools that are off: a call is neither valid, signed nor made, and the daemon does not start over one that it left."""

from __future__ import annotations

from pathlib import Path

from tests.plugins.tools.notes_server import Notes, notes_server
from threegate.core import durable
from threegate.trail import moves
from threegate.trail.payloads import Claimed
from threegate.trail.trail import Trail

SAID = "the backend mcp is of the plugin tools, which is off (plugins.off in threegate.toml)"


def turn_off(notes: Notes) -> None:
    file = notes.workspace.settings_file
    file.write_text(file.read_text().replace("[plugins]\n", '[plugins]\noff = ["tools"]\n'))


def test_a_call_is_refused_wherever_it_is(tmp_path: Path) -> None:
    with notes_server(tmp_path) as notes:
        signed, waiting = notes.draft("add", {"text": "one"}), notes.draft("add", {"text": "two"})
        notes.place.approve(signed)
        turn_off(notes)
        place = notes.place
        assert "TG909" in (checked := place.run("validate", str(waiting), expect=2).out) and SAID in checked
        assert SAID in place.approve(waiting, expect=2).err
        place.once()
        verdict = place.verdict(waiting.name)
        assert [finding["rule"] for finding in verdict["findings"]] == ["TG909"]
        refused = place.verdict(signed.name)
        assert (refused["state"], refused["reason"]) == ("refused", "backend_off")
        assert notes.calls == []
        place.run("audit", "verify", expect=0)
        assert "tools is off" in " ".join(place.run("doctor", "--no-probes").out.split())


def test_no_daemon_starts_over_a_call_that_was_claimed(tmp_path: Path) -> None:
    with notes_server(tmp_path) as notes:
        draft = notes.draft("add", {"text": "one"})
        notes.place.approve(draft)
        with Trail(notes.workspace).locked() as held:
            moves.announce(held, Claimed(file=draft.name), request_id=draft.stem, actor="daemon")
        turn_off(notes)
        done = notes.place.run("run", "--once")
        assert done.code == 3 and f"{draft.stem} is claimed and has not ended, and {SAID}" in done.err, done.err
        assert notes.calls == []


def test_what_a_crash_left_of_a_pinned_server_is_settled_all_the_same(tmp_path: Path) -> None:
    with notes_server(tmp_path) as notes:
        (pinned,) = notes.workspace.tools.glob("*.json")
        announced = pinned.read_bytes()
        pinned.rename(durable.staged(pinned))  # the event is on disk, and the file is not in its place yet
        other = durable.staged(pinned.with_name("other.json"))
        other.write_bytes(announced)  # no event came
        turn_off(notes)
        notes.place.once()
        assert pinned.read_bytes() == announced
        assert [path.name for path in notes.workspace.tools.iterdir()] == [pinned.name]
        notes.place.run("audit", "verify", expect=0)
