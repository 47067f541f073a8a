"""Every lane makes an ordinary draft; the same proposal and files make the same bytes; any change is found."""

from __future__ import annotations

import json
import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from tests.plugins.proposals.strategies import proposals
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import Refused
from threegate.core.settings import (
    RequestSettings,
    SecretReference,
    Settings,
)
from threegate.core.workspace import Workspace
from threegate.plugins.changes.change_tar import change_tar, read_change_set
from threegate.plugins.changes.project import ProjectError
from threegate.plugins.changes.section import ProjectSettings
from threegate.plugins.changes.table import Row, TableNode
from threegate.plugins.proposals.project_change import read_proposed_change
from threegate.plugins.proposals.proposal_draft import DraftResult, derive_again, draft_from_proposal
from threegate.plugins.proposals.proposal_verdict import AllowedProposal
from threegate.plugins.proposals.rules import judge_proposal
from threegate.plugins.proposals.section import ProposalSettings
from threegate.plugins.proposals.tools import TOOLS
from threegate.request.reader import read_request

NOW = datetime(2026, 11, 22, 6, tzinfo=UTC)

EXAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("file.list", {}),
    ("file.list", {"path": "src", "maxDepth": 0, "maxEntries": 1}),
    ("file.read", {"path": "README.md", "maxBytes": 3}),
    ("file.read", {"path": ".env"}),
    ("file.read", {"path": "none", "optional": True}),
    ("file.diff", {"path": "README.md", "content": "bye"}),
    ("file.diff", {"path": "binary", "content": "text"}),
    ("file.write_safe", {"path": "src/new.txt", "content": "new\n"}),
    ("file.write_safe", {"path": "src/run.sh", "content": "y\n"}),
    ("project.cleanup_safe", {}),
    ("project.cleanup_safe", {"path": "src", "include": ["a.py", "pack", ".env", "none", "link", "twin"]}),
    (
        "shell.execute_approved",
        {"argv": ["python3", "src/a.py", "it's here"], "cwd": "src", "timeoutMs": 1500},
    ),
    ("shell.execute_approved", {"argv": ["ls"], "maxBufferBytes": 4096}),
    ("git.status", {}),
    ("git.diff", {"path": "src", "staged": True}),
    ("git.log", {"limit": 2}),
    ("memory.search", {"query": "release", "scope": "x"}),
    ("memory.propose", {"content": "</script> --- \n```\n# not a heading\u202e"}),
    ("web.search", {"query": "a b&c"}),
    ("web.fetch", {"url": "http:EXAMPLE.com"}),
    ("github.repo_read", {"repo": "a/b", "includeIssues": True, "includeReleases": True}),
    ("github.repo_read", {"repo": "a/b"}),
    ("github.issue_draft", {"repo": "a/b", "title": "t\nu", "body": "b", "labels": ["x"]}),
    ("github.issue_draft", {"repo": "a/b", "title": "t", "body": ""}),
    ("github.issue_create_approved", {"repo": "a/b", "title": "t", "body": "b"}),
    ("browser.open", {"url": "https://example.com:8443/a?b#c"}),
    ("browser.open", {"url": "http://8.8.8.8/"}),
    ("browser.extract", {"url": "https://example.com/", "selector": "#x"}),
    ("browser.click_proposed", {"url": "https://example.com/", "selector": "#x"}),
    ("browser.type_proposed", {"url": "https://example.com/", "selector": "#x", "text": "tea"}),
    ("app.open_proposed", {"app": "Notes"}),
    ("app.action_proposed", {"app": "Notes", "action": "x"}),
    ("subagent.delegate", {"task": "t", "maxSteps": 3}),
]


def make_project(folder: Path) -> Path:
    """A small git repository with something of everything in it."""
    project = folder / "project"
    (project / "src" / "pack").mkdir(parents=True)
    (project / "README.md").write_text("hello\nworld\n")
    (project / "binary").write_bytes(b"\xff\x00")
    (project / "src" / "a.py").write_text("print(1)\n")
    (project / "src" / "run.sh").write_text("x\n")
    (project / "src" / "run.sh").chmod(0o755)
    (project / "src" / "pack" / "x").write_text("x\n")
    (project / "src" / "twin").write_text("twin\n")
    os.link(project / "src" / "twin", project / "src" / "twin-too")
    os.symlink("a.py", project / "src" / "link")
    (project / ".env").write_text("PASSWORD=swordfish\n")
    (project / "secrets").mkdir()
    (project / "secrets" / "key").write_text("swordfish\n")
    for name in ("dist", "build", "coverage", "node_modules"):
        (project / name).mkdir()
    (project / "dist" / "x.js").write_text("1\n")
    (project / "build" / "x.db").write_text("1\n")
    (project / "coverage" / "sub").mkdir()
    os.symlink("..", project / "coverage" / "sub" / "up")
    (project / "node_modules" / "m").mkdir()
    (project / "node_modules" / "m" / "i.js").write_text("1\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(project)]
    for arguments in (
        ["init", "-q", "-b", "main"],
        ["add", "-f", "README.md", "src", ".env"],
        ["commit", "-qm", "first"],
        ["config", "core.fsmonitor", "touch /tmp/owned"],
        ["config", "core.pager", "touch /tmp/owned"],
    ):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    (project / ".git" / "hooks" / "post-checkout").write_text("#!/bin/sh\n")
    (project / "README.md").write_text("hello\nworld\nmore\n")
    return project


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, Workspace]:
    """Settings with a project and everything that lanes want, and a workspace with notes."""
    folder = tmp_path_factory.mktemp("drafts")
    project = make_project(folder)
    workspace = Workspace(folder / "ws")
    workspace.memory.mkdir(parents=True)
    (workspace.memory / "a.jsonl").write_text('{"content": "release rules"}\n')
    settings = Settings(
        sections={
            "project": ProjectSettings(root=str(project)),
            "proposals": ProposalSettings(search_url="https://search.example.com/?q={query}"),
        },
        secrets={"github": SecretReference(env="TOKEN", path="/repos/a/b/issues")},
    )
    return settings, workspace


def propose(tool: str, args: dict[str, Any], **more: Any) -> bytes:
    """The bytes of a proposal."""
    return json.dumps({"tool": tool, "args": args, "risk": "high", **more}).encode()


def test_there_is_an_example_of_every_tool_that_makes_a_draft() -> None:
    assert {tool for tool, _ in EXAMPLES} == set(TOOLS) - {"shell.dry_run", "skill.install_guarded"}


@pytest.mark.parametrize(("tool", "args"), EXAMPLES, ids=lambda item: str(item)[:50])
def test_a_lane_makes_a_draft_that_is_derived_again(
    tool: str, args: dict[str, Any], place: tuple[Settings, Workspace]
) -> None:
    settings, workspace = place
    data = propose(tool, args)
    first = draft_from_proposal(data, settings=settings, workspace=workspace, now=NOW)
    second = draft_from_proposal(data, settings=settings, workspace=workspace, now=NOW)
    assert first.problem is None
    assert first.draft is not None, first.verdict
    assert (first.draft, dict(first.inputs)) == (second.draft, dict(second.inputs))
    assert first.file_name is not None
    report = read_request(first.draft, path=first.file_name, settings=settings.request, now=NOW, stage="draft")
    assert report.request is not None, report.findings
    assert report.request.request_id == first.request_id
    assert report.request.tool == tool
    assert {item.name for item in report.request.inputs} == set(first.inputs)
    derive_again(first.draft, data, first.inputs, settings=settings)
    for name in first.inputs:
        with pytest.raises(Refused, match="not what its proposal makes"):
            derive_again(first.draft, data, {**first.inputs, name: first.inputs[name] + b"x"}, settings=settings)
    for changed in (
        propose(tool, args, reason="another"),
        propose(tool, args, id="x"),
        json.dumps({"tool": tool, "args": args, "risk": "critical"}).encode(),
        b"{}",
    ):
        with pytest.raises(Refused):
            derive_again(first.draft, changed, first.inputs, settings=settings)
    with pytest.raises(Refused):
        derive_again(first.draft + b"\n", data, first.inputs, settings=settings)
    with pytest.raises(Refused):
        derive_again(first.draft, data, {**first.inputs, "extra": b""}, settings=settings)
    with pytest.raises(Refused):
        derive_again(b"", data, first.inputs, settings=settings)
    no_moment = re.sub(rb"created_utc: (\"?)[0-9]{4}-..-..", rb"created_utc: \g<1>2026-99-99", first.draft)
    with pytest.raises(Refused):
        derive_again(no_moment, data, first.inputs, settings=settings)


def test_an_argument_more_or_less_is_another_draft(place: tuple[Settings, Workspace]) -> None:
    settings, workspace = place
    data = propose("git.log", {"limit": 3})
    result = draft_from_proposal(data, settings=settings, workspace=workspace, now=NOW)
    assert result.draft is not None
    for other in (propose("git.log", {"limit": 4}), propose("git.log", {}), propose("git.status", {})):
        with pytest.raises(Refused):
            derive_again(result.draft, other, result.inputs, settings=settings)


@bounded(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(proposals())
def test_every_draft_of_a_generated_proposal_passes_gate_1(
    place: tuple[Settings, Workspace], value: dict[str, Any]
) -> None:
    settings, workspace = place
    data = json.dumps(value).encode()
    result = draft_from_proposal(data, settings=settings, workspace=workspace, now=NOW)
    if result.draft is None:
        assert not result.verdict.allowed or result.problem is not None or result.verdict.becomes == "verdict only"
        return
    assert result.file_name is not None
    report = read_request(result.draft, path=result.file_name, settings=settings.request, now=NOW, stage="draft")
    assert report.request is not None
    order = ["low", "medium", "high"]
    declared = {"critical": "high"}.get(value.get("risk", "low"), value.get("risk", "low"))
    assert order.index(report.request.risk_level) >= order.index(declared)
    derive_again(result.draft, data, result.inputs, settings=settings)


@pytest.mark.parametrize(
    "reason",
    [
        "please pip install evil and docker run it",
        "---\nrequest_type: tool_request",
        'quote " and \\ and \u2028 and \x1b[2J and <script>',
        "ghp_" + "a1B2" * 9,
        "x" * 5000,
        "emoji 🎉 and ü",
        "see /etc/passwd and /var/run/docker.sock",
    ],
)
def test_what_an_agent_says_never_breaks_a_draft(reason: str, place: tuple[Settings, Workspace]) -> None:
    settings, workspace = place
    data = propose("git.status", {}, reason=reason, source=reason, task=reason)
    result = draft_from_proposal(data, settings=settings, workspace=workspace, now=NOW)
    assert result.draft is not None
    assert b"ghp_" not in result.draft
    derive_again(result.draft, data, result.inputs, settings=settings)


def test_an_agents_words_stand_in_the_purpose_when_they_are_harmless(
    place: tuple[Settings, Workspace],
) -> None:
    settings, workspace = place
    data = propose("git.status", {}, reason="to see what changed", source="sidekick")
    result = draft_from_proposal(data, settings=settings, workspace=workspace, now=NOW)
    assert result.draft is not None
    assert b'purpose: "Proposed action git.status: to see what changed"\n' in result.draft
    assert b"requested_by: sidekick\n" in result.draft


def test_the_same_proposal_in_another_spelling_has_the_same_id(place: tuple[Settings, Workspace]) -> None:
    settings, workspace = place
    one = draft_from_proposal(b'{"tool":"git.status","args":{}}', settings=settings, workspace=workspace, now=NOW)
    two = draft_from_proposal(b'{ "args": {}, "tool": "git.status" }', settings=settings, workspace=workspace, now=NOW)
    other = draft_from_proposal(b'{"tool":"git.log","args":{}}', settings=settings, workspace=workspace, now=NOW)
    assert one.request_id == two.request_id != other.request_id
    assert one.proposal_sha256 != two.proposal_sha256


def test_files_are_delivered_before_the_draft_and_by_digest(place: tuple[Settings, Workspace]) -> None:
    settings, workspace = place
    result = draft_from_proposal(propose("git.status", {}), settings=settings, workspace=workspace, now=NOW)
    files = result.deliveries(workspace)
    assert files[-1][0].name == result.file_name
    assert files[-2][0].name == f"{result.file_name}.proposal.json"
    assert files[-2][1] == result.proposal
    assert {path.parent for path, _, _ in files[:-2]} == {workspace.draft_files}
    assert {mode for _, _, mode in files[:-2]} == {0o600}
    dry = draft_from_proposal(
        propose("shell.dry_run", {"argv": ["ls"]}), settings=settings, workspace=workspace, now=NOW
    )
    assert dry.deliveries(workspace) == []


@pytest.mark.parametrize(
    ("tool", "args", "said"),
    [
        ("file.read", {"path": "none"}, "no such file"),
        ("file.read", {"path": "src"}, "not a regular file"),
        ("file.read", {"path": "."}, "is a folder"),
        ("file.read", {"path": "src/twin"}, "hard link"),
        ("file.read", {"path": "README.md/x"}, "cannot be opened"),
        ("file.diff", {"path": "none", "content": ""}, "no such file"),
        ("file.write_safe", {"path": "none/x", "content": ""}, "cannot be opened"),
        ("file.write_safe", {"path": "src/twin", "content": ""}, "hard link"),
        ("file.write_safe", {"path": ".env", "content": ""}, "protected"),
        ("file.write_safe", {"path": ".gitmodules", "content": ""}, "protected"),
        ("file.write_safe", {"path": "src/a.py", "content": "print(1)\n"}, "has this content already"),
        ("project.cleanup_safe", {"include": ["none"]}, "nothing to clean up"),
        (
            "project.cleanup_safe",
            {"include": [".", "src/twin"]},
            "src/twin stays: is a file with several names",
        ),
        ("file.list", {"path": "none"}, "cannot be opened"),
    ],
)
def test_what_the_project_does_not_have_is_said(
    tool: str, args: dict[str, Any], said: str, place: tuple[Settings, Workspace]
) -> None:
    settings, workspace = place
    result = draft_from_proposal(propose(tool, args), settings=settings, workspace=workspace, now=NOW)
    assert result.draft is None
    assert result.verdict.allowed
    assert result.problem is not None
    assert said in result.problem


@pytest.mark.parametrize(
    ("tool", "args", "settings", "said"),
    [
        ("file.read", {"path": "x"}, Settings(), "project.root"),
        ("file.read", {"path": "x"}, Settings(sections={"project": ProjectSettings(root="relative")}), "absolute"),
        (
            "file.read",
            {"path": "x"},
            Settings(sections={"project": ProjectSettings(root="/nowhere/at/all")}),
            "not the absolute path",
        ),
        ("web.search", {"query": "x"}, Settings(), "search_url"),
        (
            "web.search",
            {"query": "x"},
            Settings(sections={"proposals": ProposalSettings(search_url="ftp://x/{query}")}),
            "search_url",
        ),
        (
            "web.search",
            {"query": "x"},
            Settings(sections={"proposals": ProposalSettings(search_url="http://localhost/{query}")}),
            "does not name a public host",
        ),
        (
            "github.issue_create_approved",
            {"repo": "a/b", "title": "t", "body": "b"},
            Settings(),
            "secrets.github",
        ),
        (
            "github.issue_create_approved",
            {"repo": "a/b", "title": "t", "body": "b"},
            Settings(secrets={"github": SecretReference(env="TOKEN", path="/repos/a/other/issues")}),
            "for another request",
        ),
    ],
)
def test_a_missing_setting_is_named(tool: str, args: dict[str, Any], settings: Settings, said: str) -> None:
    result = draft_from_proposal(propose(tool, args), settings=settings, now=NOW)
    assert result.draft is None
    assert result.problem is not None
    assert said in result.problem


def test_limits_of_the_settings_hold_for_drafts(place: tuple[Settings, Workspace]) -> None:
    _, workspace = place
    small = Settings(request=RequestSettings(max_cpu=0.5, max_memory_mb=64, max_time_sec=5))
    result = draft_from_proposal(
        propose("app.open_proposed", {"app": "x"}), settings=small, workspace=workspace, now=NOW
    )
    assert result.draft is not None
    assert b'cpu_limit: "0.5"' in result.draft
    assert b"memory_limit_mb: 64" in result.draft
    assert b"time_limit_sec: 5" in result.draft


def test_what_gate_1_refuses_makes_no_draft(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    settings = Settings(sections={"project": ProjectSettings(root=str(tmp_path))})
    for args, code in (
        ({"argv": ["ls"], "cwd": "a b"}, "cwd"),
        ({"argv": ["1.", "x"]}, "gate_1"),
        ({"argv": ["ls", "x" * 65_000]}, "gate_1"),
    ):
        result = draft_from_proposal(propose("shell.execute_approved", args), settings=settings, now=NOW)
        assert result.draft is None
        assert result.verdict.verdict == "block"
        assert code in {problem.code for problem in result.verdict.errors}


def test_an_include_that_is_too_long_with_its_folder_is_blocked(place: tuple[Settings, Workspace]) -> None:
    settings, workspace = place
    long = "/".join(["x" * 200] * 3)
    data = propose("project.cleanup_safe", {"path": long, "include": [long]})
    result = draft_from_proposal(data, settings=settings, workspace=workspace, now=NOW)
    assert (result.verdict.verdict, result.draft) == ("block", None)


def test_a_draft_does_not_outlive_the_setting_that_it_needs(place: tuple[Settings, Workspace]) -> None:
    settings, workspace = place
    data = propose("web.search", {"query": "x"})
    result = draft_from_proposal(data, settings=settings, workspace=workspace, now=NOW)
    assert result.draft is not None
    with pytest.raises(Refused):
        derive_again(result.draft, data, result.inputs, settings=Settings())


def test_what_cannot_be_read_under_a_cleanup_stays(
    place: tuple[Settings, Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    from threegate.plugins.proposals import project_change

    node_of = project_change.node_of

    def gone(tree: Any, path: str, entry: Any) -> Any:
        if path == "dist/x.js":
            raise FileNotFoundError(2, "No such file or directory")
        return node_of(tree, path, entry)

    settings, workspace = place
    monkeypatch.setattr(project_change, "node_of", gone)
    data = propose("project.cleanup_safe", {"include": ["dist", "node_modules"]})
    result = draft_from_proposal(data, settings=settings, workspace=workspace, now=NOW)
    assert "dist stays: something in it cannot be read (No such file or directory)" in result.verdict.reasons
    assert deleted(result) == ["node_modules", "node_modules/m", "node_modules/m/i.js"]
    only = propose("file.write_safe", {"path": "dist/x.js", "content": ""})
    monkeypatch.setattr(project_change, "hold_project", gone_at_all)
    result = draft_from_proposal(only, settings=settings, workspace=workspace, now=NOW)
    assert result.problem == "the project cannot be read (No such file or directory)"


def gone_at_all(_: object) -> Any:
    raise FileNotFoundError(2, "No such file or directory")


def deleted(result: DraftResult) -> list[str]:
    """The paths that a draft takes away; it does nothing else."""
    rows = read_change_set(result.inputs["changes.tar"]).rows
    assert {row.change for row in rows} == {"delete"}
    return [row.path for row in rows]


def test_notes_that_are_none_are_named(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.memory.mkdir(parents=True)
    notes = workspace.memory / "n.jsonl"
    for line, said in (("{", "n.jsonl:1"), ('{"content": 1}', "needs a content"), ("[]", "needs a content")):
        notes.write_text(line + "\n")
        result = draft_from_proposal(
            propose("memory.search", {"query": "x"}), settings=Settings(), workspace=workspace, now=NOW
        )
        assert result.problem is not None
        assert said in result.problem
    notes.unlink()
    os.symlink("/etc/passwd", notes)
    result = draft_from_proposal(
        propose("memory.search", {"query": "x"}), settings=Settings(), workspace=workspace, now=NOW
    )
    assert result.problem is not None
    notes.unlink()
    result = draft_from_proposal(propose("memory.search", {"query": "x"}), settings=Settings(), now=NOW)
    assert result.inputs["memory.jsonl"] == b""


def test_too_many_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(tmp_path)
    workspace.memory.mkdir(parents=True)
    for name in ("a", "b"):
        (workspace.memory / f"{name}.jsonl").write_text('{"content": "x"}\n' * 4)
    monkeypatch.setattr(limits, "MEMORY_BYTES", 100)
    result = draft_from_proposal(
        propose("memory.search", {"query": "x"}), settings=Settings(), workspace=workspace, now=NOW
    )
    assert result.problem is not None
    assert "too many notes" in result.problem


def test_a_cleanup_says_what_stays_and_why(place: tuple[Settings, Workspace]) -> None:
    settings, workspace = place
    result = draft_from_proposal(propose("project.cleanup_safe", {}), settings=settings, workspace=workspace, now=NOW)
    assert deleted(result) == ["dist", "dist/x.js", "node_modules", "node_modules/m", "node_modules/m/i.js"]
    assert {reason for reason in result.verdict.reasons if " stays: " in reason} == {
        "build stays: has something protected in it",
        "coverage stays: has a link in it",
    }
    include = ["a.py", "pack", "pack/x", ".env", "none", "link", "twin", "."]
    some = draft_from_proposal(
        propose("project.cleanup_safe", {"path": "src", "include": include}),
        settings=settings,
        workspace=workspace,
        now=NOW,
    )
    assert deleted(some) == ["src/a.py", "src/pack", "src/pack/x"]
    assert {reason for reason in some.verdict.reasons if " stays: " in reason} == {
        "src/twin stays: is a file with several names",
        "src/link stays: is a link",
        "src stays: has a link in it",
    }
    assert "entry 3 is protected and stays" in some.verdict.reasons


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"a": "1", "secrets/k": "1"}, "has something protected in it"),
        ({"a": ("fifo",)}, "has a special file in it"),
        ({"a": "1", "b": ("twin", "a")}, "has a file with several names in it"),
        ({"a": ("suid",)}, "top/a: has a set-user-id or set-group-id bit"),
        ({"\u200bx": "1"}, "hidden characters"),
        ({"/".join("d" * limits.TAR_DEPTH) + "/x": "1"}, "folders deep"),
        (None, "is protected"),
    ],
)
def test_what_a_cleanup_leaves(tmp_path: Path, spec: dict[str, Any] | None, said: str) -> None:
    """All of a path goes, or nothing of it."""
    top = tmp_path / ("top" if spec is not None else "data")
    top.mkdir()
    for name, what in (spec or {}).items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if what == ("fifo",):
            os.mkfifo(path)
        elif what[0] == "twin":
            os.link(top / what[1], path)
        else:
            path.write_text("x")
            path.chmod(0o4755 if what == ("suid",) else 0o644)
    settings = Settings(sections={"project": ProjectSettings(root=str(tmp_path))})
    result = draft_from_proposal(propose("project.cleanup_safe", {"include": [top.name]}), settings=settings, now=NOW)
    assert result.draft is None
    assert result.problem is not None
    assert result.problem.startswith(f"{top.name} stays: ") and said in result.problem


def test_a_cleanup_of_too_much_stays(place: tuple[Settings, Workspace], monkeypatch: pytest.MonkeyPatch) -> None:
    settings, workspace = place
    for name in ("SNAPSHOT_ENTRIES", "SNAPSHOT_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(limits, name, 1)
            result = draft_from_proposal(
                propose("project.cleanup_safe", {"include": ["node_modules"]}),
                settings=settings,
                workspace=workspace,
                now=NOW,
            )
        assert result.problem is not None
        assert "too large" in result.problem


def test_a_change_set_does_what_was_proposed_and_nothing_else(place: tuple[Settings, Workspace]) -> None:
    """Whoever writes another archive beside the draft, and its digests into it, signs nothing with it."""
    settings, _ = place
    write = allowed("file.write_safe", {"path": "src/a.py", "content": "new\n"}, settings)
    new, old = TableNode("100644", sha256_hex(b"new\n")), TableNode("100644", "0" * 64)
    row = Row("src/a.py", old, new)
    assert read_proposed_change(write, change_tar([row], lambda _: b"new\n")).rows == (row,)
    for rows in (
        [Row("src/b.py", old, new)],
        [row, Row("src/b.py", None, new)],
        [Row("src/a.py", old, TableNode("100755", new.sha256))],
        [Row("src/a.py", None, TableNode("100755", new.sha256))],
        [Row("src/a.py", old, None)],
    ):
        with pytest.raises(ProjectError, match="not what was proposed"):
            read_proposed_change(write, change_tar(rows, lambda _: b"new\n"))
    with pytest.raises(ProjectError):
        read_proposed_change(write, b"no archive")
    cleanup = allowed("project.cleanup_safe", {"path": "src", "include": ["pack", "a.py"]}, settings)
    gone = [
        Row("src/a.py", old, None),
        Row("src/pack", TableNode("040755"), None),
        Row("src/pack/x", old, None),
    ]
    assert len(read_proposed_change(cleanup, change_tar(gone, lambda _: b"")).rows) == 3
    for rows in ([*gone, Row("src/packs", old, None)], [Row("src", TableNode("040755"), None)], [row]):
        with pytest.raises(ProjectError, match="not what was proposed"):
            read_proposed_change(cleanup, change_tar(rows, lambda _: b"new\n"))
    for path in ("src/pack/data/x", "src/pack/x.sql"):
        with pytest.raises(ProjectError, match="protected"):  # of an agent's change sets these are ordinary paths
            read_proposed_change(cleanup, change_tar([*gone, Row(path, old, None)], lambda _: b""))


def allowed(tool: str, args: dict[str, Any], settings: Settings) -> AllowedProposal:
    """The verdict on a proposal that may be drafted."""
    verdict = judge_proposal(propose(tool, args), settings=settings)
    assert isinstance(verdict, AllowedProposal)
    return verdict


def test_a_project_that_moved_on_does_not_change_its_draft(tmp_path: Path) -> None:
    """The draft is still its proposal's, so that it can be shown; `approve` says which path differs."""
    (tmp_path / "a").write_text("1")
    settings = Settings(sections={"project": ProjectSettings(root=str(tmp_path))})
    data = propose("file.write_safe", {"path": "a", "content": "2"})
    result = draft_from_proposal(data, settings=settings, now=NOW)
    assert result.draft is not None
    (tmp_path / "a").write_text("3")
    derive_again(result.draft, data, result.inputs, settings=settings)


def test_a_change_whose_words_gate_1_refuses_is_drafted_without_them(
    place: tuple[Settings, Workspace],
) -> None:
    settings, workspace = place
    data = propose("file.write_safe", {"path": "src/a.py", "content": "x"}, reason="ghp_" + "a1B2" * 9)
    result = draft_from_proposal(data, settings=settings, workspace=workspace, now=NOW)
    assert result.draft is not None and b"ghp_" not in result.draft
    derive_again(result.draft, data, result.inputs, settings=settings)


def test_a_diff_of_a_proposal_is_small_and_git_applies_it(tmp_path: Path) -> None:
    from threegate.plugins.proposals.unified_patch import unified_patch

    old = [f"{number}\n" for number in range(20_000)]
    diff = unified_patch("".join(old).encode(), "".join(["first\n", *old[1:-1], "x"]).encode(), "a").decode()
    assert diff.startswith("--- a/a\n+++ b/a\n@@ -1,4 +1,4 @@\n-0\n+first\n")
    assert diff.endswith("-19999\n+x\n\\ No newline at end of file\n") and diff.count("\n") == 15
    assert unified_patch(b"a\n", b"a\n", "a") == b""
    for binary in ((b"\0", b"x"), (b"x", b"\0")):
        assert unified_patch(*binary, "a") == b"Binary files a/a and b/a differ\n"
    assert unified_patch(b"caf\xe9\n", b"caf\xe9\r\n", "a").endswith(b"-caf\xe9\n+caf\xe9\r\n")
    small = unified_patch(b"", b"x\n", "a").decode()
    assert small == "--- a/a\n+++ b/a\n@@ -0,0 +1 @@\n+x\n"
    whole = tmp_path / "a"
    whole.write_bytes(b"one\ntwo\nthree")
    patch = unified_patch(whole.read_bytes(), b"one\n2\nthree\n", "a")
    done = subprocess.run(["git", "apply", "--unsafe-paths", "-"], input=patch, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert whole.read_bytes() == b"one\n2\nthree\n"


@given(st.lists(st.sampled_from("abcd"), max_size=30), st.lists(st.sampled_from("abcd"), max_size=30))
def test_the_heads_of_a_patch_count_its_lines_and_the_context_is_that_of_both(old: list[str], new: list[str]) -> None:
    from threegate.plugins.proposals.unified_patch import unified_patch

    data = ["".join(f"{line}\n" for line in lines).encode() for lines in (old, new)]
    at = to = 0
    for line in unified_patch(*data, "a").decode().splitlines()[2:]:
        if line.startswith("@@"):
            at, to = (int(part[1:].split(",")[0]) for part in line.split()[1:3])
            counts = [int(part.split(",")[1]) if "," in part else 1 for part in line.split()[1:3]]
            at, to = at + (not counts[0]), to + (not counts[1])
        else:
            assert line[0] == "+" or old[at - 1] == line[1:]
            assert line[0] == "-" or new[to - 1] == line[1:]
            at, to = at + (line[0] != "+"), to + (line[0] != "-")


def test_no_draft_holds_what_an_agent_typed_as_code(place: tuple[Settings, Workspace]) -> None:
    settings, workspace = place
    marker = "zq9marker"
    data = propose("memory.propose", {"content": f"{marker}'); print('x"}, reason=marker)
    result = draft_from_proposal(data, settings=settings, workspace=workspace, now=NOW)
    assert result.draft is not None
    code = re.search(rb"```python\n(.*)```", result.draft, re.DOTALL)
    assert code is not None
    assert marker.encode() not in code[1]
