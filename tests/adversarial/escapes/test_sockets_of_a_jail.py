"""The socket that serves a jail: nobody else may connect to it, and making it changes nothing for other threads."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from threegate.runners.jail.jail import Account
from threegate.runners.jail.side_process import listen


def test_a_socket_never_has_another_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can connect before the jailed account owns it, whatever the umask is."""
    seen: list[int] = []
    before = os.umask(0)
    monkeypatch.setattr(os, "chown", lambda *_, **__: seen.append((tmp_path / "s").stat().st_mode))
    try:
        listen(tmp_path / "s", Account.own()).close()
    finally:
        os.umask(before)
    assert [stat.S_IMODE(mode) for mode in seen] == [0o600]


def test_folders_that_another_thread_makes_meanwhile_can_be_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The umask is the whole process's: the folder of another request's run had no x in that moment."""
    monkeypatch.setattr(os, "chown", lambda *_, **__: (tmp_path / "run").mkdir(0o700))
    listen(tmp_path / "s", Account.own()).close()
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
