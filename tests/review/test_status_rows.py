"""The rows of `threegate status`: what a request asks for, whose turn it is, and that foreign words stay behind the
gutter.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.support import era_draft
from threegate import cli
from threegate.core import limits
from threegate.launch.results.verdict import Verdict, write_verdict
from threegate.review.asked import AskedReader
from threegate.review.status import Line, RequestEntry, age_text, line_rows, status_lines


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def only(bench: Bench, reader: AskedReader | None = None) -> Line:
    (line,) = status_lines(bench.workspace, reader=reader)
    return line


def rows(line: Line, width: int = 80) -> list[str]:
    return line_rows(line, now=line.entry.since, width=width)


def test_what_is_asked_for_is_told_before_any_daemon_looked(bench: Bench) -> None:
    bench.draft(purpose="Sum it. -> daemon", risk="medium")
    line = only(bench)
    name = line.file
    assert rows(line) == [
        "draft     0 s, risk medium, monty, reaches nothing",
        "          not checked yet  -> operator: threegate approve",
        f"          | {name}",
        "          | core: Sum it. -> daemon",
    ]
    assert line.next == "operator"


def test_reach_opacity_and_effective_risk(bench: Bench) -> None:
    text = era_draft("r-1", "curl https://api.example.org/").replace(
        "network: none\n", "network: allowlist\nnetwork_allowlist:\n  - api.example.org:443\n"
    )
    text = text.replace("- Data sens", "- Network rationale: it is fetched there\n- Data sens")
    (bench.workspace.inbox / "TR-20260101-000000Z-net.md").write_text(text)
    shown = "\n".join(rows(only(bench)))
    assert "| reaches network api.example.org:443" in shown and "reaches nothing" not in shown
    assert "risk medium, ERA" in shown


def test_no_row_is_longer_than_the_screen_and_hostile_words_are_escaped(bench: Bench) -> None:
    bench.draft(purpose="'\u4e2d\u6587 " + "w" * 300 + "'", slug="n" * 60)
    for width in (40, 60, 80, 200):
        shown = rows(only(bench), width)
        assert all(len(row) <= width for row in shown)
        assert [row.startswith("          | ") for row in shown[-2:]] == [True, True]
        assert shown[-1].endswith("…")
    name = "TR-\x1b[2J\u202e| -> daemon.md"
    (bench.workspace.inbox / name).write_text("x")
    (odd,) = (line for line in status_lines(bench.workspace) if line.file == name)
    assert rows(odd)[-1] == "          | TR-\\x1b[2J\\u202e| -> daemon.md" and odd.asked is None


def test_who_asks_is_named_by_the_settings_where_they_know_the_owner(bench: Bench) -> None:
    reader = AskedReader(bench.workspace)
    path = bench.draft(data=None)
    line = only(bench, reader)
    assert line.asked is not None and (line.asked.requester, line.asked.vouched) == ("core", False)
    bench.settings(**{f"requesters__{os.getuid()}": "report-bot"})
    line = only(bench, reader)
    assert line.asked is not None and (line.asked.requester, line.asked.vouched) == ("report-bot", True)
    assert line.to_json()["requester_named_by"] == "settings"
    path.write_text(path.read_text().replace("Sum a column.", "Sum two."))
    assert "Sum two." in "\n".join(rows(only(bench, reader))), "a file that changed is read again"
    with bench.workspace.settings_file.open("a") as file:
        file.write("\n[nonsense]\n")
    assert only(bench, reader).asked is None


def test_files_that_are_no_plain_files_are_not_read(bench: Bench) -> None:
    reader = AskedReader(bench.workspace)
    path = bench.draft(data=None)
    elsewhere = path.rename(bench.workspace.root / path.name)
    path.symlink_to(elsewhere)
    assert reader.read(path, "inbox") is None
    assert status_lines(bench.workspace) == []


def test_one_list_reads_no_more_than_so_many(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        bench.draft(f"req-{number}", slug=f"n{number}", data=None)
    monkeypatch.setattr(limits, "STATUS_ROWS_READ", 2)
    reader = AskedReader(bench.workspace)
    for _ in range(2):
        lines = status_lines(bench.workspace, reader=reader)
        assert [line.asked is not None for line in lines] == [True, True, False, False]
        assert len(reader._kept) == 2


def test_the_order_is_whose_turn_it_is(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    broken = bench.draft("bad", slug="bad", data=None)
    broken.write_text("---\nbroken")
    write_verdict(bench.workspace, Verdict(broken.name, "0" * 64, None, "draft", False, "invalid", "TG101"))
    bench.approve(bench.draft("req-0", slug="ok", data=None))
    bench.draft("req-1", slug="mine", data=None)
    assert [line.next for line in status_lines(bench.workspace)] == ["operator", "others", "others"]
    assert cli.execute(["-w", str(bench.workspace.root), "status"]) == 0
    said = capsys.readouterr().out
    assert said.index("Needs you (1)") < said.index("Waiting for the daemon or the agent (2)")
    assert "daemon    not running, so nothing is started: threegate run\n" in said
    assert cli.execute(["-w", str(bench.workspace.root), "status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["health"]["daemon"]["state"] == "failure" and told["health"]["trail"]["state"] == "ok"
    first = told["requests"][0]
    assert (first["risk"], first["backend"], first["purpose"]) == ("low", "monty", "Sum a column.")


def test_an_empty_list_says_the_next_step(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.execute(["-w", str(bench.workspace.root), "status"]) == 0
    assert "nothing here" in (said := capsys.readouterr().out) and "threegate draft" in said


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (172_800, "2 d")],
)  # fmt: skip
def test_ages(bench: Bench, seconds: int, text: str) -> None:
    now = datetime.now(UTC)
    since = now - timedelta(seconds=seconds)
    assert age_text(RequestEntry("inbox", bench.workspace.inbox / "x", since, since), now) == text
