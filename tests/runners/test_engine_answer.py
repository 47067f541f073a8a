"""Whether the engine answers is asked in one small question, and every wrong answer is a line."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from threegate.runners.era import engine_answer
from threegate.runners.era.engine_answer import engine_line


@contextmanager
def engine(path: Path, answer: bytes | None) -> Iterator[str]:
    """A socket that answers one question so; None: it takes the question and says nothing."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)
    done = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(4096).startswith(b"GET /version HTTP/1.0\r\n")
            if answer is None:
                done.wait(30)
            else:
                connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"unix://{path}"
    finally:
        done.set()
        thread.join(30)
        listener.close()


def said(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def test_an_engine_that_answers(tmp_path: Path) -> None:
    with engine(tmp_path / "s", said(b'{"Version": "27.5.1"}')) as url:
        line = engine_line(url)
    assert (line.state, line.seen) == ("ok", "answers, 27.5.1")


@pytest.mark.parametrize(
    "answer", [said(b"[]"), said(b"{}"), said(b"no json"), said(b"\xff"), b"nonsense\r\n\r\n", b"", None]
)
def test_an_engine_that_answers_wrongly_or_not_at_all(
    tmp_path: Path, answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_answer, "ANSWER_SECONDS", 0.2)
    with engine(tmp_path / "s", answer) as url:
        line = engine_line(url)
    assert line.state == "warning" and f"at {tmp_path}/s does not answer (" in line.seen


def test_no_engine(tmp_path: Path) -> None:
    line = engine_line(f"unix://{tmp_path}/none")
    assert line.state == "warning" and f"{tmp_path}/none does not exist" in line.seen
    (tmp_path / "file").write_text("")
    assert "does not answer (Connection refused)" in engine_line(f"unix://{tmp_path}/file").seen
