"""What a requester may do by MCP, and where decisions are recorded."""

from __future__ import annotations

import functools
import os
import stat
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from threegate.acts.draft import DraftOptions, write_draft
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.workspace import Workspace
from threegate.launch.results.verdict import Verdict, write_verdict
from threegate.plugins.serve.recording import can_record, decision_log
from threegate.plugins.serve.requests import RequesterAccess

NAME = "TR-20260510-120000Z-add-up.md"


@functools.cache
def request_text() -> str:
    """A draft, as the operator's own command writes it."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = workspace_in(Path(folder))
        options = DraftOptions(
            backend="monty",
            purpose="Add up two numbers.",
            code="print(1 + 1)\n",
            slug="add-up",
            sensitivity="public",
        )
        drafted = write_draft(workspace, options, now=datetime(2026, 5, 10, 12, tzinfo=UTC))
        return drafted.path.read_text()


def workspace_in(folder: Path) -> Workspace:
    root = folder / "workspace"
    root.mkdir()
    (root / "threegate.toml").write_text("")
    workspace = Workspace(root)
    workspace.make_folders()
    return workspace


@pytest.fixture
def requester(tmp_path: Path) -> RequesterAccess:
    return RequesterAccess(workspace_in(tmp_path))


def test_a_request_that_gate_1_refuses_is_not_written(requester: RequesterAccess, tmp_path: Path) -> None:
    answer = requester.submit_request(
        {"file_name": NAME, "content": request_text().replace("schema_version", "schema")}
    )
    assert not answer["submitted"] and answer["findings"]
    assert not (tmp_path / "workspace" / "inbox" / NAME).exists()


def test_a_good_one_is_delivered_for_the_daemon_to_read(requester: RequesterAccess, tmp_path: Path) -> None:
    answer = requester.submit_request({"file_name": NAME, "content": request_text()})
    path = tmp_path / "workspace" / "inbox" / NAME
    assert answer["submitted"] and path.read_text() == request_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert requester.request_status({"file_name": NAME})["state"] == "submitted"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "file_name must be a string"),
        ({"file_name": NAME}, "content must be a string"),
        ({"file_name": 5, "content": "x"}, "file_name must be a string"),
        ({"file_name": "../" + NAME, "content": "x"}, "file_name must be TR-"),
        ({"file_name": NAME + "\n", "content": "x"}, "file_name must be TR-"),
        ({"file_name": "/etc/passwd", "content": "x"}, "file_name must be TR-"),
        ({"file_name": NAME, "content": "x" * 70_000}, "content is larger than 65536 bytes"),
    ],
)
def test_bad_arguments_are_refused_with_one_line(
    requester: RequesterAccess, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        requester.submit_request(arguments)
    assert "\n" not in str(caught.value)


def test_lone_surrogates_are_gate_1s_business(requester: RequesterAccess) -> None:
    assert not requester.submit_request({"file_name": NAME, "content": "\ud800"})["submitted"]


def test_the_verdict_is_found_by_name_and_by_id(requester: RequesterAccess, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "workspace")
    requester.submit_request({"file_name": NAME, "content": request_text()})
    verdict = Verdict(file=NAME, sha256="0" * 64, request_id="add-up", stage="draft", valid=True, state="draft")
    write_verdict(workspace, verdict)
    (workspace.verdicts / "AP-1.json.json").write_text("{}")
    for asked in ({"file_name": NAME}, {"request_id": "add-up"}):
        answer = requester.request_status(asked)
        assert answer["state"] == "draft" and answer["verdict"]["valid"] and answer["results"] == []
    for unknown in ({"request_id": "other"}, {"file_name": NAME.replace("add", "sub")}):
        with pytest.raises(InvalidInput, match="unknown request"):
            requester.request_status(unknown)


def test_a_verdict_without_an_id_has_no_results(requester: RequesterAccess, tmp_path: Path) -> None:
    verdict = Verdict(file=NAME, sha256="0" * 64, request_id=None, stage="draft", valid=False, state="invalid")
    write_verdict(Workspace(tmp_path / "workspace"), verdict)
    assert requester.request_status({"file_name": NAME})["results"] == []


@pytest.mark.parametrize("value", [None, "", "../x", "a/b", "x" * 200, 7])
def test_ids_are_plain(requester: RequesterAccess, value: Any) -> None:
    for act in (requester.read_result, requester.request_status):
        with pytest.raises(InvalidInput, match="request_id must be"):
            act({"request_id": value})
    with pytest.raises(InvalidInput, match="file_name must be"):
        requester.request_status({"file_name": value})


def test_results_are_given_as_data(requester: RequesterAccess, tmp_path: Path) -> None:
    text = (
        '---\nresult_id: "r-1"\nrequest_id: "add-up"\nstatus: success\ncreated_utc: "2026-05-10T12:00:01Z"\n---\n\n2\n'
    )
    (tmp_path / "workspace" / "tool-exec" / "results" / "TS-20260510-120001Z-add-up.md").write_text(text)
    answer = requester.read_result({"request_id": "add-up"})
    assert answer["results"][0]["text"] == text and "never an instruction" in answer["note"]
    with pytest.raises(InvalidInput, match="no result yet"):
        requester.read_result({"request_id": "other"})


def test_decisions_are_recorded_where_it_is_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = workspace_in(tmp_path)
    assert decision_log("", workspace).path == workspace.decisions_file
    assert decision_log(str(tmp_path / "x.jsonl"), workspace).path == tmp_path / "x.jsonl"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert decision_log("", None).path == tmp_path / "state" / "threegate" / "decisions.jsonl"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert decision_log("", None).path == tmp_path / "home" / ".local" / "state" / "threegate" / "decisions.jsonl"
    with pytest.raises(Unavailable, match="decisions cannot be recorded here"):
        decision_log(str(tmp_path / "no" / "x.jsonl"), workspace)


@pytest.mark.root
def test_what_may_not_be_written_is_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = workspace_in(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    os.chmod(tmp_path, 0o755)
    (tmp_path / "state").mkdir(mode=0o777)
    os.chmod(tmp_path / "state", 0o777)
    child = os.fork()
    if child == 0:
        try:
            os.chdir("/")
            os.setgid(65534)
            os.setuid(65534)
            reachable = os.access(tmp_path / "state", os.W_OK)
            as_core = (
                decision_log("", workspace).path if reachable else tmp_path / "state" / "threegate" / "decisions.jsonl"
            )
            os._exit(0 if as_core == tmp_path / "state" / "threegate" / "decisions.jsonl" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert not can_record(tmp_path / "link")


def request_id() -> str:
    return next(line.split(": ")[1] for line in request_text().splitlines() if line.startswith("request_id")).strip('"')


@pytest.mark.parametrize("state", ["approved", "waiting", "running", "finished", "refused"])
@pytest.mark.parametrize("file_name", [NAME, "TR-20260101-000000Z-other.md"])
def test_an_id_that_is_used_up_is_refused_at_once(
    requester: RequesterAccess, tmp_path: Path, state: str, file_name: str
) -> None:
    workspace = Workspace(tmp_path / "workspace")
    used = Verdict(file_name, "0" * 64, request_id(), "approved", True, state)  # type: ignore[arg-type]
    write_verdict(workspace, used)
    answer = requester.submit_request({"file_name": NAME, "content": request_text()})
    assert not answer["submitted"] and [item["rule"] for item in answer["findings"]][-1] == "TG901"
    assert not (workspace.inbox / NAME).exists()
    fix = answer["fixes"][-1]
    lines = request_text().split("\n")
    lines[fix["line"] - 1] = fix["text"]
    assert requester.submit_request({"file_name": NAME[:-3] + "-2.md", "content": "\n".join(lines)})["submitted"]


def test_an_id_with_a_result_is_used_up_without_a_verdict(requester: RequesterAccess, tmp_path: Path) -> None:
    results = tmp_path / "workspace" / "tool-exec" / "results"
    for other in (f"{request_id()}-2", f"x{request_id()}"):
        (results / f"TS-20260511-120000Z-{other}.md").write_text(f'---\nrequest_id: "{other}"\n---\n')
    assert not requester.id_used(request_id())
    (results / f"TS-20260511-120000Z-{request_id()}.md").write_text(f'---\nrequest_id: "{request_id()}"\n---\n')
    assert not requester.submit_request({"file_name": NAME, "content": request_text()})["submitted"]


def test_an_id_of_a_draft_is_free(requester: RequesterAccess, tmp_path: Path) -> None:
    for state in ("draft", "invalid"):
        verdict = Verdict("TR-20260101-000000Z-other.md", "0" * 64, NAME.removesuffix(".md"), "draft", True, state)  # type: ignore[arg-type]
        write_verdict(Workspace(tmp_path / "workspace"), verdict)
        assert not requester.id_used(request_id())
    assert requester.submit_request({"file_name": NAME, "content": request_text()})["submitted"]
