"""Drafts of agents, which are in inboxes of their own, are drafts on every screen."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.agents.conftest import jail_programs
from tests.plugins.agents.people import person
from tests.plugins.page.agent_drafts import agent_draft
from tests.plugins.page.page_client import Client
from threegate.core.workspace import STATES, Workspace
from threegate.plugins.serve.gauge import WorkspaceGauge
from threegate.plugins.tui.opened import open_request
from threegate.review.overview import GROUPS, entries, find_entry, group_of
from threegate.review.status import RequestEntry, folder_name, status_lines


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def page_of(workspace: Workspace) -> str:
    """The page of the only draft, as text that a reader sees after the tags."""
    client = Client(workspace)
    client.login()
    (address,) = client.links("drafts")
    return client.get(address)


def words(page: str) -> str:
    page = re.sub('</?b>|(?s:<span class="code-[a-z]+">(.*?)</span>)', r"\1", page)  # what changed, and colours
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page[page.index("<main") : page.index("</main>")])).split())


def test_the_page_shows_the_change_and_how_to_decide(bench: Bench, tmp_path: Path) -> None:
    draft = agent_draft(bench, tmp_path)
    page = page_of(bench.workspace)
    shown = words(page)
    assert "return 'good day'" in shown and "DELETED" in shown and "Not as it is" not in shown
    assert f" approve {draft} " in shown and f" reject {draft} " in shown
    assert re.search(r'id="go-drafts" aria-current="page"', page)


def test_one_that_gate_1_refuses_says_so_and_shows_its_findings(bench: Bench, tmp_path: Path) -> None:
    draft = agent_draft(bench, tmp_path)
    draft.write_text(draft.read_text().replace("purpose: Changes", "purpose: \u202eChanges"))
    shown = words(page_of(bench.workspace))
    assert "gate 1 refuses it" in shown and "Findings of gate 1" in shown and "agent: fix the draft" in shown
    assert " approve /" not in shown and "validate --stage draft" in shown


def test_every_folder_with_drafts_is_in_the_group_of_drafts(bench: Bench, tmp_path: Path) -> None:
    bench.draft("req-1", data=None)
    agent_draft(bench, tmp_path)
    workspace = bench.workspace
    folders = workspace.draft_folders()
    assert len(folders) == 3
    listed = entries(workspace, "drafts")
    assert {entry.folder for entry in listed} == {folder_name(workspace, folders[at]) for at in (0, 2)}
    for entry in listed:
        assert group_of(entry) == "drafts" and find_entry(workspace, entry.folder, entry.key) == entry
    for state in STATES:
        path = workspace.state_folder(state) / "TR-x.md"
        path.write_text("x")
        entry = RequestEntry.of(state, path)
        assert group_of(entry) == state and find_entry(workspace, state, entry.key) == entry
    assert find_entry(workspace, "agents", listed[0].key) is None and set(GROUPS) == {"drafts", *STATES}
    assert {line.state for line in status_lines(workspace) if line.entry in listed} == {"draft"}


def test_the_terminal_without_a_key_reads_it_as_a_draft(bench: Bench, tmp_path: Path) -> None:
    agent_draft(bench, tmp_path)
    (entry,) = entries(bench.workspace, "drafts")
    with open_request(bench.context, entry, operator="") as opened:
        lines = opened.lines(width=100, full=False)
    assert any(line.endswith("| return 'good day'") or "return 'good day'" in line for line in lines)
    assert not any("CANNOT PROCEED" in line for line in lines)


def test_a_waiting_draft_of_an_agent_is_counted(bench: Bench, tmp_path: Path) -> None:
    bench.draft("req-1", data=None)
    agent_draft(bench, tmp_path)
    told = WorkspaceGauge(bench.workspace).text(daemon_runs=False).decode()
    assert 'threegate_requests{state="inbox"} 2.0' in told


@pytest.mark.slow
def test_what_a_real_agent_changed_in_its_jail_is_on_the_page() -> None:
    jail_programs()
    with person("user") as who:
        done = who.run("/bin/sh", "-c", "echo 'print(2)' >app.py", options=["--propose", "always"])
        assert done.returncode == 0 and "drafted TR-" in done.stderr, done
        shown = words(page_of(Workspace(who.workspace)))
    assert "print('hello')" in shown and "print(2)" in shown and "Not as it is" not in shown
