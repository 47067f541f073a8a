"""Opacity and reach are on the review screen, in `show`, `status`, `validate` and the verdict, and nobody can miss
them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from threegate.approval.shown.request_sections import job_exposure
from threegate.cli import execute as run
from threegate.core import limits
from threegate.launch.results.verdict import read_verdict
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft
from threegate.review.screen import render_reviewed_draft

SCRIPT = b"print(1)\n"


def era(bench: Bench, command: str, *, script: bytes = SCRIPT, extra: str = "") -> Path:
    """An ERA draft with the input a.py."""
    path = bench.draft(data=None)
    (bench.workspace.files / "a.py").write_bytes(script)
    front, _, body = path.read_text().partition("---\n## Code")
    _, _, rest = body.partition("```\n\n")
    network = extra or "network: none\n"
    front = front.replace("backend: monty\n", "backend: ERA\n").replace("network: none\n", network)
    inputs = f"inputs:\n  - name: a.py\n    sha256: {hashlib.sha256(script).hexdigest()}\n"
    if extra:
        rest = f"{rest}- Network rationale: the rates are there\n"
    path.write_text(f"{front}{inputs}---\n## Command\n\n{command}\n\n## Input Files\n\n- /in/a.py\n\n{rest}")
    return path


def screen(bench: Bench, path: Path) -> str:
    context = bench.context
    with open_reviewed_draft(context, read_draft(bench.workspace, path)) as reviewed:
        lines = render_reviewed_draft(reviewed, context.policy.settings, operator="alice", width=200)
    return "\n".join(lines)


def test_both_facts_are_in_the_first_lines_of_the_review_screen(bench: Bench) -> None:
    first, _, rest = screen(bench, era(bench, "python3 a.py")).partition("== WHAT RUNS\n")
    labels = [line[2:15].strip() for line in first.split("\n") if line.startswith("  ")]
    assert labels[:2] == ["reach", "opacity"] and "risk" in labels
    assert "transparent, once you have read whole:" in first and "/in/a.py" in first
    assert "TG332" not in first + rest


def test_an_opaque_request_is_warned_about_with_its_reason(bench: Bench) -> None:
    first = screen(bench, era(bench, "awk '{print}' /in/a.py")).partition("== WHAT RUNS")[0]
    assert "opaque: code may run that is not on the screen" in first and "awk is not a data tool" in first
    assert "TG332" in first
    assert "medium, declared low: not all code is on the screen" in first


def test_an_opaque_request_with_a_network_is_of_high_risk(bench: Bench) -> None:
    allowed = "network: allowlist\nnetwork_allowlist:\n  - api.example.com\n"
    shown = screen(bench, era(bench, "python3 -c 'print(1)'", extra=allowed))
    assert "network api.example.com:443" in shown and "high, declared low" in shown
    assert "high, declared low: code that is not on the screen can reach out" in shown


def test_a_script_that_no_screen_shows_whole_is_opaque_on_the_screen(bench: Bench) -> None:
    for script in (b"#" * (limits.SHOWN_BYTES + 1), b"print(1)\n\xff", b"print(1)\nPK\x05\x06"):
        first = screen(bench, era(bench, "python3 a.py", script=script)).partition("== WHAT RUNS")[0]
        assert "opaque: code may run that is not on the screen" in first
        assert "medium, declared low: not all code is on the screen" in first


def test_a_secret_of_the_proxy_is_part_of_the_reach(bench: Bench) -> None:
    with open_reviewed_draft(bench.context, read_draft(bench.workspace, bench.draft())) as reviewed:
        job = replace(reviewed.job, tool="github.issue_create_approved", proposal_sha256="0" * 64)
        assert job_exposure(reviewed.request, job).reach == ("secret github",)
        assert job_exposure(reviewed.request, replace(job, proposal_sha256=None)).reach == ()


def test_commands_for_programs_carry_both_facts(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    path = era(bench, "timeout 5 sort /in/a.py")
    expected = {
        "opacity": "opaque", "opacity_reason": "timeout is not a data tool", "scripts": [], "reach": [],
    }  # fmt: skip
    where = ["--workspace", str(bench.workspace.root)]
    capsys.readouterr()
    run([*where, "validate", str(path), "--format", "json"])
    assert json.loads(capsys.readouterr().out)["files"][0].items() >= expected.items()
    run([*where, "show", str(path), "--json"])
    assert json.loads(capsys.readouterr().out).items() >= expected.items()
    run([*where, "show", str(path)])
    text = capsys.readouterr().out
    assert "opacity   opaque (timeout is not a data tool)" in text and "reach     nothing" in text


def test_the_verdict_of_an_approved_request_and_its_status_keep_both_facts(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    done = bench.approve(bench.draft())
    verdict = read_verdict(bench.workspace, done.path.name)
    assert verdict is not None and verdict.exposure is not None
    assert verdict.exposure.opacity == "transparent"
    capsys.readouterr()
    run(["--workspace", str(bench.workspace.root), "status", "--json"])
    text = capsys.readouterr().out
    assert '"opacity": "transparent"' in text and '"reach": []' in text
