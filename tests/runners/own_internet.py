"""An internet of its own for a test: a network namespace with public addresses, a name server and servers behind a
veth. Only root can make one; who is in it may be anybody.

`there` answers names and serves; `here` is a machine whose only network is the one to `there`.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import wait_until

HERE, THERE, INSIDE = "52.77.1.1", "52.77.1.2", "10.77.1.2"
NAMES = {"allowed.example": THERE, "other.example": THERE, "inside.example": INSIDE, "myself.example": HERE}
"""What the name server knows."""

_NAME_SERVER = """
import socket, sys
names = dict(word.split("=") for word in sys.argv[2:])
held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
held.bind(("", 53))
with open(sys.argv[1], "a", buffering=1) as asked:
    print("ready", file=asked)
    while True:
        data, sender = held.recvfrom(4096)
        at, labels = 12, []
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
        name, kind, question = ".".join(labels), data[at + 1 : at + 3], data[12 : at + 5]
        print(name, file=asked)
        found = names.get(name)
        answer = found is not None and kind == b"\\0\\1"
        head = data[:2] + (b"\\x81\\x80" if found else b"\\x81\\x83") + b"\\0\\1" + (b"\\0\\1" if answer else b"\\0\\0") + bytes(4)
        record = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\0\\0\\4" + socket.inet_aton(found) if answer else b""
        held.sendto(head + question + record, sender)
"""  # noqa: E501
_BUSY = """
import http.server, ssl, threading
class Busy(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(429)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"busy")
        print(len(body), self.headers["Host"], self.headers["Authorization"], self.headers["X-Hop"], flush=True)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
tls = http.server.ThreadingHTTPServer(("", 8444), Busy)
tls.socket = context.wrap_socket(tls.socket, server_side=True)
threading.Thread(target=tls.serve_forever, daemon=True).start()
http.server.ThreadingHTTPServer(("", 8082), Busy).serve_forever()
"""


@dataclass(frozen=True)
class Internet:
    """The two sides, each a process that holds its namespaces, and where the servers write."""

    here: int
    there: int
    folder: Path

    def here_run(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a command on the machine `here`."""
        return ["/usr/bin/nsenter", f"--target={self.here}", "--net", "--mount", "--", *command]

    def asked(self) -> list[str]:
        """Each name that the name server was asked for, in order."""
        return (self.folder / "asked").read_text().split()[1:]


@contextmanager
def own_internet(folder: Path, server: str) -> Iterator[Internet]:
    """`server` is a program that serves 8080 and 8443 in `there`; another answers 429 and writes what it got, on 8082
    and by TLS on 8444.
    """
    (folder / "resolv.conf").write_text(f"nameserver {THERE}\nsearch corp.example\noptions timeout:2 attempts:1\n")
    (folder / "hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")
    with ExitStack() as held:

        def start(*words: str, **more: object) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(words, **more)  # type: ignore[call-overload]
            held.callback(process.wait)
            held.callback(process.kill)
            return process

        sides = [start("/usr/bin/unshare", "--net", "--mount", "/bin/sleep", "1000").pid for _ in range(2)]
        ours = Path("/proc/self/ns/net").stat().st_ino
        for side in sides:
            place = Path(f"/proc/{side}")
            wait_until(lambda place=place: (place / "comm").read_text() == "sleep\n", "a namespace")  # type: ignore[misc]
            assert (place / "ns/net").stat().st_ino != ours
        internet = Internet(*sides, folder)

        def inside(side: int, *words: str) -> None:
            enter = ["/usr/bin/nsenter", f"--target={side}", "--net", "--mount", "--"]
            subprocess.run([*enter, *words], check=True, capture_output=True)

        ip = "/sbin/ip"
        inside(sides[0], ip, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", str(sides[1]))
        for side, addresses in zip(sides, ([HERE, "10.77.1.1"], [THERE, INSIDE]), strict=True):
            for address in addresses:
                inside(side, ip, "address", "add", f"{address}/24", "dev", "wire")
            for name in ("lo", "wire"):
                inside(side, ip, "link", "set", name, "up")
        for name in ("resolv.conf", "hosts"):
            inside(sides[0], "/bin/mount", "--bind", str(folder / name), str(Path(f"/etc/{name}").resolve()))
        enter = ["/usr/bin/nsenter", f"--target={sides[1]}", "--net", "--"]
        names = [f"{name}={address}" for name, address in NAMES.items()]
        python = [*enter, sys.executable, "-c"]
        start(*python, _NAME_SERVER, str(folder / "asked"), *names)
        with (folder / "posted").open("wb") as posted:
            start(*python, _BUSY, cwd=folder, stdout=posted, stderr=subprocess.DEVNULL)
        start(*python, server, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Somebody listens on the machine itself, too.
        serve = [sys.executable, "-m", "http.server", "8080"]
        start(*internet.here_run(serve), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        tables = [(sides[1], port) for port in (8080, 8443, 8082, 8444)] + [(sides[0], 8080)]
        for side, port in tables:
            listening = f":{port:04X} 00000000:0000 0A"
            wait_until(
                lambda side=side, text=listening: text in Path(f"/proc/{side}/net/tcp").read_text(),  # type: ignore[misc]
                f"port {port}",
            )
        wait_until((folder / "asked").exists, "the name server")
        yield internet
