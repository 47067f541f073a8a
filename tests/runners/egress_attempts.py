"""What a run with an allowlist tries, and the server that some of it reaches."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ATTEMPTS = r"""
import json, socket, ssl, sys, urllib.request, urllib.error
answers = {}
def ask(name, url, **words):
    try:
        answers[name] = urllib.request.urlopen(urllib.request.Request(url, **words), timeout=20).status
    except urllib.error.HTTPError as error:
        answers[name] = error.code
    except Exception as error:
        answers[name] = type(error).__name__ + " " + str(error)
def tunnel(name, target, head="CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n"):
    try:
        with socket.create_connection(("127.0.0.1", 3128), 20) as plain:
            plain.sendall(head.format(target).encode())
            answers[name] = int(plain.recv(200).split()[1])
    except Exception as error:
        answers[name] = type(error).__name__
def direct(name, family, kind, target):
    try:
        with socket.socket(family, kind) as plain:
            plain.settimeout(3)
            plain.connect(target)
            plain.send(b"x")
            if kind == socket.SOCK_DGRAM:
                plain.recv(1)
            answers[name] = "connected"
    except OSError as error:
        answers[name] = "refused"
A, P = sys.argv[1], sys.argv[2]
GATEWAY, SERVER = sys.argv[3], sys.argv[4]
ask("listed", f"http://{A}:{P}/")
ask("listed by https", f"https://{A}:8443/")
tunnel("tunnel to the listed", f"{A}:{P}")
def upload(target):
    with socket.create_connection(("127.0.0.1", 3128), 20) as plain:
        plain.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        plain.recv(200)
        plain.sendall(b"GET / HTTP/1.0\r\nX: " + b"\r\nX: ".join([b"x" * 1000] * 60) + b"\r\n\r\n")
        while plain.recv(65536):
            pass
upload(f"{A}:{P}")
ask("other port", f"http://{A}:8081/")
ask("other name of the same server", f"http://other.example:{P}/")
ask("not listed", f"http://nowhere.example:{P}/")
ask("server's address", f"http://{SERVER}:{P}/")
ask("host's bridge", f"http://{GATEWAY}:{P}/")
ask("bridge of the engine", "http://172.17.0.1/")
ask("metadata", "http://169.254.169.254/latest/meta-data/")
ask("proxy's loopback", "http://127.0.0.1:3129/")
ask("localhost", "http://localhost/")
ask("decimal address", "http://2130706433/")
ask("hexadecimal address", "http://0x7f000001/")
ask("IPv6", "http://[::1]/")
ask("mapped IPv6", f"http://[::ffff:{SERVER}]:{P}/")
ask("manager", f"http://{A}:{P}/squid-internal-mgr/info")
ask("listed as a prefix", f"http://{A}.evil.example:{P}/")
ask("listed as user info", f"http://{A}:{P}@nowhere.example:{P}/")
ask("host header", f"http://nowhere.example:{P}/", headers={"Host": f"{A}:{P}"})
tunnel("ftp", f"{A}", head="GET ftp://{0}/ HTTP/1.1\r\nHost: {0}\r\n\r\n")
ask("a listed name that nobody knows", "http://private.example:8080/")
tunnel("tunnel elsewhere", f"nowhere.example:{P}")
tunnel("tunnel to ssh", f"{A}:22")
tunnel("tunnel to an address", f"{SERVER}:{P}")
tunnel("garbage", "x", head="\x00\x01 garbage\r\n\r\n")
direct("direct", socket.AF_INET, socket.SOCK_STREAM, (SERVER, int(P)))
direct("direct to the bridge", socket.AF_INET, socket.SOCK_STREAM, (GATEWAY, 80))
direct("dns by udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.11", 53))
direct("IPv6 direct", socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80))
try:
    answers["resolver"] = str(socket.getaddrinfo(A, 80))
except OSError:
    answers["resolver"] = "refused"
print(json.dumps(answers))
"""

LISTED = ["listed", "listed by https", "tunnel to the listed"]
REFUSED = sorted(set(re.findall(r'^(?:ask|tunnel)\("([^"]+)"', ATTEMPTS, re.M)) - set(LISTED))
DIRECT = [*re.findall(r'^direct\("([^"]+)"', ATTEMPTS, re.M), "resolver"]

TLS_SERVER = """
import http.server, ssl, subprocess, threading
plain = http.server.ThreadingHTTPServer(("", 8080), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/in/cert.pem", "/in/key.pem")
tls = http.server.ThreadingHTTPServer(("", 8443), http.server.SimpleHTTPRequestHandler)
tls.socket = context.wrap_socket(tls.socket, server_side=True)
threading.Thread(target=tls.serve_forever, daemon=True).start()
plain.serve_forever()
"""


def certificate(folder: Path) -> None:
    """cert.pem and key.pem for allowed.example, which everybody may read."""
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=allowed.example",
            "-addext",
            "subjectAltName=DNS:allowed.example",
            "-keyout",
            folder / "key.pem",
            "-out",
            folder / "cert.pem",
        ],
        check=True,
        capture_output=True,
    )
    (folder / "key.pem").chmod(0o644)
