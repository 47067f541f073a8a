"""What commands take and say: ids everywhere, and nothing about a request that is not so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from tests.support import era_draft
from threegate.cli import execute as run


def root(bench: Bench) -> list[str]:
    return ["--workspace", str(bench.workspace.root)]


def signed(bench: Bench, *words: str, name: str = "alice") -> int:
    return run([*root(bench), *words, "--as", name, "--key", str(bench.keys[name]), "--yes"])


@pytest.mark.parametrize("by", ["id", "name", "stem", "path"])
def test_approve_takes_an_id_a_name_or_a_path(
    bench: Bench, by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = bench.draft()
    bench.draft("req-2", slug="other")
    monkeypatch.chdir(tmp_path)
    which = {"id": "req-1", "name": path.name, "stem": path.stem, "path": str(path)}[by]
    assert signed(bench, "approve", which) == 0
    assert [item.name for item in bench.workspace.approved.glob("*.md")] == [path.name]


def test_reject_and_countersign_take_an_id(bench: Bench) -> None:
    bench.operator("bob")
    bench.settings(approval__quorum__low=2)
    bench.draft()
    assert signed(bench, "approve", "req-1") == 0
    assert signed(bench, "approve", "req-1", name="bob") == 0
    path = bench.draft("req-2", slug="other")
    assert run([*root(bench), "reject", "req-2"]) == 0
    assert not path.exists()


def test_reject_and_cancel_say_which_request_a_beginning_named(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.draft("report-of-march", slug="sum")
    capfd.readouterr()
    assert run([*root(bench), "reject", "report-of"]) == 0
    assert "(report-of-march)" in capfd.readouterr().out
    bench.approve(bench.draft("report-of-april", slug="other"))
    assert run([*root(bench), "cancel", "report-of-ap"]) == 0
    assert capfd.readouterr().out.startswith("cancelled report-of-april: ")


def test_an_id_that_two_drafts_name_is_no_name(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.draft("req-1")
    bench.draft("req-1", slug="other")
    (bench.workspace.inbox / "TR-20260101-000000Z-x.md").symlink_to("/etc/passwd")
    assert signed(bench, "approve", "req-1") == 2
    assert "req-1: names 2 requests: " in capfd.readouterr().err
    assert signed(bench, "approve", "nothing-of-that-name") == 2


def test_show_names_the_network(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.draft()
    path = next(bench.workspace.inbox.glob("TR-*.md"))
    assert run([*root(bench), "show", str(path)]) == 0
    assert "network   none" in capfd.readouterr().out
    assert run([*root(bench), "--json", "show", str(path)]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert (shown["network"], shown["network_allowlist"]) == ("none", [])


@pytest.mark.parametrize("width", [40, 80])
def test_show_wraps_at_the_terminals_width(
    bench: Bench, width: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No word of the agent, and no reason that names what it wrote, begins a row."""
    monkeypatch.setattr("threegate.cli.show_command.screen_width", lambda: width)
    words = ("== WARNINGS (0) " * 20).strip()
    draft = era_draft("TR-20260102-030405Z-wide", f"python3 -c '{'pass;' * 60}'")
    path = bench.workspace.inbox / "TR-20260102-030405Z-wide.md"
    purpose = next(line for line in draft.splitlines() if line.startswith("purpose:"))
    path.write_text(draft.replace(purpose, f"purpose: '{words}'"))
    assert run([*root(bench), "show", path.name]) == 0
    lines = capfd.readouterr().out.splitlines()
    ours = [line for line in lines if not line.startswith(("file ", "result "))]
    assert max(map(len, ours)) <= width
    heads = {line[:10].strip() for line in ours}
    assert {"purpose", "argv", "opacity", "reach", "warning", ""} <= heads
    odd = [line for line in ours if line[:10].strip() and "WARNINGS" in line and "purpose" not in line[:10]]
    assert odd == ["== WARNINGS"], "the heading of the card, once"


def test_init_calls_a_key_new_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    made = []
    for name in ("one", "two"):
        assert run(["--json", "init", str(tmp_path / name)]) == 0
        made.append(json.loads(capfd.readouterr().out))
    assert made[0]["new_key"] == str(tmp_path / "config" / "threegate" / "operator_ed25519")
    assert made[1]["new_key"] is None and made[1]["key"] == made[0]["key"]
