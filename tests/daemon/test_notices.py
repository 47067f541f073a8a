"""Notices reach a real listener, carry no word of a request, and stop nothing when they fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.acts.bench_workspace import make_bench
from threegate.core.settings import NotifySettings
from threegate.daemon.log import Log
from threegate.daemon.loop import Daemon
from threegate.daemon.notices import Notices, send

SECRET_WORDS = "words-of-the-request"


class Listener(BaseHTTPRequestHandler):
    """Keeps what was posted."""

    heard: list[tuple[str, str]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.heard.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Silent."""


@pytest.fixture
def listener() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A real HTTP server on a free port; its address without the scheme, and what it heard."""
    heard: list[tuple[str, str]] = []
    kind = type("Own", (Listener,), {"heard": heard})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", heard
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_operator_and_the_requester_hear_ids_and_nothing_else(
    tmp_path: Path, listener: tuple[str, list[tuple[str, str]]], capfd: pytest.CaptureFixture[str]
) -> None:
    address, heard = listener
    bench = make_bench(tmp_path)
    bench.settings(
        notify__urls=[f"json://{address}/operator"], notify__requester_hook=f"json://{address}/requester"
    )
    path = bench.draft(purpose=f"Sum {SECRET_WORDS}.", code=f"print('{SECRET_WORDS}')", data=None)
    Daemon(bench.workspace, Log(), once=True).run()
    bench.approve(path)
    Daemon(bench.workspace, Log(), once=True).run()
    told = [(place, json.loads(body)["title"], json.loads(body)["message"]) for place, body in heard]
    assert ("/operator", "A request waits for approval", f"{path.name}: threegate review") in told
    assert ("/requester", "A request has ended", "req-1: succeeded") in told
    assert SECRET_WORDS not in str(heard)
    assert "tok" not in capfd.readouterr().err


def test_a_notice_that_cannot_be_sent_is_one_line_without_the_url() -> None:
    for url in ("json://127.0.0.1:1/token-abc", "nonsense://token-abc", ""):
        problem = send([url], "title", "body")
        assert problem is not None and "\n" not in problem and "token-abc" not in problem


def test_without_urls_nothing_is_started() -> None:
    before = threading.active_count()
    notices = Notices(NotifySettings(), Log())
    notices.draft_waits("TR.md")
    notices.ended("req-1", "succeeded")
    notices.close()
    assert threading.active_count() == before
