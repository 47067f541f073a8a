"""validate of a draft in the inbox and the daemon say the same about its input files, and no digest."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.acts.bench_workspace import DATA, Bench, once
from tests.conftest import slow
from threegate.cli import execute as run


def rules_of(bench: Bench, path: Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    capfd.readouterr()
    code = run(["--workspace", str(bench.workspace.root), "--json", "validate", str(path)])
    said = capfd.readouterr().out
    found = json.loads(said)
    reports = found if isinstance(found, list) else found.get("reports", found.get("files", [found]))
    return code, [item["rule"] for report in reports for item in report["findings"]]


def verdict_of(bench: Bench, path: Path) -> list[str]:
    once(bench)
    verdict = json.loads((bench.workspace.verdicts / f"{path.name}.json").read_text())
    return [item["rule"] for item in verdict["findings"] if item["severity"] == "error"]


@pytest.mark.parametrize("case", ["right", slow("missing"), "other", slow("link"), slow("folder")])
@pytest.mark.slow
def test_validate_and_the_daemon_agree(bench: Bench, case: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = bench.draft()
    place = bench.workspace.files / "data.csv"
    secret = bench.workspace.root.parent / "secret"
    secret.write_bytes(b"1234")
    if case != "right":
        place.unlink()
    if case == "other":
        place.write_bytes(b"changed")
    elif case == "link":
        os.symlink(secret, place)
    elif case == "folder":
        place.mkdir()
    expected = {"right": [], "other": ["TG903"]}.get(case, ["TG902"])
    assert rules_of(bench, path, capfd) == (2 if expected else 0, expected)
    assert verdict_of(bench, path) == expected
    assert run(["--workspace", str(bench.workspace.root), "validate", str(path)]) == (2 if expected else 0)
    said = capfd.readouterr()
    for data in (b"1234", b"changed", DATA):
        assert hashlib.sha256(data).hexdigest() not in said.out + said.err


@pytest.mark.parametrize("case", ["right", slow("missing"), slow("other"), slow("link")])
def test_validate_and_the_daemon_agree_on_drafts_of_proposals(
    bench: Bench, case: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Their inputs are beside them, named by digest; what is in the inbox is not theirs."""
    made = bench.draft()
    path = made.rename(bench.workspace.drafts / made.name)
    place = bench.workspace.draft_files / hashlib.sha256(DATA).hexdigest()
    place.parent.mkdir(exist_ok=True)
    if case == "link":
        os.symlink(bench.workspace.files / "data.csv", place)
    elif case != "missing":
        place.write_bytes(DATA if case == "right" else b"changed")
    expected = {"right": [], "other": ["TG903"]}.get(case, ["TG902"])
    assert rules_of(bench, path, capfd) == (2 if expected else 0, expected)
    assert verdict_of(bench, path) == expected


def test_a_linked_folder_is_not_followed(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    path = bench.draft()
    bench.workspace.files.rename(bench.workspace.root / "away")
    bench.workspace.files.symlink_to(bench.workspace.root / "away")
    assert rules_of(bench, path, capfd) == (2, ["TG902"])


def test_outside_of_a_workspace_only_the_file_is_read(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = bench.draft()
    other = tmp_path / "inbox" / path.name
    other.parent.mkdir()
    other.write_bytes(path.read_bytes())
    assert rules_of(bench, other, capfd) == (0, [])
