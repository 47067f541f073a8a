"""Every command has a help that can be shown, whatever brackets are in it."""

from __future__ import annotations

import pytest

from threegate.cli import COMMANDS, execute


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_can_be_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([name, "--help"]) == 0
    shown = capsys.readouterr()
    assert "Usage: threegate" in shown.out and shown.err == ""


def test_brackets_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["worker", "--help"]) == 0
    assert "HOST[:PORT][/VHOST]" in "".join(capsys.readouterr().out.split())
