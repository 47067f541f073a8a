"""A token reaches the one request that the operator's reference names, over checked TLS, and nothing else sees it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import engine_host
from tests.plugins.proposals.end_to_end.served import docker, served
from tests.support import Place, make_place
from threegate import cli
from threegate.core.workspace import Workspace
from threegate.daemon.log import Log
from threegate.daemon.loop import Daemon
from threegate.runners.egress.proxy_chain import EgressChain
from threegate.runners.era import runner

pytestmark = pytest.mark.engine

HOST = "api.example.com"
TOKEN = "gate3-test-token-" + "0123456789"
SERVER = """
import http.server, json, ssl
class H(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('Content-Length', 0))).decode()
        seen = {'path': self.path, 'body': json.loads(body), 'authorized': self.headers.get('Authorization') == 'Bearer TOKEN'}
        out = json.dumps(seen).encode()
        self.send_response(201); self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(out))); self.end_headers(); self.wfile.write(out)
    def log_message(self, *a): pass
server = http.server.ThreadingHTTPServer(('', 443), H)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain('/t/cert.pem', '/t/key.pem')
server.socket = context.wrap_socket(server.socket, server_side=True); print('ready', flush=True); server.serve_forever()
""".replace("TOKEN", TOKEN)  # fmt: skip  # noqa: E501
PROPOSAL: dict[str, Any] = {
    "tool": "github.issue_create_approved",
    "args": {"repo": "a/b", "title": "T", "body": "B", "labels": ["bug"]},
    "risk": "high",
}


def certificate(folder: Path) -> Path:
    """A self-signed certificate for the host, and its key beside it."""
    folder.mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
         str(folder / "key.pem"), "-out", str(folder / "cert.pem"), "-days", "2", "-subj", f"/CN={HOST}",
         "-addext", f"subjectAltName=DNS:{HOST}"],
        check=True, capture_output=True,
    )  # fmt: skip
    (folder / "key.pem").chmod(0o644)
    return folder / "cert.pem"


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What stands outside of the helpers' memory, by role, when they are about to be removed: what the engine knows of
    each (with its command and environment), and every file that it was given."""
    seen: dict[str, str] = {}
    remove = EgressChain.remove

    def look(chain: EgressChain) -> None:
        for container in list(chain._containers):
            known = docker("inspect", container)
            seen[json.loads(known)[0]["Name"].rpartition("-")[2]] = known
        for path in chain._folder.rglob("*"):
            if path.is_file():
                seen[path.name] = path.read_bytes().decode("latin-1")
        remove(chain)

    monkeypatch.setattr(EgressChain, "remove", look)
    return seen


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A TLS server in a network of its own; the network's name and the certificate to trust."""
    good = certificate(tmp_path / "tls")
    with served(HOST, SERVER, "-v", f"{good.parent}:/t:ro") as name:
        yield name, good


def run_it(folder: Path, network: str, trusted: Path, patch: pytest.MonkeyPatch) -> tuple[Place, str]:
    """Propose, approve and run the issue; the place and the request's id."""
    patch.setenv("GATE_TOKEN", TOKEN)
    patch.setenv("SSL_CERT_FILE", str(trusted))
    patch.setattr(runner, "EraRunner", functools.partial(runner.EraRunner, egress_network=network))
    place = make_place(
        folder,
        settings={
            "runners.era.engine": engine_host() or "",
            "runners.era.image": os.environ["THREEGATE_TEST_IMAGE"],
            "runners.era.egress_image": os.environ["THREEGATE_TEST_EGRESS_IMAGE"],
            "proposals.github_api": f"https://{HOST}",
            "secrets.github.env": "GATE_TOKEN",
            "secrets.github.host": HOST,
            "secrets.github.path": "/repos/a/b/issues",
        },
    )
    (place.root / "inbox" / "AP-issue.json").write_text(json.dumps(PROPOSAL))
    assert Daemon(Workspace(place.root), Log(), once=True).run() == 0
    verdict = place.verdict("AP-issue.json")
    assert verdict["judgement"]["draft"], verdict
    draft = place.root / "tool-exec" / "drafts" / verdict["judgement"]["draft"]
    signed = ["--as", "operator", "--key", str(place.key), "--yes"]
    assert cli.execute(["-w", str(place.root), "approve", str(draft), *signed]) == 0
    assert Daemon(Workspace(place.root), Log(), once=True).run() == 0
    return place, verdict["request_id"]


def nowhere(place: Place) -> None:
    """The token is in no file of the workspace and of its state."""
    for root in (place.root, Path(os.environ["XDG_STATE_HOME"])):
        for path in root.rglob("*"):
            if path.is_file():
                assert TOKEN.encode() not in path.read_bytes(), path


def test_the_issue_is_created_with_the_token_that_the_run_never_saw(
    server: tuple[str, Path], helpers: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, good = server
    place, request_id = run_it(tmp_path, network, good, monkeypatch)
    folder = place.root / "tool-exec" / "runs" / request_id / "out"
    told = {path.name: path.read_text() for path in folder.iterdir()}
    assert "status: succeeded\n" in place.result(request_id), told
    out = place.root / "tool-exec" / "runs" / request_id / "out" / "response.body"
    seen = json.loads(out.read_text())
    assert seen == {
        "path": "/repos/a/b/issues",
        "body": {"title": "T", "body": "B", "labels": ["bug"]},
        "authorized": True,
    }
    assert {"forwarder", "proxy", "relay", "squid.conf", "forwarder.py", "access.log"} <= helpers.keys()
    assert [name for name, text in helpers.items() if TOKEN in text] == []
    nowhere(place)


@pytest.mark.slow
def test_a_server_with_another_certificate_gets_nothing(
    server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, _ = server
    other = certificate(tmp_path / "other")
    place, request_id = run_it(tmp_path, network, other, monkeypatch)
    assert "status: exited\n" in place.result(request_id), place.result(request_id)
    out = place.root / "tool-exec" / "runs" / request_id / "out"
    assert "authorized" not in "".join(path.read_text() for path in out.glob("*.body"))
    nowhere(place)
