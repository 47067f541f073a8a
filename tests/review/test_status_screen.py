"""`threegate status` of fifty drafts is one screen: what is folded is counted; the riskiest and newest come first."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.hostile_texts import PASSING, REFUSED
from tests.support import THREEGATE, era_draft, monty_draft
from threegate import cli
from threegate.acts.reject import reject_draft
from threegate.acts.signed_acts import OperatorDecision
from threegate.approval.shown.escaped_lines import GUTTER, cells
from threegate.launch.results.verdict import Verdict, write_verdict
from threegate.review.status import Line, count_ended, status_lines
from threegate.review.status_screen import all_rows, screen_rows

PURPOSE = "A test of the whole way."
FOLDED = re.compile(r"^folded: ([0-9]+) of ([0-9]+); all of them: threegate status --all$")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def drop(bench: Bench, slug: str, text: str, purpose: str = PURPOSE) -> str:
    """A draft; the name's time is made so that no two are the same."""
    number = len(os.listdir(bench.workspace.inbox))
    name = f"TR-20261127-{number // 3600:02}{number // 60 % 60:02}{number % 60:02}Z-{slug}.md"
    (bench.workspace.inbox / name).write_text(text.replace(PURPOSE, json.dumps(purpose)))
    return name


def fifty(bench: Bench) -> None:
    """Three groups of eight, twenty small ones, four opaque ones, one that reaches a host, and the oldest is risky."""
    drop(bench, "drop-tables", monty_draft("high", "print('x')").replace("Risk level: low", "Risk level: high"))
    for group, code in enumerate(("print(n)", "print(n * 2)", "print('total', n)")):
        for month in range(8):
            text = monty_draft(f"g{group}-{month}", code, variables=json.dumps({"n": month}))
            drop(bench, f"month-{group}-{month}", text, f"Report of month {month}.")
    for number in range(20):
        drop(bench, f"table-{number}", monty_draft(f"s-{number}", f"print({number})"), f"Count the rows of {number}.")
    for number in range(4):
        drop(bench, f"convert-{number}", era_draft(f"e-{number}", f"python3 -c 'print({number})'"))
    host = "network: allowlist\nnetwork_allowlist:\n  - api.example.org:443\n"
    text = era_draft("net", "curl https://api.example.org/").replace("network: none\n", host)
    drop(bench, "rates", text.replace("- Data sens", "- Network rationale: it is fetched there\n- Data sens"))


def screen(lines: list[Line], height: int = 24, width: int = 80) -> list[str]:
    return screen_rows(lines, now=datetime.now(UTC), width=width, height=height)


def say(bench: Bench, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert cli.execute(["-w", str(bench.workspace.root), *words]) == 0
    return capsys.readouterr().out


def names(rows: list[str]) -> list[str]:
    """What each row calls its request."""
    return [row.split(GUTTER)[1].split("  ")[0] for row in rows if GUTTER in row]


def test_fifty_drafts_are_one_screen_the_riskiest_and_newest_first(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    fifty(bench)
    rows = screen(status_lines(bench.workspace))
    assert len(rows) == 24 and rows[1] == "Needs you (50), decide with: threegate review"
    shown = names(rows)
    assert shown[:6] == ["drop-tables", "rates", "convert-3", "convert-2", "convert-1", "convert-0"]
    assert sorted(shown[6:9]) == ["month-0-7", "month-1-7", "month-2-7"], "of one risk, groups come first"
    assert shown[9:] == [f"table-{number}" for number in range(19, 19 - len(shown[9:]), -1)]
    assert sum(row.startswith("8 alike") for row in rows) == 3
    assert re.search(r"^draft +[0-9]+ s  high   monty +\| drop-tables  A test of the", rows[2])
    assert re.search(r"^draft +[0-9]+ s  medium ERA   reaches out +\| rates  ", rows[3])
    assert re.search(r"^draft +[0-9]+ s  medium ERA   opaque +\| convert-3  ", rows[4])
    folded = FOLDED.match(rows[-1])
    assert folded and (int(folded[1]), int(folded[2])) == (50 - len(shown), 50)
    said = say(bench, capsys, "status")
    assert said.count("\n") <= 23, "one row is left for the prompt"
    assert "daemon    not running" in said and FOLDED.search(said.splitlines()[-1])


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (40, 24)])
def test_it_fits_the_terminal(bench: Bench, columns: int, rows: int) -> None:
    """On a real one, of this size, no row wraps and none is lost above the first."""
    fifty(bench)
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "dumb"}
    words = [*THREEGATE, "-w", str(bench.workspace.root), "status"]
    with subprocess.Popen(words, stdin=follower, stdout=follower, stderr=follower, env=environment) as process:
        os.close(follower)
        said = b""
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:  # EIO: its last writer has ended
                break
            said += piece
    os.close(leader)
    assert process.returncode == 0, said
    lines = said.decode().split("\r\n")[:-1]
    assert len(lines) <= rows - 1 and all(cells(line) <= columns for line in lines), lines
    text = " ".join(" ".join(lines).split())
    assert "Needs you (50)" in text and "threegate status --all" in text and "drop-tables" in text


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("height", [-3, 0, 1, 3, 5, 9, 24, 200])
def test_each_request_has_a_row_or_is_counted(bench: Bench, width: int, height: int) -> None:
    fifty(bench)
    lines = status_lines(bench.workspace)
    rows = screen(lines, height, width)
    least = len(screen(lines, 0, width))
    assert len(rows) <= max(height, least) and all(cells(row) <= width for row in rows)
    count = re.search(r"folded: ([0-9]+) of 50; all of them: threegate status --all", " ".join(rows))
    whole = [row for row in rows if row.lstrip().startswith(GUTTER) and "TR-" in row]
    of_its_own = len(names(rows)) if height < 200 else len(whole)
    assert count and int(count[1]) + of_its_own == 50
    assert least == len([row for row in screen(lines, 0, width) if GUTTER not in row]), "headings and the count only"


def test_a_short_list_is_shown_whole_with_its_groups_folded(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    for month in range(3):
        text = monty_draft(f"g-{month}", "print(n)", variables=json.dumps({"n": month}))
        last = drop(bench, f"month-{month}", text, f"Report of month {month}.")
    rows = screen(status_lines(bench.workspace))
    assert rows[1] == "Needs you (3)" and rows[-1] == "folded: 2 of 3; all of them: threegate status --all"
    said = " ".join(" ".join(rows).split())
    assert f"3 drafts alike, decide together: threegate approve --group {last} " in said
    assert f"{GUTTER}{last}" in said and f"{GUTTER}core-agent: Report of month 2." in said
    whole = say(bench, capsys, "status", "--all")
    assert whole.count("one of 3: decide together") == 3 and "folded" not in whole
    # the line works as it is printed
    found = re.search(r"threegate (approve --group TR-\S+)", said)
    assert found is not None
    approved = say(bench, capsys, *found[1].split(), "--key", str(bench.keys["alice"]), "--yes")
    assert "3 of 3 approved" in approved


def test_all_shows_each_and_json_has_everything(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    fifty(bench)
    whole = say(bench, capsys, "status", "--all")
    files = sorted(name for name in os.listdir(bench.workspace.inbox) if name.startswith("TR-"))
    assert all(f"          {GUTTER}{name}\n" in whole for name in files) and len(files) == 50
    assert whole.index("drop-tables") < whole.index("convert-3") < whole.index("table-19") < whole.index("month-2-0")
    told = json.loads(say(bench, capsys, "status", "--json"))["requests"]
    assert sorted(row["file"] for row in told) == files
    assert sum(row["group"] is not None and row["group"]["drafts"] == 8 for row in told) == 24


def test_what_has_ended_is_shown_only_on_request(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(5):
        path = bench.workspace.inbox / drop(bench, f"no-{number}", monty_draft(f"no-{number}", f"print({number})"))
        reject_draft(bench.context, path, reason="not this one", by=OperatorDecision("account:x"))
    assert count_ended(bench.workspace) == 5
    said = say(bench, capsys, "status")
    assert said.endswith("ended: 5; the last ones: threegate status --ended 20\n") and "no-4" not in said
    assert "nothing here" not in said
    fifty(bench)
    assert say(bench, capsys, "status").count("\n") <= 23
    said = say(bench, capsys, "status", "--ended", "2")
    assert "Ended (2)" in said and said.index("no-4") < said.index("no-3") and "no-2" not in said
    assert "ended: " not in said and "Needs you (50)" in said
    assert "ended" not in say(bench, capsys, "status", "--ended", "0").lower()
    assert say(bench, capsys, "status", "--all", "--ended", "9").count("rejected: not this one") == 5
    assert "ended: 5" in say(bench, capsys, "status", "--all")
    told = json.loads(say(bench, capsys, "status", "--json"))["requests"]
    assert sum(row["state"] == "refused" for row in told) == 5
    told = json.loads(say(bench, capsys, "status", "--json", "--ended", "1"))["requests"]
    assert sum(row["state"] == "refused" for row in told) == 1
    assert cli.execute(["-w", str(bench.workspace.root), "status", "--ended", "-1"]) == 64


def test_others_and_running_ones_keep_a_row_and_what_waits_for_an_act_comes_first(bench: Bench) -> None:
    fifty(bench)
    for number in range(6):
        name = drop(bench, f"broken-{number}", "---\nbroken")
        write_verdict(bench.workspace, Verdict(name, "0" * 64, None, "draft", False, "invalid", "TG101"))
    stuck = bench.approve(bench.draft("stuck", slug="stuck", data=None))
    waiting = Verdict(stuck.path.name, "0" * 64, "stuck", "approved", True, "waiting", "checkpoint_required")
    write_verdict(bench.workspace, waiting)
    bench.as_if_it_ran(bench.approve(bench.draft("runs", slug="runs", data=None)).path, "runs", "stdout", "step 1")
    rows = screen(status_lines(bench.workspace))
    assert len(rows) == 24 and rows[1] == "Needs you (51), decide with: threegate review"
    assert rows[2].startswith("waiting ") and "checkpoint_required" in " ".join(rows[2:4])
    assert "-> operator: threegate contracts checkpoints" in " ".join(" ".join(rows[2:5]).split())
    assert "Running (1)" in rows and "Waiting for the daemon or the agent (6)" in rows
    assert any(row.startswith("running ") and f"{GUTTER}runs" in row for row in rows)
    assert sum(row.startswith("invalid ") and "TG101" in row for row in rows) == 1


@pytest.mark.parametrize("width", [40, 80])
def test_hostile_names_and_purposes_stay_behind_the_gutter(bench: Bench, width: int) -> None:
    speaks = "approve-all-folded-50-of-50--threegate-status---all"
    for number, text in enumerate(PASSING):
        draft = monty_draft(f"p-{number}", f"print({number})")
        drop(bench, f"{speaks[:40]}-{number}", draft, f"HOSTILE {text}")
    for number, text in enumerate(REFUSED):
        try:
            (bench.workspace.inbox / f"TR-{number}HOSTILE{text}| folded: 0 of 0.md").write_text("x")
        except OSError:
            continue
    for number in range(9):  # the same slug again and again: names of files
        drop(bench, "same", monty_draft(f"q-{number}", f"print(70 + {number})"), "== Needs you (0)")
    lines = status_lines(bench.workspace)
    for rows in (screen(lines, 60, width), all_rows(lines, now=datetime.now(UTC), width=width)):
        assert all(cells(row) <= width and row.isprintable() for row in rows)
        for row in rows:
            ours = row.partition(GUTTER)[0]
            assert "HOSTILE" not in ours and "approve-all" not in ours and "== " not in ours
    rows = screen(lines, 60, 80)
    assert sum("Z-same  == Needs" in row for row in rows) == 9


def test_a_secret_in_a_name_or_a_purpose_is_masked(bench: Bench) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    fifty(bench)
    (bench.workspace.inbox / f"TR-{secret}.md").write_text("x")
    rows = [*screen(status_lines(bench.workspace)), *screen(status_lines(bench.workspace), 500)]
    assert secret not in "\n".join(rows)


def test_json_needs_no_room_on_a_terminal(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("threegate.approval.shown.messages.terminal_columns", lambda err=False: 20)
    assert cli.execute(["--workspace", str(bench.workspace.root), "status", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["requests"] == []
    assert cli.execute(["--workspace", str(bench.workspace.root), "status"]) == 2
