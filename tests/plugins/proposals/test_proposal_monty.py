"""The Monty lanes of proposals, run for real: from AP-*.json in the inbox to the result."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import few
from tests.support import Place, make_place
from threegate import cli


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A state folder for the one workspace of this file."""
    old = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
    yield os.environ["XDG_STATE_HOME"]
    if old is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = old


@pytest.fixture(autouse=True)
def own_state(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Overrides the fixture of that name: this file's one workspace keeps its state."""
    monkeypatch.setenv("XDG_STATE_HOME", state)
    monkeypatch.delenv("THREEGATE_WORKSPACE", raising=False)


PROPOSALS: dict[str, dict[str, Any]] = {
    "list": {"tool": "file.list", "args": {}},
    "read": {"tool": "file.read", "args": {"path": "README.md"}},
    "read-part": {"tool": "file.read", "args": {"path": "README.md", "maxBytes": 3}},
    "read-none": {"tool": "file.read", "args": {"path": "none.txt", "optional": True}},
    "diff": {"tool": "file.diff", "args": {"path": "README.md", "content": "bye\n"}},
    "search": {"tool": "memory.search", "args": {"query": "RELEASE rules"}},
    "note": {
        "tool": "memory.propose",
        "args": {"content": "Weekly summaries are short.", "type": "PREFERENCE"},
    },
    "issue": {
        "tool": "github.issue_draft",
        "args": {"repo": "a/b", "title": "T", "body": "B", "labels": ["bug"]},
    },
    "click": {"tool": "browser.click_proposed", "args": {"url": "https://example.com/", "selector": "#go"}},
    "type": {
        "tool": "browser.type_proposed",
        "args": {"url": "https://example.com/", "selector": "#q", "text": "tea"},
    },
    "app": {"tool": "app.open_proposed", "args": {"app": "Notes"}, "risk": "medium"},
    "act": {"tool": "app.action_proposed", "args": {"app": "Notes", "action": "create-note"}, "risk": "high"},
    "agent": {"tool": "subagent.delegate", "args": {"task": "look"}},
    "private": {
        "tool": "browser.open",
        "args": {"url": "http://127.0.0.1:3000/", "allowPrivate": True},
        "risk": "high",
    },
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, state: str) -> tuple[Place, Path, dict[str, str]]:
    """A workspace in which every one of these proposals was dropped, drafted, approved and run."""
    folder = tmp_path_factory.mktemp("proposals")
    project = folder / "project"
    (project / "src").mkdir(parents=True)
    (project / "README.md").write_text("hello\nworld\n")
    (project / ".env").write_text("PASSWORD=swordfish\n")
    (project / "dist").mkdir()
    (project / "dist" / "x.js").write_text("1\n")
    place = make_place(folder, settings={"project.root": str(project)})
    memory = place.root / "tool-exec" / "memory"
    (memory / "notes.jsonl").write_text(
        '{"content": "Release rules: never on Friday.", "scope": null}\n{"content": "release rules apply", "sensitive": true}\n'  # noqa: E501
    )
    for name, proposal in PROPOSALS.items():
        drop(place, name, proposal)
    place.once()
    ids = {}
    for name in PROPOSALS:
        verdict = place.verdict(f"AP-{name}.json")
        ids[name] = verdict["request_id"]
        assert verdict["valid"], verdict
        draft = place.root / "tool-exec" / "drafts" / verdict["judgement"]["draft"]
        drafted = place.verdict(draft.name)
        assert drafted["state"] == "draft", drafted
        approve(place, draft)
    place.once()
    return place, project, ids


def drop(place: Place, name: str, proposal: Any) -> Path:
    """Put a proposal into the inbox by rename."""
    path = place.root / "inbox" / f"AP-{name}.json"
    part = path.with_name(f".{name}.part")
    part.write_text(json.dumps(proposal))
    part.rename(path)
    return path


def approve(place: Place, draft: Path, expect: int = 0) -> None:
    """Approve a draft in this process (a new one for each costs a second of imports)."""
    code = cli.execute(
        ["-w", str(place.root), "approve", str(draft), "--as", "operator", "--key", str(place.key), "--yes"]
    )
    assert code == expect


def out(place: Place, request_id: str, name: str) -> bytes:
    """An artifact of a run."""
    return (place.root / "tool-exec" / "runs" / request_id / "out" / name).read_bytes()


@pytest.mark.parametrize("name", few(PROPOSALS, 1))
def test_every_monty_lane_runs(ran: tuple[Place, Path, dict[str, str]], name: str) -> None:
    place, _, ids = ran
    assert "status: succeeded\n" in place.result(ids[name])


def test_reading_gives_the_file(ran: tuple[Place, Path, dict[str, str]]) -> None:
    place, _, ids = ran
    assert out(place, ids["read"], "content") == b"hello\nworld\n"
    assert "hello" in place.result(ids["read"])
    assert out(place, ids["read-part"], "content") == b"hel"
    assert json.loads(out(place, ids["read-part"], "result.json"))["truncated"] is True
    assert json.loads(out(place, ids["read-none"], "result.json"))["missing"] is True


def test_a_listing_names_what_is_protected_and_never_shows_it(
    ran: tuple[Place, Path, dict[str, str]],
) -> None:
    place, _, ids = ran
    listing = json.loads(out(place, ids["list"], "listing.json"))
    kinds = {entry["path"]: (entry["kind"], entry["protected"]) for entry in listing["entries"]}
    assert kinds[".env"] == ("file", True)
    assert kinds["dist/x.js"] == ("file", False)
    assert b"swordfish" not in out(place, ids["list"], "listing.json")


def test_a_diff_is_what_would_change(ran: tuple[Place, Path, dict[str, str]]) -> None:
    place, project, ids = ran
    assert b"-hello" in out(place, ids["diff"], "diff.patch")
    assert (project / "README.md").read_text() == "hello\nworld\n"


def test_a_search_keeps_sensitive_notes_back(ran: tuple[Place, Path, dict[str, str]]) -> None:
    place, _, ids = ran
    assert "never on Friday" in place.result(ids["search"])
    assert json.loads(out(place, ids["search"], "result.json")) == {"notes": 1, "withheld": 1}
    assert b"release rules apply" not in out(place, ids["search"], "notes.json")


def test_notes_issues_and_records_say_what_was_proposed(ran: tuple[Place, Path, dict[str, str]]) -> None:
    place, _, ids = ran
    assert json.loads(out(place, ids["note"], "note.json"))["content"] == "Weekly summaries are short."
    assert out(place, ids["issue"], "issue.md").decode().startswith("# T\n\nRepository: a/b\nLabels: bug\n")
    for name in ("click", "type", "app", "act", "agent", "private"):
        record = json.loads(out(place, ids[name], "record.json"))
        assert record["done"] is False
        assert record["tool"] == PROPOSALS[name]["tool"]
        assert record["args"] == PROPOSALS[name]["args"]


def test_the_approval_binds_the_proposal(ran: tuple[Place, Path, dict[str, str]]) -> None:
    place, _, ids = ran
    proposed = {event["request_id"]: event["data"] for event in place.events("proposed")}
    approved = {event["request_id"]: event["data"] for event in place.events("approved")}
    for request_id in ids.values():
        assert approved[request_id]["proposal_sha256"] == proposed[request_id]["proposal_sha256"]
    place.run("audit", "verify", expect=0)


def test_the_same_proposal_again_drafts_nothing(ran: tuple[Place, Path, dict[str, str]]) -> None:
    place, _, _ = ran
    before = len(place.events("proposed"))
    drop(place, "again", PROPOSALS["read"])
    spaced = place.root / "inbox" / "AP-spaced.json"
    spaced.write_text(json.dumps(PROPOSALS["list"], indent=4))
    place.once()
    assert place.verdict("AP-again.json")["reason"] == "drafted_before"
    assert place.verdict("AP-spaced.json")["reason"] == "drafted_before"
    assert len(place.events("proposed")) == before


def test_what_is_refused_makes_no_draft_and_says_why(ran: tuple[Place, Path, dict[str, str]]) -> None:
    place, _, _ = ran
    drop(place, "bad", {"tool": "file.read", "args": {"path": "../../etc/passwd"}})
    drop(place, "broken", {"tool": "file.read"})
    drop(place, "dry", {"tool": "shell.dry_run", "args": {"argv": ["rm", "-rf", "/"]}})
    before = sorted((place.root / "tool-exec" / "drafts").iterdir())
    place.once()
    assert sorted((place.root / "tool-exec" / "drafts").iterdir()) == before
    bad = place.verdict("AP-bad.json")
    assert (bad["valid"], bad["reason"], bad["judgement"]["verdict"]) == (False, "path_outside", "block")
    assert place.verdict("AP-broken.json")["judgement"]["verdict"] == "reject"
    dry = place.verdict("AP-dry.json")
    assert (dry["valid"], dry["state"], dry["reason"]) == (True, "finished", "verdict_only")
    assert any("would be blocked" in reason for reason in dry["judgement"]["reasons"])


def signed(place: Place, *command: str, expect: int = 0) -> None:
    """A command that signs as the operator, in this process."""
    code = cli.execute(["-w", str(place.root), *command, "--as", "operator", "--key", str(place.key), "--yes"])
    assert code == expect, command


def test_a_note_is_stored_only_with_the_bytes_of_the_trail(
    ran: tuple[Place, Path, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    place, _, ids = ran
    (approved,) = (event["data"] for event in place.events("approved") if event["request_id"] == ids["note"])
    pinned = place.root / "tool-exec" / "inputs" / approved["inputs"]["args.json"]
    written = place.root / "tool-exec" / "runs" / ids["note"] / "out" / "note.json"
    for path, name in ((pinned, "args.json"), (written, "/out/note.json")):
        kept, mode = path.read_bytes(), path.stat().st_mode
        path.unlink()
        signed(place, "project", "note", "approve", ids["note"], expect=2)
        assert f"{name}: cannot be read" in capsys.readouterr().err
        path.write_bytes(kept.replace(b"short", b"longer"))
        signed(place, "project", "note", "approve", ids["note"], expect=2)
        assert f"{name}: does not have the bytes that the trail recorded" in capsys.readouterr().err
        path.write_bytes(kept)
        path.chmod(mode)
    for request_id, said in ((ids["read"], "is a file.read; this command is for"), ("TR-no", "no such request here")):
        signed(place, "project", "note", "approve", request_id, expect=2)
        assert said in capsys.readouterr().err


def test_a_note_is_stored_and_found(
    ran: tuple[Place, Path, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    place, _, ids = ran
    signed(place, "project", "note", "approve", ids["note"])
    capsys.readouterr()
    assert cli.execute(["-w", str(place.root), "project", "note", "list", "--json"]) == 0
    stored = json.loads(capsys.readouterr().out)
    assert [note["content"] for note in stored if note.get("request_id")] == ["Weekly summaries are short."]
    signed(place, "project", "note", "approve", ids["note"], expect=2)
    signed(place, "project", "note", "approve", ids["read"], expect=2)


def test_a_draft_that_is_not_its_proposals_is_not_approved(ran: tuple[Place, Path, dict[str, str]]) -> None:
    """Change the proposal, an input or the draft: each is refused, and the untouched draft is approved."""
    place, _, _ = ran
    drop(
        place,
        "bound",
        {"tool": "memory.propose", "args": {"content": "bound"}, "reason": "why", "risk": "medium"},
    )
    place.once()
    verdict = place.verdict("AP-bound.json")
    draft = place.root / "tool-exec" / "drafts" / verdict["judgement"]["draft"]
    beside = draft.with_name(draft.name + ".proposal.json")
    good = beside.read_bytes()
    for changed in (
        good.replace(b"bound", b"other"),
        good.replace(b"why", b"hmm"),
        good.replace(b"medium", b"high"),
        good.replace(b"memory.propose", b"memory.search"),
        b"{}",
    ):
        beside.write_bytes(changed)
        approve(place, draft, expect=2)
    beside.unlink()
    approve(place, draft, expect=2)
    beside.write_bytes(good)
    text = draft.read_bytes()
    for changed in (
        text.replace(b"time_limit_sec: 20", b"time_limit_sec: 21"),
        text.replace(b"'/out/note.json'", b"'/out/nope.json'"),
        text.replace(b"proposal-", b"proposed-"),
    ):
        assert changed != text
        draft.write_bytes(changed)
        approve(place, draft, expect=2)
    draft.write_bytes(text)
    copy = place.root / "inbox" / draft.name
    copy.write_bytes(text)
    approve(place, copy, expect=2)
    copy.unlink()
    approve(place, draft)
