"""The queue is read while threads and people take files out of it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from tests.support import wait_until
from threegate.daemon import dispatcher
from threegate.daemon.dispatcher import ApprovedQueue, QueuedFile


def look(queue: ApprovedQueue, *, fresh: bool = False) -> list[QueuedFile]:
    queue.look(fresh=fresh)
    return queue.waiting


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
    queue = ApprovedQueue(folder)
    try:
        for _ in range(2000):
            names = [item.name for item in look(queue, fresh=True)]
            assert sum(name.startswith("TR-stays-") for name in names) == 20
    finally:
        stop.set()
        thread.join()


def write(path: Path, text: str, when: int) -> None:
    path.write_text(text)
    os.utime(path, (when, when))


def test_the_order_the_hint_and_what_tells_a_changed_file(tmp_path: Path) -> None:
    write(tmp_path / "TR-b.md", "---\nbackend: ERA\n---\n", 100)
    write(tmp_path / "TR-a.md", "---\nbackend: monty\n---\nbackend: ERA\n", 200)
    write(tmp_path / "TR-c.md", "no request", 150)
    write(tmp_path / ".TR-d.md", "---\nbackend: ERA\n---\n", 50)
    (tmp_path / "TR-e.md").symlink_to("/dev/null")
    queue = ApprovedQueue(tmp_path)
    first = look(queue)
    assert [(item.name, item.backend) for item in first][:3] == [
        ("TR-b.md", "ERA"), ("TR-c.md", None), ("TR-a.md", "monty"),
    ]  # fmt: skip
    assert [item.backend for item in first[3:]] == [None]
    write(tmp_path / "TR-b.md.sig", "signed", 300)
    write(tmp_path / "TR-c.md", "---\nbackend: ERA\n", 150)
    second = {item.name: item for item in look(queue)}
    assert (first[0].signatures, second["TR-b.md"].signatures) == ((), ("TR-b.md.sig",))
    changed = [item.name for item in first if second[item.name].identity != item.identity]
    assert changed == ["TR-b.md", "TR-c.md"] and second["TR-c.md"].backend == "ERA"


def test_a_long_queue_is_listed_now_and_then_and_never_missed(tmp_path: Path) -> None:
    for number in range(dispatcher.LONG_QUEUE + 1):
        write(tmp_path / f"TR-{number:03d}.md", "x", number)
    queue = ApprovedQueue(tmp_path)
    listed = look(queue)
    write(tmp_path / "TR-new.md", "x", 1000)
    assert look(queue) == listed and not queue.look(fresh=False)
    queue.taken("TR-000.md")
    assert look(queue) == listed[1:], "what was started is not given out again"
    assert [item.name for item in look(queue, fresh=True)][-1] == "TR-new.md" and queue.backends == {None}
    write(tmp_path / "TR-newer.md", "x", 2000)
    wait_until(lambda: look(queue)[-1].name == "TR-newer.md", "the next listing", 4)
