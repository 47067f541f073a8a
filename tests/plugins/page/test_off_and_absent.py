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
    assert listed(capsys, "serve") == {"http", "mcp", "approve"}
    assert "passkey" in listed(capsys, "operator") and {"serve", "page"} <= listed(capsys)


def test_the_page_is_off(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.settings(plugins__off=("page",))
    assert listed(capsys, "serve") == {"http", "mcp"}
    assert "passkey" not in listed(capsys, "operator") and "page" not in listed(capsys)
    for words in (("page",), ("serve", "approve"), ("operator", "passkey")):
        assert said(capsys, *words) == (
            64,
            f"threegate: {' '.join(words)} is a command of the plugin page, which is off {OFF}\n",
        )
    assert said(capsys, "serve", "http", "--no-auth", "--port", "-1")[1].startswith("threegate: Invalid value")


def test_the_servers_are_off_and_the_page_is_not(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.settings(plugins__off=("serve",))
    assert listed(capsys, "serve") == {"approve"} and {"serve", "page"} <= listed(capsys)
    off = (64, f"threegate: serve is a command of the plugin serve, which is off {OFF}\n")
    assert said(capsys, "serve", "http") == off
    assert said(capsys, "serve", "approve")[1].startswith("threegate: set passkey_origin")
    code, line = said(capsys, "agent", "connect", "codex")
    assert (code, line) == (3, f"threegate: an agent needs the plugin serve, which is off {OFF}\n")


def test_both_are_off(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.settings(plugins__off=("serve", "page"))
    assert not {"serve", "page"} & listed(capsys)
    assert said(capsys, "serve", "approve") == (
        64,
        f"threegate: serve is a command of the plugin serve, which is off {OFF}\n",
    )


def test_the_servers_are_absent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = plugins.Plugin.has_code
    monkeypatch.setattr(plugins.Plugin, "has_code", lambda plugin: plugin.name != "serve" and real(plugin))
    assert not {"serve", "page"} & listed(capsys) and "passkey" not in listed(capsys, "operator")
    gone = "the plugin serve is not part of this installation"
    assert said(capsys, "serve", "http") == (64, "threegate: No such command 'serve'. (see: threegate --help)\n")
    assert said(capsys, "page") == (3, f"threegate: the plugin page needs another one, and {gone}\n")
    assert said(capsys, "agent", "connect", "codex") == (3, f"threegate: an agent needs the plugin serve: {gone}\n")
