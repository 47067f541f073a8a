"""A server that was added with --allow reaches that host through its proxy, and nothing else: from the command to the
result.

In an internet of its own, where two names lead to a public address of another machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import support
from tests.plugins.tools.little_servers import PYTHON, open_folder, write_server
from tests.plugins.tools.notes_server import CALL
from tests.runners.egress_attempts import certificate
from tests.runners.own_internet import INSIDE, THERE, own_internet

ROOT = Path(__file__).parents[3]
SERVER = """
import socketserver, threading
class Allowed(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"this is allowed\\n")
socketserver.TCPServer.allow_reuse_address = True
servers = [socketserver.ThreadingTCPServer(("", port), Allowed) for port in (443, 8080, 8443)]
for server in servers:
    threading.Thread(target=server.serve_forever).start()
"""
REACH = f"""
import socket

def call(id, name, arguments):
    def through_proxy(host):
        port = int(os.environ["HTTPS_PROXY"].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 10) as link, link.makefile("rwb") as stream:
            stream.write(f"CONNECT {{host}} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
            stream.flush()
            lines = [stream.readline().decode().strip() for _ in range(3)]
        return lines[0] + (" " + lines[2] if " 200 " in lines[0] else "")
    def direct(address):
        try:
            return socket.create_connection((address, 443), 2) and "connected"
        except OSError as error:
            return "no"
    said = {{host: through_proxy(host) for host in arguments["hosts"]}}
    said |= {{address: direct(address) for address in ("{THERE}", "{INSIDE}", "127.0.0.1")}}
    say({{"id": id, "result": text(json.dumps(said))}})
"""


def in_the_network(folder: Path) -> None:
    """Everything that a person does; prints what the server saw."""
    place = support.make_place(folder)
    signing = ("--as", "operator", "--key", str(place.key), "--yes")
    with open_folder() as programs:
        path = write_server(programs, REACH)
        words = ("tools", "add", "reach", "--allow", "allowed.example", *signing, "--", PYTHON, str(path))
        card = place.run(*words, expect=0).out
        assert "allowed.example: it may send anything there" in card, card
        (row,) = place.run("tools", "list", "--json", expect=0).json()["servers"]
        request_id = support.request_id("reach")
        hosts = ["allowed.example:443", "other.example:443", "allowed.example:22", f"{THERE}:443"]
        draft = CALL.format(
            request_id=request_id, now=support.now_text(), server="reach", tool="echo", time_sec=40,
            digest=row["manifest_sha256"], arguments=json.dumps({"hosts": hosts}, separators=(",", ":")),
        )  # fmt: skip
        place.approve(place.drop(draft))
        place.once()
        assert "status: succeeded" in place.result(request_id), place.result(request_id)
        out = place.root / "tool-exec" / "runs" / request_id / "out" / "result.json"
        print(json.loads(out.read_text())["content"][0]["text"])


@pytest.mark.slow
@pytest.mark.root
def test_it_reaches_the_host_that_was_signed_and_no_other(tmp_path: Path) -> None:
    certificate(tmp_path)
    inside = [sys.executable, "-m", "tests.plugins.tools.test_allowed_host", str(tmp_path)]
    with own_internet(tmp_path, SERVER) as internet:
        done = subprocess.run(
            internet.here_run(inside), cwd=ROOT, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "allowed.example:443": "HTTP/1.1 200 OK this is allowed",
        "other.example:443": "HTTP/1.1 403 Forbidden",
        "allowed.example:22": "HTTP/1.1 403 Forbidden",
        f"{THERE}:443": "HTTP/1.1 403 Forbidden",
        THERE: "no",
        INSIDE: "no",
        "127.0.0.1": "no",
    }


if __name__ == "__main__":
    in_the_network(Path(sys.argv[1]))
