"""The daemon's lines: ids in every one, nothing of a request, and the form that fits where they go."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support import THREEGATE, make_place, monty_draft, request_id
from threegate.daemon.log import Log

_MARKS = ("payload-in-the-code", "payload-in-the-input", "payload-in-the-purpose", "payload-printed")
_TOKEN = "ghp_" + "Ab3" * 12


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_whole_way_leaves_ids_and_no_payload(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    digest = place.input("data.txt", b"payload-in-the-input")
    code = "# payload-in-the-code\nprint('payload-' + 'printed')\nopen('/in/data.txt').read()"
    rid = request_id("quiet")
    text = monty_draft(rid, code, inputs={"data.txt": digest})
    place.approve(place.drop(text.replace("A test of the whole way.", "payload-in-the-purpose")))
    broken = monty_draft(request_id("broken"), f"key = '{_TOKEN}'  # payload-in-the-code")
    place.drop(broken)
    (place.root / "inbox" / f"TR-{_TOKEN}.md").write_text("payload-in-the-code")
    (place.root / "inbox" / f"notes {_TOKEN}\x1b[31m").write_text("payload-in-the-code")
    done = place.run("run", "--once", "--log", "json", expect=0)
    assert not any(mark in done.err for mark in (*_MARKS, _TOKEN)), done.err
    said = [json.loads(line) for line in done.err.splitlines()]
    workspace = place.events("workspace_created")[0]["prev"]
    for line in said:
        assert line["workspace"] == workspace and len(line["boot"]) == 16
        assert line["time"].endswith("+00:00")
    assert {(line["event"], line["priority"]) for line in said} == {
        *((event, 6) for event in ("ready", "finished", "verdict", "ended")),
        ("unreadable", 5),
    }
    [end] = [line for line in said if line["event"] == "finished"]
    assert end["request_id"] == rid and end["what"] == "succeeded"


def test_the_form_fits_the_journal(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    log = tmp_path / "journal"
    with log.open("wb") as stream:
        facts = os.fstat(stream.fileno())
        environment = {**os.environ, "JOURNAL_STREAM": f"{facts.st_dev}:{facts.st_ino}"}
        words = [*THREEGATE, "run", "--once"]
        subprocess.run(words, cwd=place.root, env=environment, stderr=stream, check=True, timeout=120)
    first, *_ = log.read_text().splitlines()
    assert first.startswith("<6>{") and json.loads(first[3:])["event"] == "ready"
    assert place.run("run", "--once", expect=0).err.startswith("ready  ")
    assert place.run("run", "--once", "--log", "none", expect=0).err == ""
    assert place.run("run", "--once", "-q", "--json-log", expect=0).err == ""


def test_what_looks_like_a_secret_is_masked_before_it_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    Log().say("unreadable", file="x" * 290 + " " + _TOKEN, what=None, count=3)
    [line] = lines_of(capsys)
    assert "ghp_" not in line and "count=3" in line and "what" not in line


def test_escapes_are_made_visible(capsys: pytest.CaptureFixture[str]) -> None:
    Log().say("unreadable", file="a\x1b[2Jb\u202e")
    Log(as_json=True).say("unreadable", file="a\x1b[2Jb\u202e")
    for line in lines_of(capsys):
        assert line.isascii() and line.isprintable()


def test_a_stderr_that_is_gone_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = io.StringIO()
    gone.close()
    monkeypatch.setattr("sys.stderr", gone)
    log = Log.of("text", {"JOURNAL_STREAM": "no:number"})
    log.say("ready")
    log.say("ended")


def test_a_full_disk_does_not_silence_it_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    monkeypatch.setattr("sys.stderr", io.TextIOWrapper(io.FileIO("/dev/full", "w"), write_through=True))  # type: ignore[type-var]
    log.say("ready")
    there = io.StringIO()
    monkeypatch.setattr("sys.stderr", there)
    log.say("ended")
    assert there.getvalue().startswith("ended")


def test_a_visible_character_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Log().say("recovered", what="the input 080a9ed42855… cannot be read", file="Café.md")
    [line] = lines_of(capsys)
    assert line == "recovered    what=the input 080a9ed42855… cannot be read file=Café.md"
