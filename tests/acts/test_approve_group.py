"""Groups by command: one screen, one signature, each draft delivered; and one reason for many."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from threegate.acts.approve_group import open_group, seal_group
from threegate.acts.draft import DraftOptions, write_draft
from threegate.approval.shown.escaped_lines import GUTTER
from threegate.approval.statement import SignedApproval
from threegate.cli import execute as run
from threegate.core.errors import InvalidInput
from threegate.review.countersign import verify_approval
from threegate.review.group_screen import render_group
from threegate.review.reviewed_draft import read_draft
from threegate.review.show import as_approved
from threegate.review.status import line_rows, status_lines
from threegate.trail.trail import Trail


def drafts(bench: Bench, values: list[int], code: str = "print(n)") -> list[Path]:
    """Drafts that differ in a number and in their purpose."""
    made = []
    for number, value in enumerate(values):
        path = bench.draft(f"req-{number}", slug=f"s{number}", data=None, code=code, purpose=f"Month {number}.")
        given = f'## Inputs (JSON)\n\n```json\n{{"n": {value}}}\n```\n\n## Output'
        text = path.read_text().replace("## Output", given)
        # as `threegate draft` and the door write it: the purpose once more
        path.write_text(re.sub(r"Justification: .*", f"Justification: Month {number}.", text))
        made.append(path)
    return made


def command(bench: Bench, *words: object) -> list[str]:
    return ["--workspace", str(bench.workspace.root), *map(str, words)]


def test_a_group_is_approved_by_one_signature(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    paths = drafts(bench, [3, 4, 5000, 5])
    words = command(bench, "approve", "--group", paths[0], "--key", bench.keys["alice"])
    assert run(words) == 2  # nobody was asked, and it is not a terminal
    assert all(path.exists() for path in paths)
    screen = capfd.readouterr().out
    table = screen.split("== WHAT DIFFERS")[1]
    assert table.index("n = 5000") < table.index("n = 3") and "stands out by value 1" in table
    assert all(f"| Month {number}." in table and paths[number].name in table for number in range(4))
    assert screen.count("print(n)") == 1 and "GROUP: 4 DRAFTS, ONE DECISION" in screen
    assert run([*words, "--yes", "--reason", "the year"]) == 0
    told = capfd.readouterr().out
    assert told.count("\napproved  ") == 4 and "4 of 4 approved" in told and "none is running here" in told
    approved = [bench.workspace.approved / path.name for path in paths]
    assert len({(path.parent / f"{path.name}.sig").read_bytes() for path in approved}) == 1
    events = [event for event in Trail(bench.workspace).events() if event.type == "approved"]
    assert [event.data["batch_index"] for event in events] == [0, 1, 2, 3]
    assert len({event.data["batch_sha256"] for event in events}) == 1
    assert len({event.data["approval_sha256"] for event in events}) == 4
    assert {event.data["reason"] for event in events} == {"the year"} and not events[0].data["asked"]
    for path in approved:
        assert run(command(bench, "audit", "approval", path)) == 0
        assert "of 4 of the batch" in capfd.readouterr().out
    kept = as_approved(bench.workspace, "req-2")
    approval = SignedApproval.parse((approved[2].parent / f"{approved[2].name}.sig").read_bytes(), "req-2")
    assert hashlib.sha256(kept).hexdigest() == approval.statement.shown_sha256 and b"5000" in kept
    assert run(command(bench, "audit", "verify")) == 0


def test_ten_drafts_on_one_name_of_an_input_are_a_group_of_what_is_read(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`threegate draft --input data.csv`, ten times with other content: one name, and each content is shown."""
    made = []
    for number in range(10):
        (tmp_path / "data.csv").write_text(f"row {number}\n")
        options = DraftOptions("monty", "Read it.", code="open('/in/data.csv').read()", inputs=(tmp_path / "data.csv",))
        made.append(write_draft(bench.workspace, options, now=datetime.now(UTC)).path)
    (tmp_path / "data.csv").unlink()
    assert {line.together for line in status_lines(bench.workspace)} == {10}
    words = command(bench, "approve", "--group", made[3], "--key", bench.keys["alice"], "--yes")
    assert run(words) == 0
    screen = capfd.readouterr().out
    assert "10 of 10 approved" in screen and all(f"row {number}" in screen for number in range(10))
    for number, path in enumerate(made):
        text = (bench.workspace.approved / path.name).read_text()
        pinned = hashlib.sha256(f"row {number}\n".encode()).hexdigest()
        assert f"sha256: {pinned}" in text.replace('"', "") and "name: data.csv" in text.replace('"', "")
        assert (bench.workspace.inputs / pinned).read_text() == f"row {number}\n"


def test_a_second_file_of_the_name_voids_no_approval_that_waits(bench: Bench, tmp_path: Path) -> None:
    bench.settings(approval__quorum__low=2, approval__quorum__medium=2)
    bob = bench.operator("bob")

    def draft(text: str) -> Path:
        (tmp_path / "data.csv").write_text(text)
        options = DraftOptions("monty", "Read it.", code="open('/in/data.csv').read()", inputs=(tmp_path / "data.csv",))
        return write_draft(bench.workspace, options, now=datetime.now(UTC)).path

    first = bench.approve(draft("one"))
    assert first.waits_for_quorum
    second = draft("two")
    assert run(command(bench, "approve", first.path.name, "--as", "bob", "--key", bob, "--yes")) == 0
    assert all(check.ok for check in verify_approval(bench.context, first.path))
    assert bench.approve(second).waits_for_quorum


def test_every_line_that_is_signed_is_in_the_full_draft_or_in_the_table(bench: Bench) -> None:
    """But for digests of what is there, and where a value is in a longer text of which the rest is the same."""
    paths = drafts(bench, [3, 40])
    for path, data in zip(paths, (b"1\n", b"20\n21\n"), strict=True):
        digest = hashlib.sha256(data).hexdigest()
        (bench.workspace.files / digest).write_bytes(data)
        text = path.read_text().replace("---\n## Code", f"inputs:\n  - name: d.csv\n    sha256: {digest}\n---\n## Code")
        text = text.replace("## Output Expectations\n\nnone", f"## Output Expectations\n\n- /out/{len(data)}.csv")
        path.write_text(text)
    with open_group(bench.context, read_draft(bench.workspace, paths[0])) as group:
        screen = render_group(group.members, group.left_out, bench.context.policy.settings, operator="alice", width=200)
        texts = [one.shown.decode().splitlines() for one in seal_group(bench.context, group, "alice").sealed]
    whole = "\n".join(screen)
    differing = [line for line in texts[1] if line not in texts[0]]
    assert len(differing) == 10
    for line in differing:
        label, _, value = line.partition("|")
        if label.strip() in ("job", "digest of") or line.startswith("  job"):
            continue
        if line.startswith("  created"):
            value = line.split()[-1]
        wanted = '"n = 40' if '{"n": 40}' in value else value.strip()
        assert wanted.strip('"') in whole, line


def test_the_answer_as_json(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    paths = drafts(bench, [1, 2, 3])
    paths[2].write_text(paths[2].read_text().replace("req-2", "req-1"))
    words = command(bench, "--json", "approve", "--group", paths[0], "--key", bench.keys["alice"], "--yes")
    assert run(words) == 0
    told = json.loads(capfd.readouterr().out)
    assert [item["request_id"] for item in told["members"]] == ["req-0", "req-1"]
    assert told["left_out"][0]["file"] == paths[2].name and not told["daemon_runs"]


def test_plain_ssh_keygen_checks_a_member(bench: Bench, tmp_path: Path) -> None:
    paths = drafts(bench, [1, 2])
    assert run(command(bench, "approve", "--group", paths[0], "--key", bench.keys["alice"], "--yes")) == 0
    line, _, armor = (bench.workspace.approved / f"{paths[1].name}.sig").read_bytes().partition(b"\n")
    (tmp_path / "armor").write_bytes(armor)
    verify = ["ssh-keygen", "-Y", "verify", "-n", "threegate-approval", "-I", "alice", "-f",
              str(bench.workspace.operators_file), "-s", str(tmp_path / "armor")]  # fmt: skip
    assert subprocess.run(verify, input=line, capture_output=True, timeout=60).returncode == 0
    assert subprocess.run(verify, input=line + b" ", capture_output=True, timeout=60).returncode != 0
    digest = hashlib.sha256((bench.workspace.approved / paths[1].name).read_bytes()).hexdigest()
    assert f'"request_sha256":"{digest}"'.encode() in line


def test_what_does_not_go_with_a_group(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    (path,) = drafts(bench, [1])
    key = bench.keys["alice"]
    assert run(command(bench, "approve", "--group", path, "--key", key, "--yes")) == 2
    assert "no other draft" in capfd.readouterr().err
    assert run(command(bench, "approve", "--group", path, "--print-statement", "--as", "alice")) == 64
    assert run(command(bench, "approve", "--group", path, "--signature", "x.sig")) == 64
    path.write_text("no request")
    assert run(command(bench, "approve", "--group", path, "--key", key, "--yes")) == 2


def test_a_draft_made_from_a_proposal_is_of_no_group(bench: Bench) -> None:
    proposal = bench.workspace.drafts / "TR-20260101-000000Z-p.md"
    bench.workspace.drafts.mkdir(exist_ok=True)
    proposal.write_bytes(drafts(bench, [1])[0].read_bytes())
    with (
        pytest.raises(InvalidInput, match="not eligible for a group"),
        open_group(bench.context, read_draft(bench.workspace, proposal)),
    ):
        pass


def test_a_failure_in_between_says_what_was_approved(
    bench: Bench, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from threegate.acts import approve_group
    from threegate.core.errors import Refused

    paths = drafts(bench, [1, 2, 3])
    real, calls = approve_group.promote, []

    def promote(*args: object, **changes: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise Refused("input_changed", "somebody changed it")
        return real(*args, **changes)  # type: ignore[arg-type]

    monkeypatch.setattr(approve_group, "promote", promote)
    assert run(command(bench, "approve", "--group", paths[0], "--key", bench.keys["alice"], "--yes")) == 2
    told = capfd.readouterr()
    assert "1 of 3 approved" in told.out and "somebody changed it" in told.err
    assert [path.exists() for path in paths] == [False, True, True]


def test_nothing_foreign_stands_outside_the_bar(bench: Bench) -> None:
    paths = drafts(bench, [1, 2])
    for path, purpose in zip(paths, ("one  | risk low", "== WHAT DIFFERS"), strict=True):
        path.write_text(path.read_text().replace("purpose: Month", f'purpose: "{purpose}" #'))
    with open_group(bench.context, read_draft(bench.workspace, paths[0])) as group:
        for width in (40, 80, 200):
            lines = render_group(
                group.members, [("== REQUEST\n  risk low", "x" * 300)], bench.context.policy.settings,
                operator="alice", width=width,
            )  # fmt: skip
            assert all(len(line) <= width and "\x1b" not in line and "\n" not in line for line in lines)
            assert sum(line.startswith("== WHAT DIFFERS") for line in lines) == 1
            assert sum(line.startswith("== REQUEST") for line in lines) == 1
            joined = "".join(line.partition(GUTTER)[2] for line in lines if GUTTER in line)
            assert "x" * 300 in joined and "WHAT DIFFERS" in joined


def test_lists_say_which_drafts_form_a_group(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    drafts(bench, [1, 2])
    other = bench.draft("other", slug="other", data=None, code="print(7)")
    lines = status_lines(bench.workspace)
    by_name = {line.file: line for line in lines}
    assert by_name.pop(other.name).group == ""
    (told,) = {line.group for line in by_name.values()}
    assert told.endswith("one of 2: decide together with --group")
    for line in lines:
        rows = line_rows(line, now=line.entry.since, width=60)
        assert any("decide together" in row for row in rows) == (line.file != other.name)
    assert run(command(bench, "--json", "status")) == 0
    shown = json.loads(capfd.readouterr().out)["requests"]
    assert sorted(row["group"]["drafts"] if row["group"] else 0 for row in shown) == [0, 2, 2]


def test_many_are_rejected_for_one_reason(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    paths = drafts(bench, [1, 2, 3])
    other = bench.draft("other", slug="other", data=None, code="print(7)")
    assert run(command(bench, "reject", "req-9", paths[0], "--reason", "no")) == 2
    assert paths[0].exists()  # all are found before one is rejected
    assert run(command(bench, "reject", paths[0], "other", paths[0], "--reason", "too many")) == 0
    assert capfd.readouterr().out.count("rejected ") == 2 and not other.exists()
    assert run(command(bench, "--json", "reject", "--group", paths[1], "--reason", "too many")) == 0
    assert [row["request_id"] for row in json.loads(capfd.readouterr().out)] == ["req-1", "req-2"]
    events = [event for event in Trail(bench.workspace).events() if event.type == "rejected"]
    assert len(events) == 4 and {event.data["message"] for event in events} == {"too many"}


def test_a_group_is_countersigned_by_one_signature(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.settings(approval__quorum__low=2)
    bob = bench.operator("bob")
    paths = drafts(bench, [3, 4, 5, 6])
    assert run(command(bench, "approve", "--group", paths[0], "--key", bench.keys["alice"], "--yes")) == 0
    assert capfd.readouterr().out.count("for further operators") == 4
    waiting = [bench.workspace.approved / path.name for path in paths]
    alone = bench.approve(bench.draft("alone", slug="alone")).path
    assert run(command(bench, "approve", waiting[3], "--key", bob, "--yes")) == 0
    words = command(bench, "approve", "--group", waiting[0], "--key", bob)
    assert run(words) == 2
    assert not waiting[0].with_name(f"{waiting[0].name}.sig.bob").exists()
    capfd.readouterr()
    assert run([*words, "--yes"]) == 0
    told = capfd.readouterr().out
    assert "GROUP: 3 DRAFTS" in told and told.count("the quorum is met") == 3
    assert f"{waiting[3].name}: bob has already signed it" in told
    files = [path.with_name(f"{path.name}.sig.bob").read_bytes() for path in waiting]
    assert files[0] == files[1] == files[2] != files[3]
    for path in waiting:
        assert run(command(bench, "audit", "approval", path)) == 0
    assert run(command(bench, "audit", "verify")) == 0
    assert run([*words, "--yes"]) == 2  # nothing is left
    assert run(command(bench, "approve", "--group", alone, "--key", bob, "--yes")) == 2
    assert "no other request of its batch" in capfd.readouterr().err


def test_what_does_not_hold_any_more_is_left_out_of_a_countersignature(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    bench.settings(approval__quorum__low=2)
    bob = bench.operator("bob")
    paths = drafts(bench, [3, 4, 5])
    assert run(command(bench, "approve", "--group", paths[0], "--key", bench.keys["alice"], "--yes")) == 0
    (bench.workspace.approved / paths[1].name).unlink()
    capfd.readouterr()
    words = command(bench, "--json", "approve", "--group", "req-0", "--key", bob, "--yes")
    assert run(words) == 0
    told = capfd.readouterr()
    assert len(json.loads(told.out)) == 2 and f"| {paths[1].name}: " in told.err
