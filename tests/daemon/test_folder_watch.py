"""Hints of the file system: they wake, and the library behind them never speaks to the terminal."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

import pytest

from threegate.daemon.folder_watch import FolderWatch


def test_a_name_that_changes_wakes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wake = threading.Event()
    watch = FolderWatch([tmp_path], wake)
    assert watch.problem is None
    (tmp_path / "TR-a.md").write_text("x")
    assert wake.wait(10)
    logging.getLogger("watchdog.observers.inotify").error("called when the thread is inactive")
    watch.close()
    assert capfd.readouterr() == ("", "")


def test_what_only_reads_a_folder_wakes_nobody(tmp_path: Path) -> None:
    (tmp_path / "TR-a.md").write_text("x")
    wake = threading.Event()
    watch = FolderWatch([tmp_path], wake)
    assert os.listdir(tmp_path) == ["TR-a.md"] and (tmp_path / "TR-a.md").read_text() == "x"
    assert not wake.wait(0.2)  # hints come within milliseconds
    (tmp_path / "TR-a.md").rename(tmp_path / "TR-b.md")
    assert wake.wait(10)
    watch.close()


def test_a_folder_that_is_not_there_is_a_problem_and_no_end(tmp_path: Path) -> None:
    watch = FolderWatch([tmp_path / "gone"], threading.Event())
    assert watch.problem is not None and "checking once a second" in watch.problem
    watch.close()
