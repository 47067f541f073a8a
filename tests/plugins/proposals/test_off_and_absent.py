"""Proposals that are off or absent: none becomes a draft, and no draft of one can be signed; what was approved still
runs.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from threegate.audit.audit_verify import verify_workspace
from threegate.cli import execute
from threegate.core import plugins
from threegate.core.errors import Refused
from threegate.core.plugins import PLUGINS, Plugin
from threegate.core.settings import parse_settings
from threegate.daemon import run_daemon
from threegate.daemon.log import Log
from threegate.review.overview import find_entry
from threegate.review.request_view import view_request
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft
from threegate.review.status import files_in, status_lines

NOTE = {"tool": "memory.propose", "args": {"content": "x"}}


def turn(bench: Bench) -> None:
    assert run_daemon(bench.workspace, once=True, log=Log(quiet=True)) == 0


def propose(bench: Bench, value: object = NOTE, name: str = "AP-x.json") -> Path:
    path = bench.workspace.inbox / name
    path.write_text(json.dumps(value))
    return path


def verdict(bench: Bench, name: str) -> dict[str, object]:
    found = json.loads((bench.workspace.verdicts / f"{name}.json").read_text())
    assert isinstance(found, dict)
    return found


def turn_off(bench: Bench, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "off":
        bench.settings(plugins__off=("proposals",))
        return
    entry = next(plugin for plugin in PLUGINS if plugin.name == "proposals")
    deleted = type("Deleted", (Plugin,), {"has_code": lambda self: False, "__slots__": ()})
    others = tuple(plugin for plugin in PLUGINS if plugin is not entry)
    monkeypatch.setattr(plugins, "PLUGINS", (*others, deleted(entry.name, entry.says, offers=entry.offers)))


HOW = pytest.mark.parametrize("how", ["off", "absent"])


@HOW
def test_a_proposal_is_a_file_that_nobody_takes(bench: Bench, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    turn_off(bench, how, monkeypatch)
    path = propose(bench)
    turn(bench)
    assert list(bench.workspace.drafts.glob("*.md")) == []
    found = verdict(bench, path.name)
    assert (found["state"], found["reason"]) == ("invalid", "unreadable")
    assert found["findings"][0]["message"] == "is not TR-*.md"  # type: ignore[index]
    [entry] = files_in(bench.workspace, "inbox")
    shown = view_request(bench.context, find_entry(bench.workspace, "inbox", entry.key) or entry)
    assert shown.problem == "not a request, and no active plugin makes one of it"


@HOW
def test_a_draft_of_one_is_shown_and_rejected_and_never_signed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    propose(bench)
    turn(bench)
    [draft] = bench.workspace.drafts.glob("*.md")
    with open_reviewed_draft(bench.context, read_draft(bench.workspace, draft)):
        pass
    turn_off(bench, how, monkeypatch)
    assert [line.file for line in status_lines(bench.workspace) if line.entry.folder == "drafts"] == [draft.name]
    with (
        pytest.raises(Refused, match="off or absent, and only it can check the draft") as refused,
        open_reviewed_draft(bench.context, read_draft(bench.workspace, draft)),
    ):
        pass
    assert refused.value.code == "source_missing"
    assert execute(["-w", str(bench.workspace.root), "approve", str(draft), "--as", "alice", "--yes"]) == 2
    assert "off or absent" in capsys.readouterr().err and draft.exists()
    assert execute(["-w", str(bench.workspace.root), "show", str(draft)]) == 0
    assert execute(["-w", str(bench.workspace.root), "reject", str(draft), "--reason", "no"]) == 0
    turn(bench)
    assert not draft.exists() and verify_workspace(bench.workspace).ok


@HOW
def test_what_was_approved_still_runs(bench: Bench, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    propose(bench)
    turn(bench)
    [draft] = bench.workspace.drafts.glob("*.md")
    bench.approve(draft)
    turn_off(bench, how, monkeypatch)
    turn(bench)
    [line] = [line for line in status_lines(bench.workspace) if line.file == draft.name]
    assert line.state == "finished"
    assert verify_workspace(bench.workspace).ok


def test_what_nothing_needs_is_pruned_while_off_and_kept_while_absent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    propose(bench)
    turn(bench)
    [draft] = bench.workspace.drafts.glob("*.md")
    bench.settings(plugins__off=("proposals",))
    assert execute(["-w", str(bench.workspace.root), "reject", str(draft), "--reason", "no"]) == 0
    left = sorted(path for path in bench.workspace.drafts.rglob("*") if path.is_file())
    assert left
    with pytest.MonkeyPatch.context() as patch:
        turn_off(bench, "absent", patch)
        assert execute(["-w", str(bench.workspace.root), "audit", "prune", "--older-than", "1d"]) == 0
    assert sorted(path for path in bench.workspace.drafts.rglob("*") if path.is_file()) == left
    capsys.readouterr()
    assert execute(["-w", str(bench.workspace.root), "audit", "prune", "--older-than", "1d"]) == 0
    assert f"{len(left)} files of drafts" in capsys.readouterr().out
    assert not [path for path in bench.workspace.drafts.rglob("*") if path.is_file()]
    assert verify_workspace(bench.workspace).ok


def test_its_commands_say_that_it_is_off(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(bench.workspace.root)
    assert execute(["project", "--help"]) == 0
    assert "\n  note " in capsys.readouterr().out
    bench.settings(plugins__off=("proposals",))
    for words in (["validate", "--as", "proposal", "x"], ["draft", "--proposal", "x"], ["project", "note", "list"]):
        assert execute(words) == 64
        assert "of the plugin proposals, which is off" in capsys.readouterr().err
    assert execute(["project", "--help"]) == 0
    assert "\n  note " not in capsys.readouterr().out


def test_its_settings_decide_nothing_that_was_approved() -> None:
    """A draft names its host, so what is signed is the host, and not the setting that it came from."""
    changed = parse_settings(b"[proposals]\nsearch_url = 'https://search.example.com/?q={query}'\n")
    off = parse_settings(b"[plugins]\noff = ['proposals']\n")
    assert changed.deciding() == off.deciding() == parse_settings(b"").deciding()
