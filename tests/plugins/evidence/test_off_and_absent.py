"""Evidence that is off or absent: no command, no witness asked, no number written; what was recorded stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.evidence.test_evidence_settings import WITNESS
from tests.whole.trail.everything import cosign_newest
from threegate.audit.audit_verify import verify_workspace
from threegate.audit.trail_checkpoints import write_trail_checkpoint
from threegate.cli import execute
from threegate.core import plugins
from threegate.core.plugins import PLUGINS, Plugin
from threegate.core.settings import Settings, parse_settings
from threegate.daemon.log import Log
from threegate.daemon.loop import run_daemon
from threegate.plugins.evidence.section import MetricsSettings, WitnessSettings
from threegate.trail.event import plugin_kinds

COMMANDS = (("audit", "pack"), ("serve", "witness"), ("audit", "export"), ("audit", "report"))
OFFICE = f"[witnesses.office]\nurl = 'http://127.0.0.1:1'\nkey = '{WITNESS}'\n"
SECTIONS = f"{OFFICE}[metrics]\ntextfile = '/srv/gate.prom'\n"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = make_bench(tmp_path)
    monkeypatch.chdir(made.workspace.root)
    return made


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its folder is deleted: its entry of the list is still there."""
    entry = next(plugin for plugin in PLUGINS if plugin.name == "evidence")
    others = tuple(plugin for plugin in PLUGINS if plugin is not entry)
    gone = type("Gone", (Plugin,), {"has_code": lambda self: False, "__slots__": ()})
    monkeypatch.setattr(plugins, "PLUGINS", (*others, gone(entry.name, entry.says, offers=entry.offers)))
    plugin_kinds.cache_clear()
    yield
    plugin_kinds.cache_clear()


def signed(bench: Bench) -> None:
    with bench.context.trail.locked() as held:
        write_trail_checkpoint(held, actor="me")


def listed(capsys: pytest.CaptureFixture[str], *group: str) -> set[str]:
    """The commands that a group's help shows."""
    assert execute([*group, "--help"]) == 0
    return {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ") and line.strip()}


def test_its_commands_are_there_while_it_is_on(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert "witness" in listed(capsys, "serve") and {"pack", "export", "report", "verify"} <= listed(capsys, "audit")
    bench.settings(plugins__off=("evidence",))
    assert "witness" not in listed(capsys, "serve")
    assert not {"pack", "export", "report"} & listed(capsys, "audit") and "verify" in listed(capsys, "audit")
    for words in COMMANDS:
        assert execute(list(words)) == 64
        assert capsys.readouterr().err == (
            f"threegate: {' '.join(words)} is a command of the plugin evidence, which is off "
            "(plugins.off in threegate.toml)\n"
        )
    assert execute(["audit", "verify"]) == 0


def test_a_missing_folder_takes_its_commands_along(
    bench: Bench, absent: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "witness" not in listed(capsys, "serve") and not {"pack", "export", "report"} & listed(capsys, "audit")
    assert execute(["audit", "export"]) == 3
    assert capsys.readouterr().err == "threegate: the plugin evidence is not part of this installation\n"
    assert execute(["audit", "verify"]) == 0


def test_on_off_and_absent_make_one_policy() -> None:
    off = parse_settings(f"{SECTIONS}[plugins]\noff = ['evidence']\n".encode())
    assert parse_settings(SECTIONS.encode()).deciding() == off.deciding() == Settings().deciding()


def test_the_sections_of_an_absent_one_are_warnings(
    bench: Bench, absent: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (bench.workspace.root / "other.toml").write_text(SECTIONS)
    assert execute(["settings", "check", "other.toml"]) == 0
    gone = "is not read: the plugin evidence is not part of this installation"
    assert capsys.readouterr().err == f"threegate: [witnesses] {gone}\nthreegate: [metrics] {gone}\n"
    settings = parse_settings(SECTIONS.encode())
    assert settings.deciding() == Settings().deciding()
    assert settings.section(WitnessSettings) == WitnessSettings()
    assert settings.section(MetricsSettings) == MetricsSettings()


def test_what_a_witness_answered_is_verified_without_the_plugin(
    bench: Bench, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    signed(bench)
    path = cosign_newest(bench.workspace)
    request.getfixturevalue("absent")
    assert "witnessed" not in plugin_kinds()
    assert verify_workspace(bench.workspace).ok
    assert execute(["audit", "show"]) == 0
    assert "recorded witnessed, a kind of event that is not known here" in capsys.readouterr().out
    path.write_text("another")
    assert [item.place for item in verify_workspace(bench.workspace).problems] == [str(path)]


@pytest.mark.parametrize("off", [True, False])
def test_a_daemon_completes_what_was_left_and_asks_and_writes_only_while_it_is_on(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str], off: bool
) -> None:
    signed(bench)
    path = cosign_newest(bench.workspace)
    good = path.read_bytes()
    path.unlink()
    signed(bench)
    numbers = tmp_path / "gate.prom"
    with bench.workspace.settings_file.open("a") as file:
        file.write(f"\n{OFFICE}")  # where nobody answers
    bench.settings(metrics__textfile=str(numbers), plugins__off=("evidence",) if off else ())
    assert run_daemon(bench.workspace, once=True, log=Log()) == 0
    assert path.read_bytes() == good and numbers.exists() is not off
    assert ("office: it cannot be reached" in capfd.readouterr().err) is not off


def test_numbers_are_written_while_launches_are_stopped(bench: Bench, tmp_path: Path) -> None:
    bench.settings(metrics__textfile=str(tmp_path / "gate.prom"))
    signed(bench)
    lines = bench.workspace.trail_file.read_bytes().splitlines(keepends=True)
    bench.workspace.trail_file.write_bytes(b"".join(lines[:-1]))
    assert run_daemon(bench.workspace, once=True, log=Log(quiet=True)) == 3
    assert b"threegate_daemon_running 0.0" in (tmp_path / "gate.prom").read_bytes()
