"""The queue is read while threads and people take files out of it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from threegate.daemon.dispatcher import _queue


def test_files_that_go_while_the_queue_is_read(tmp_path: Path) -> None:
    away = tmp_path / "away"
    folder = tmp_path / "approved"
    away.mkdir()
    folder.mkdir()
    for number in range(20):
        (folder / f"TR-stays-{number}.md").write_text("x")
    stop = threading.Event()

    def claim() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            path = folder / f"TR-{number % 50}.md"
            path.write_text("x")
            os.rename(path, away / path.name)

    thread = threading.Thread(target=claim)
    thread.start()
    try:
        for _ in range(2000):
            names = [path.name for path, _ in _queue(folder)]
            assert sum(name.startswith("TR-stays-") for name in names) == 20
    finally:
        stop.set()
        thread.join()
