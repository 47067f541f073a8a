"""The web lanes of proposals, run for real: through the run's own proxy to a local HTTP server, and nowhere else."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import engine_host, missing
from tests.plugins.proposals.end_to_end.served import served
from tests.support import Place, make_place
from threegate import cli
from threegate.core.workspace import Workspace
from threegate.daemon.log import Log
from threegate.daemon.loop import Daemon
from threegate.runners.era import runner

pytestmark = [pytest.mark.engine, pytest.mark.slow]

HOST = "pages.example.com"
PAGE = (
    "<html><head><title>T</title><style>p{}</style></head><body><h1 id=top>Head <b>line</b></h1>"
    "<p class='lead big'>First</p><script>evil()</script><p>Second</p></body></html>"
)
SERVER = f"""
import http.server, json
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith('/away'):
            self.send_response(302); self.send_header('Location', 'http://other.example.com/'); self.end_headers(); return
        body = {PAGE!r}.encode()
        if self.path.startswith('/repos/'): body = json.dumps({{'path': self.path}}).encode()
        if self.path.startswith('/find'): body = ('<p>found ' + self.path + '</p>').encode()
        if self.path.startswith('/none'): self.send_response(404)
        else: self.send_response(200)
        self.send_header('Content-Type', 'text/html; charset=utf-8'); self.end_headers(); self.wfile.write(body)
    def log_message(self, *a): pass
server = http.server.ThreadingHTTPServer(('', 80), H); print('ready', flush=True); server.serve_forever()
"""  # noqa: E501
PROPOSALS: dict[str, dict[str, Any]] = {
    "fetch": {"tool": "web.fetch", "args": {"url": f"http://{HOST}/a"}},
    "short": {"tool": "web.fetch", "args": {"url": f"http://{HOST}/short", "maxBytes": 10}},
    "away": {"tool": "web.fetch", "args": {"url": f"http://{HOST}/away"}},
    "none": {"tool": "web.fetch", "args": {"url": f"http://{HOST}/none"}},
    "open": {"tool": "browser.open", "args": {"url": f"http://{HOST}/open"}},
    "extract": {"tool": "browser.extract", "args": {"url": f"http://{HOST}/", "selector": "p.lead"}},
    "search": {"tool": "web.search", "args": {"query": "a b&c"}},
    "repo": {"tool": "github.repo_read", "args": {"repo": "a/b", "includeIssues": True}},
}
FAILS = {"away", "none"}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A network with a routable-looking range and a server in it; gives the network's name."""
    if not engine_host():
        missing("a container engine with the ERA image (scripts/engine up)")
    with served(HOST, SERVER) as name:
        yield name


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, server: str) -> Iterator[tuple[Place, dict[str, str]]]:
    """A workspace in which each of these was dropped, drafted, approved and run, with proxies in the server's
    network.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setattr(runner, "EraRunner", functools.partial(runner.EraRunner, egress_network=server))
        place = make_place(
            tmp_path_factory.mktemp("web"),
            settings={
                "runners.era.engine": engine_host() or "",
                "runners.era.image": os.environ["THREEGATE_TEST_IMAGE"],
                "runners.era.egress_image": os.environ["THREEGATE_TEST_EGRESS_IMAGE"],
                "proposals.search_url": f"http://{HOST}/find?q={{query}}",
                "proposals.github_api": f"http://{HOST}",
            },
        )
        for name, proposal in PROPOSALS.items():
            (place.root / "inbox" / f"AP-{name}.json").write_text(json.dumps(proposal))
        assert Daemon(Workspace(place.root), Log(), once=True).run() == 0
        ids = {}
        for name in PROPOSALS:
            verdict = place.verdict(f"AP-{name}.json")
            assert verdict["judgement"]["draft"], verdict
            ids[name] = verdict["request_id"]
            draft = place.root / "tool-exec" / "drafts" / verdict["judgement"]["draft"]
            signed = ["--as", "operator", "--key", str(place.key), "--yes"]
            assert cli.execute(["-w", str(place.root), "approve", str(draft), *signed]) == 0
        assert Daemon(Workspace(place.root), Log(), once=True).run() == 0
        yield place, ids


def out(ran: tuple[Place, dict[str, str]], name: str, file: str) -> str:
    """An artifact as text."""
    place, ids = ran
    return (place.root / "tool-exec" / "runs" / ids[name] / "out" / file).read_text()


@pytest.mark.parametrize("name", PROPOSALS)
def test_every_web_lane_runs(ran: tuple[Place, dict[str, str]], name: str) -> None:
    place, ids = ran
    text = place.result(ids[name])
    assert f"status: {'exited' if name in FAILS else 'succeeded'}\n" in text, text
    assert f"{HOST}" in text


def test_pages_come_as_they_are_or_as_text(ran: tuple[Place, dict[str, str]]) -> None:
    assert out(ran, "fetch", "response.body") == PAGE
    assert out(ran, "short", "response.body") == PAGE[:10]
    assert json.loads(out(ran, "short", "response.json"))["cut"] is True
    assert out(ran, "open", "text.txt") == "T\nHead\nline\nFirst\nSecond"
    assert out(ran, "extract", "text.txt") == "First"
    assert "/find?q=a%20b%26c" in out(ran, "search", "text.txt")
    assert json.loads(out(ran, "repo", "response.body")) == {"path": "/repos/a/b"}
    assert json.loads(out(ran, "repo", "response-1.body"))["path"].startswith("/repos/a/b/issues")


def test_a_redirect_is_told_and_not_followed(ran: tuple[Place, dict[str, str]]) -> None:
    facts = json.loads(out(ran, "away", "response.json"))
    assert (facts["status"], facts["location"]) == (302, "http://other.example.com/")


def test_the_trail_names_what_was_reached(ran: tuple[Place, dict[str, str]]) -> None:
    place, ids = ran
    reached = {event["request_id"]: event["data"]["reached"] for event in place.events("finished")}
    assert {tuple(reached[request_id]) for request_id in ids.values()} == {(f"{HOST}:80",)}
