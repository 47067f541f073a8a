"""Commands of two plugins in one group: each is there as long as its own plugin is on, and says why it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from threegate.cli import execute
from threegate.core import plugins

OFF = "(plugins.off in threegate.toml)"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = make_bench(tmp_path)
    monkeypatch.chdir(made.workspace.root)
    return made


def listed(capsys: pytest.CaptureFixture[str], *group: str) -> set[str]:
    """The commands that a group's help shows."""
    assert execute([*group, "--help"]) == 0
    shown = capsys.readouterr().out.partition("Commands:\n")[2]
    return {line.split()[0] for line in shown.splitlines() if line.startswith("  ") and line[2] != " "}


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = execute(list(words))
    return code, capsys.readouterr().err


def test_on(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert {"http", "mcp", "page", "passkeys"} <= listed(capsys, "serve")
    assert "passkey" in listed(capsys, "operator") and "notify" in listed(capsys, "settings")


def test_the_page_is_off(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.settings(plugins__off=("page",))
    assert not {"page", "passkeys"} & listed(capsys, "serve") and {"http", "mcp"} <= listed(capsys, "serve")
    assert "passkey" not in listed(capsys, "operator") and "notify" not in listed(capsys, "settings")
    for words in (("serve", "page"), ("serve", "passkeys"), ("operator", "passkey"), ("settings", "notify")):
        assert said(capsys, *words) == (
            64,
            f"threegate: {' '.join(words)} is a command of the plugin page, which is off {OFF}\n",
        )
    assert said(capsys, "serve", "http", "--no-auth", "--port", "-1")[1].startswith("threegate: Invalid value")


def test_the_servers_are_off_and_the_page_is_not(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.settings(plugins__off=("serve",))
    assert {"page", "passkeys"} <= listed(capsys, "serve") and not {"http", "mcp"} & listed(capsys, "serve")
    off = (64, f"threegate: serve is a command of the plugin serve, which is off {OFF}\n")
    assert said(capsys, "serve", "http") == off
    assert said(capsys, "serve", "passkeys")[1].startswith("threegate: set passkey_origin")
    code, line = said(capsys, "agent", "connect", "codex")
    assert (code, line) == (3, f"threegate: an agent needs the plugin serve, which is off {OFF}\n")


def test_all_of_a_noun_is_off(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.settings(plugins__off=("serve", "page", "cluster", "evidence"))
    assert execute(["--help"]) == 0 and "  serve " not in capsys.readouterr().out
    assert said(capsys, "serve", "passkeys")[0] == said(capsys, "serve")[0] == said(capsys, "serve", "--help")[0] == 64
    off = f"threegate: serve passkeys is a command of the plugin page, which is off {OFF}\n"
    assert said(capsys, "settings", "notify")[1] == off.replace("serve passkeys", "settings notify")


def test_the_servers_are_absent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = plugins.Plugin.has_code
    monkeypatch.setattr(plugins.Plugin, "has_code", lambda plugin: plugin.name != "serve" and real(plugin))
    assert listed(capsys, "serve") == {"worker"} and "passkey" not in listed(capsys, "operator")
    gone = "the plugin serve is not part of this installation"
    assert said(capsys, "serve", "http") == (3, f"threegate: {gone}\n")
    assert said(capsys, "serve", "page") == (3, f"threegate: the plugin page needs another one, and {gone}\n")
    assert said(capsys, "agent", "connect", "codex") == (3, f"threegate: an agent needs the plugin serve: {gone}\n")
