"""Anything can be in the inbox; the daemon never follows, never blocks, never crashes, and goes on."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from pathlib import Path

import pytest

from tests.support import Place, make_place, monty_draft, request_id, wait_until


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def test_everything_that_is_no_request(place: Place, tmp_path: Path) -> None:
    inbox = place.root / "inbox"
    secret = tmp_path / "secret.md"
    secret.write_text("CANARY-outside")
    (inbox / "TR-folder.md").mkdir()
    (inbox / "TR-link.md").symlink_to(secret)
    (inbox / "TR-dangling.md").symlink_to(tmp_path / "nothing")
    (inbox / "TR-loop.md").symlink_to(inbox / "TR-loop.md")
    os.mkfifo(inbox / "TR-fifo.md")
    with open(inbox / "TR-huge.md", "wb") as huge:
        huge.truncate(4 * 1024**3)
    (inbox / "TR-binary.md").write_bytes(os.urandom(4096))
    (inbox / "TR-empty.md").write_bytes(b"")
    (inbox / "TR-new\nline.md").write_text("x")
    (inbox / "TR-\x1b[2Jclear.md").write_text("x")
    (inbox / os.fsdecode(b"TR-\xff\xfe.md")).write_text("x")
    (inbox / "TR-\u202egnp.md").write_text("x")
    os.link(secret, inbox / "TR-hard.md")
    (inbox / "readme.txt").write_text("x")
    (inbox / "AP-x.json").write_text("{")
    (inbox / "TR-noread.md").write_text("x")
    (inbox / "TR-noread.md").chmod(0)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(inbox / "TR-socket.md"))
        if os.geteuid() == 0:
            os.mknod(inbox / "TR-null.md", 0o20666, os.makedev(1, 3))
            os.mknod(inbox / "TR-zero.md", 0o20666, os.makedev(1, 5))
        good = place.drop(monty_draft(request_id("good"), "1"))
        done = place.once()
    assert place.verdict(good.name)["state"] == "draft"
    assert "CANARY" not in done.err + done.out
    assert "\x1b" not in done.err
    trail = (place.root / "tool-exec" / "audit" / "trail.jsonl").read_bytes()
    assert b"CANARY" not in trail
    assert b"\x1b" not in trail
    for name in (
        "TR-folder.md",
        "TR-link.md",
        "TR-fifo.md",
        "TR-huge.md",
        "TR-hard.md",
        "TR-binary.md",
        "TR-empty.md",
    ):
        verdict = place.verdict(name)
        assert (verdict["state"], verdict["valid"]) == ("invalid", False), name
        assert sum(1 for line in done.err.splitlines() if name in line) == 1, name
    for path in (place.root / "tool-exec" / "verdicts").iterdir():
        assert "CANARY" not in path.read_text()
    before = len(place.events())
    place.once()
    assert len(place.events()) <= before + len(os.listdir(inbox)), "a second look says nothing twice within one life"
    place.run("audit", "verify", expect=0)


def test_a_file_that_changes_while_it_is_read(place: Place) -> None:
    rid = request_id("moving")
    texts = [monty_draft(rid, f"{number} + 1") + "\n" * number for number in (1, 2)]
    end = monty_draft(rid, "3 + 1")  # written once, so its verdict is the last one
    path = place.root / "inbox" / f"{rid}.md"
    path.write_text(texts[0])
    last = hashlib.sha256(end.encode()).hexdigest()
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            path.write_text(texts[number % 2])

    daemon = place.daemon()
    writer = threading.Thread(target=write)
    writer.start()
    place.wait_for(f"verdicts/{path.name}.json")
    read: set[str] = set()
    wait_until(lambda: read.add(place.verdict(path.name)["sha256"]) or len(read) > 1, "a second look")
    stop.set()
    writer.join()
    path.write_text(end)
    wait_until(lambda: place.verdict(path.name)["sha256"] == last, lambda: place.verdict(path.name))
    daemon.terminate()
    _, err = daemon.communicate(timeout=20)
    assert daemon.returncode == 0
    assert b"Traceback" not in err
    assert place.verdict(path.name)["valid"]


def test_a_draft_that_is_swapped_for_a_link_at_approval(place: Place, tmp_path: Path) -> None:
    rid = request_id("swap")
    outside = tmp_path / "outside.md"
    outside.write_text(monty_draft(rid, "1"))
    (place.root / "inbox" / f"{rid}.md").symlink_to(outside)
    done = place.run("approve", str(place.root / "inbox" / f"{rid}.md"), "--key", str(place.key), "--yes")
    assert done.code == 2
    assert place.events("approved") == []
    assert outside.exists()
