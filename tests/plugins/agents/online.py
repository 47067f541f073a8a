"""A run of an agent on a machine that has an internet of its own, with a server behind TLS.

Everything else is real: the jail, the proxy, the name server that is asked, the daemon and the operator's signature.
"""

from __future__ import annotations

import pwd
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.plugins.agents.people import Person, python
from tests.plugins.agents.signing_desk import Decision, SigningDesk
from tests.plugins.agents.test_frozen_jail import CLIENT
from tests.runners.own_internet import Internet

HOST, OTHER = "allowed.example", "other.example"
SERVER = """
import http.server, ssl, threading, time
class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"y" * 1000)
        while self.path == "/hold":
            self.wfile.write(b"x" * 500)
            time.sleep(0.02)
    def log_message(self, *_): pass
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
for port in 443, 8443, 8080:
    site = http.server.ThreadingHTTPServer(("", port), Site)
    if port != 8080:
        site.socket = context.wrap_socket(site.socket, server_side=True)
    threading.Thread(target=site.serve_forever).start()
"""
ASKS = (
    f"{CLIENT}\nHOST = {HOST!r}"
    + r"""
import http.client, pathlib, ssl

def ask_for(host=HOST, why="To fetch the rates.", **more):
    return json.loads(call("request_host", host=host, why=why, **more))

def opened(host=HOST, path="/"):
    context = ssl.create_default_context(cafile="ca.pem")
    there = http.client.HTTPSConnection("127.0.0.1", 8301, timeout=20, context=context)
    there.set_tunnel(host, 443)
    there.request("GET", path)
    return there.getresponse()

def fetch(host=HOST):
    try:
        answer = opened(host)
        return f"{answer.status} {len(answer.read())}"
    except OSError as error:
        return str(error)

def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.02)
"""
)
"""For programs in the jail: the door's call, and HTTPS through the proxy."""


@dataclass
class Online:
    """Somebody with a run there."""

    who: Person
    internet: Internet

    def command(self, *words: str) -> list[str]:
        """A command of theirs on that machine."""
        line = [python()[0], "-m", "threegate", "--workspace", str(self.who.workspace), *words]
        if self.who.account:
            found = pwd.getpwnam(self.who.account)
            ids = [f"--reuid={found.pw_uid}", f"--regid={found.pw_gid}", "--clear-groups"]
            line = ["/usr/bin/setpriv", *ids, "--", *line]
        return self.internet.here_run(line)

    def start(self, program: str, *, options: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """An agent that is this program in Python, with ASKS before it."""
        shutil.copy(self.internet.folder / "cert.pem", self.who.project / "ca.pem")
        self.who.own()
        words = self.who.words("/usr/bin/python3", "-uc", ASKS + program, options=["--propose", "never", *options])
        return self.begin(*words)

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(*words), env=self.who.environ(), cwd=self.who.home, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    @contextmanager
    def running(
        self, program: str, *decisions: Decision, options: Sequence[str] = ()
    ) -> Iterator[subprocess.Popen[bytes]]:
        """The agent, and an operator who decides on what it asks for."""
        with SigningDesk(self.who, decisions).open():
            process = self.start(program, options=options)
            try:
                yield process
            finally:
                process.kill()
                process.communicate(timeout=60)

    def run(self, program: str, *decisions: Decision, options: Sequence[str] = ()) -> list[str]:
        """What the agent prints until it has ended."""
        with self.running(program, *decisions, options=options) as process:
            return output(process)


def output(process: subprocess.Popen[bytes]) -> list[str]:
    """What the agent of a run printed, to its end; it must have ended well."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, (out.decode(), err.decode())
    return out.decode().splitlines()
