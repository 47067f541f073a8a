"""A real Chromium with a virtual authenticator and an imported authority: enrol, log in, approve, and the daemon
runs it.
"""

from __future__ import annotations

import base64
import json
import os
import pty
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.chromium import Chromium
from tests.support import wait_until
from threegate.acts.approve import known_operators
from threegate.approval.passkey import challenge_of, decode_base64url, passkey_signature
from threegate.approval.signature import verify_command
from threegate.approval.signer import verify_signer
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL, parse_armor
from threegate.approval.statement import SignedApproval, Statement
from threegate.core.errors import Refused

HOST = "approve.threegate.test"
THREEGATE = [sys.executable, "-m", "threegate"]
pytestmark = [pytest.mark.browser, pytest.mark.certutil, pytest.mark.timeout(300)]


class Place:
    """A workspace, its server and a browser that trusts its authority."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bench: Bench = make_bench(folder)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.origin = f"https://{HOST}:{self.port}"
        self.bench.settings(approval__passkey_origin=self.origin)
        self.environment = {
            **os.environ, "THREEGATE_WORKSPACE": str(self.bench.workspace.root), "HOME": str(folder),
        }  # fmt: skip
        made = self.run("serve", "passkeys", "--make-ca")
        authority = next(line.split()[1] for line in made.splitlines() if line.startswith("authority"))
        database = folder / ".pki" / "nssdb"
        database.mkdir(parents=True)
        for command in (["-N", "--empty-password"], ["-A", "-t", "C,,", "-n", "ours", "-i", authority]):
            subprocess.run(["certutil", "-d", f"sql:{database}", *command], check=True, capture_output=True)
        self.serve()
        self.browser = Chromium(
            folder / "profile",
            f"--host-resolver-rules=MAP {HOST} 127.0.0.1",
            home=folder,
        )
        self.browser.send("WebAuthn.enable")
        self.browser.send(
            "WebAuthn.addVirtualAuthenticator",
            options={
                "protocol": "ctap2",
                "transport": "internal",
                "hasResidentKey": True,
                "hasUserVerification": True,
                "isUserVerified": True,
            },
        )

    def serve(self) -> None:
        """Start the page, and wait until it listens."""
        self.server = self.start("serve", "passkeys", "--host", "127.0.0.1")
        assert self.server.stdout is not None
        assert self.server.stdout.readline() == f"listening on {self.origin}; press Ctrl-C to stop\n"

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*THREEGATE, *words],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *words: str) -> str:
        return subprocess.run(
            [*THREEGATE, *words],
            env=self.environment, capture_output=True, text=True, check=True, timeout=120,
        ).stdout  # fmt: skip

    def press(self, until: str) -> str:
        """Press the page's button and wait for what it says."""
        self.browser.js("document.getElementById('use-passkey').click()")
        self.browser.until(f"({until}) || document.getElementById('said').textContent.startsWith('Not done')")
        return str(self.browser.js("(document.getElementById('said') || {}).textContent || ''"))

    def enrol(self) -> str:
        """The whole ceremony; what the page said."""
        terminal, side = pty.openpty()
        words = ["operator", "passkey", "--as", "alice", "--key", str(self.bench.keys["alice"])]
        command = subprocess.Popen(
            [*THREEGATE, *words], env=self.environment, stdin=side, stdout=side, stderr=subprocess.PIPE, text=True
        )  # fmt: skip
        os.close(side)
        assert command.stderr is not None
        command.stderr.readline()
        self.browser.open(command.stderr.readline().strip())
        said = self.press("document.getElementById('said').textContent.startsWith('Made')")
        assert command.stderr.readline().split()[-1] in said
        shown = b""
        while not shown.endswith(b"[y/N] "):  # what was typed before the question is not an answer to it
            shown += os.read(terminal, 4096)
        os.write(terminal, b"y\n")
        _, error = command.communicate(timeout=60)
        os.close(terminal)
        assert command.returncode == 0, error
        return said

    def log_in(self) -> None:
        self.browser.open(f"{self.origin}/")
        assert self.press("location.pathname.length > 20") == ""

    def open_draft(self, part: str) -> None:
        page = str(self.browser.js("location.href"))
        link = f"[...document.querySelectorAll('.request a')].find(a => a.textContent.includes({part!r}))?.href ?? ''"

        def listed() -> str:
            self.browser.open(page)
            return str(self.browser.js(link))

        self.browser.open(wait_until(listed, part))

    def end_server(self) -> str:
        """End the page; what it printed since it listens."""
        self.server.terminate()
        return "".join(self.server.communicate(timeout=20))

    def close(self) -> None:
        self.browser.close()
        if self.server.returncode is None:
            self.end_server()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("passkey")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        place = Place(folder)
        try:
            yield place
        finally:
            place.close()


def test_from_the_link_to_the_run(place: Place) -> None:
    workspace = place.bench.workspace
    place.bench.draft("req-phone", slug="phone", purpose="Approved by <b>phone</b>.")
    assert place.enrol().endswith("say yes there.")
    lines = workspace.passkeys_file.read_text().split()
    assert lines[1:3] == [HOST, place.origin] and workspace.operators_file.read_text().count("threegate-login") == 1
    assert f"passkey for {place.origin}" in place.run("operator", "list")

    place.log_in()
    place.open_draft("phone")
    shown = place.browser.js("document.body.innerText")
    assert "Approved by <b>phone</b>." in shown and "as alice, and lets it run once" in shown
    cookies = place.browser.send("Network.getCookies", urls=[place.browser.js("location.href")])["cookies"]
    assert [(c["secure"], c["httpOnly"], c["sameSite"]) for c in cookies] == [(True, True, "Strict")]
    said = place.press("document.getElementById('said').textContent.startsWith('Approved')")
    assert said.startswith("Approved: TR-") and said.endswith("none runs.")

    (delivered,) = workspace.approved.glob("*phone.md.sig")
    approval = SignedApproval.parse(delivered.read_bytes())
    (place.folder / "armor").write_bytes(approval.signed.signature.armor)
    command = verify_command(
        "alice",
        NAMESPACE_APPROVAL,
        datetime.now(UTC),
        [str(workspace.operators_file), str(place.folder / "armor")],
    )
    subprocess.run(command, input=approval.signed.statement, check=True, capture_output=True)
    place.run("run", "--once")
    assert "succeeded" in place.run("show", "req-phone")
    assert "verifies" in place.run("audit", "verify")
    assert f"enrolled a passkey of the operator alice for {place.origin} (SHA256:" in place.run("audit", "show")
    told = [text for text in place.browser.complaints() if "pubKeyCredParams" not in text]  # OpenSSH knows no RS256
    assert told == []


@pytest.mark.slow
def test_drafts_end_there_and_the_passkey_confirms_again(place: Place) -> None:
    """On a phone: changes are asked for right after the login; when that is too long ago, the page asks the passkey."""
    workspace, browser = place.bench.workspace, place.browser
    if not workspace.passkeys_file.exists():
        place.enrol()
    place.bench.draft("req-ends", slug="ends", data=None)
    place.bench.draft("req-later", slug="later", data=None)
    place.log_in()
    overview = str(browser.js("location.href"))
    browser.size(390, 844)

    def end(button: str, words: str) -> str:
        browser.js(f"document.getElementById('words').value = {words!r}")
        browser.js(f"document.getElementById('{button}').click()")
        browser.until("/^(Refused|Changes|Not done)/.test(document.getElementById('ended').textContent)")
        return str(browser.js("document.getElementById('ended').textContent"))

    place.open_draft("ends")
    browser.js("document.querySelector('#end summary').click()")
    assert browser.js("document.documentElement.scrollWidth <= innerWidth")
    groups = [node for node in browser.tree() if node["role"]["value"] == "group"]
    assert groups and all(node["name"]["value"] for node in groups)
    assert end("refuse", " ") == "Not done: say why you refuse it, in words of your own"
    assert end("ask-changes", "Say what it is for.").startswith("Changes asked for: TR-")
    assert browser.js("document.getElementById('use-passkey').hidden")

    browser.open(overview)
    place.open_draft("later")
    # As the server answers after five minutes; it then takes a confirmation from this very passkey.
    browser.js(
        """(() => { const real = window.fetch; window.asked = []; window.fetch = async (to, more) => {
          window.asked.push(String(to).split("/")[3]);
          return asked.length > 1 ? real(to, more) : new Response('{"error": "old", "verify": true}',
            { status: 403, headers: { "Content-Type": "application/json" } });
        }; })()"""
    )
    assert end("refuse", "Not today.").startswith("Refused: TR-")
    assert browser.js("asked.filter((name) => name !== 'request')") == ["end", "verify", "verify", "end"]
    assert not list(workspace.inbox.glob("*ends.md")) and not list(workspace.inbox.glob("*later.md"))
    assert "refused" in place.run("show", "req-later") and "operator:alice" in place.run("audit", "show")


def _pictures(place: Place, name: str) -> None:
    """Kept in THREEGATE_SCREENSHOTS, to be looked at."""
    if (kept := os.environ.get("THREEGATE_SCREENSHOTS")) is None:
        return
    for width, height in ((390, 844), (1280, 900)):
        for dark in (False, True):
            place.browser.size(width, height, dark=dark)
            place.browser.picture(Path(kept) / f"{name}-{width}-{'dark' if dark else 'light'}.png")


@pytest.mark.slow
def test_the_link_of_a_notice_and_the_passkey(place: Place) -> None:
    """Two taps: a daemon's notice has a link, and a login there opens its draft, in a browser that is logged in too.
    A site elsewhere links to it, as a web mail does.
    """
    bench, browser = place.bench, place.browser
    heard: list[str] = []

    class Site(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["message"])
            self.send_response(200)
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f"<title>mail</title><a href={link}>read it</a>".encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    mail = f"http://127.0.0.1:{server.server_port}"
    if not bench.workspace.passkeys_file.exists():
        place.enrol()
    place.log_in()
    bench.settings(notify__urls=[mail.replace("http:", "json:")], notify__link=True)
    path = bench.draft("req-tap", slug="tap", purpose="Tapped twice.", data=None, code="print(2)")
    try:
        place.run("run", "--once")
        told = next(text for text in heard if path.name in text)
        link = told.splitlines()[-1].removeprefix("or: ")
        assert link.startswith(f"{place.origin}/page/draft/")
        browser.open(mail)
        browser.js("document.querySelector('a').click()")
        browser.until("location.protocol === 'https:' && document.readyState === 'complete'")
    finally:
        server.shutdown()
        server.server_close()
    assert browser.js("location.href") == link
    asked = str(browser.js("document.documentElement.outerHTML"))
    assert "Log in" in asked and "Tapped" not in asked and link[-32:] not in asked
    _pictures(place, "tap-login")
    browser.js("document.getElementById('use-passkey').click()")
    browser.until("location.pathname.includes('/request/inbox/') && document.readyState === 'complete'")
    shown = str(browser.js("document.body.innerText"))
    assert "Tapped twice." in shown and link[-32:] not in str(browser.js("location.href + document.referrer"))
    browser.size(390, 844)
    assert browser.js("document.documentElement.scrollWidth <= innerWidth")
    _pictures(place, "tap-draft")
    said = place.press("document.getElementById('said').textContent.startsWith('Approved')")
    assert said.startswith("Approved: TR-") and not path.exists()
    browser.open(link)
    over = str(browser.js("document.body.innerText"))
    assert "This link leads nowhere" in over and "Tapped" not in over
    _pictures(place, "tap-over")
    browser.js("document.querySelector('main a').click()")
    browser.until("location.pathname === '/page/' && !!document.getElementById('use-passkey')")
    files = [file for file in bench.workspace.root.rglob("*") if file.is_file()]
    assert not [file for file in files if link[-32:].encode() in file.read_bytes()]
    assert link[-32:] not in place.end_server()
    place.serve()


@pytest.mark.slow
def test_what_another_port_of_the_same_name_gets(place: Place) -> None:
    """A page of our own name and certificate on another port can ask the passkey, and what it signs counts for
    nothing.
    """
    workspace = place.bench.workspace
    if not workspace.passkeys_file.exists():
        place.enrol()

    class Evil(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>evil</title>")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Evil)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(workspace.control / "approve-cert.pem", workspace.control / "approve-key.pem")
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    statement = b'{"a":1}'
    try:
        place.browser.open(f"https://{HOST}:{server.server_port}/")
        got = place.browser.js(
            f"""(async () => {{
              const bytes = (t) => Uint8Array.from(atob(t.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
              const text = (b) => btoa(String.fromCharCode(...new Uint8Array(b)));
              const got = await navigator.credentials.get({{ publicKey: {{ rpId: "{HOST}", userVerification: "required",
                challenge: bytes("{challenge_of(statement, NAMESPACE_APPROVAL)}") }} }});
              return [got.response.authenticatorData, got.response.clientDataJSON, got.response.signature].map(text);
            }})()"""  # noqa: E501
        )
    finally:
        server.shutdown()
        server.server_close()
    data, client_data, signature = map(base64.b64decode, got)
    operators = known_operators(place.bench.context)
    entry = next(entry for entry in operators.entries if entry.passkey)
    elsewhere = f"https://{HOST}:{server.server_port}"
    for origin, why in ((place.origin, "not one over"), (elsewhere, "pinned")):
        armor = passkey_signature(
            entry.key, origin, NAMESPACE_APPROVAL,
            authenticator_data=data, client_data=client_data, signature=signature,
        )  # fmt: skip
        with pytest.raises(Refused, match=why):
            verify_signer(statement, parse_armor(armor), "alice", NAMESPACE_APPROVAL, operators, at=[datetime.now(UTC)])


@pytest.mark.slow
def test_another_server_on_our_port(place: Place, tmp_path: Path) -> None:
    """When ours is down, whoever takes the port has no certificate that the browser trusts: it shows nothing of
    theirs.
    """
    place.end_server()
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
         "-out", cert, "-days", "2", "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"],
        check=True, capture_output=True,
    )  # fmt: skip
    asked: list[str] = []

    class Evil(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", place.port), Evil)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        answer = place.browser.send("Page.navigate", url=f"{place.origin}/page/")
    finally:
        server.shutdown()
        server.server_close()
    assert answer["errorText"] == "net::ERR_CERT_AUTHORITY_INVALID" and asked == []


@pytest.mark.slow
def test_the_statement_is_the_terminals(place: Place) -> None:
    """What the page hands to the passkey is the statement that the terminal would sign, but for time and nonce."""
    from threegate.acts.approve import seal
    from threegate.plugins.page.access import Sessions
    from threegate.plugins.page.passkey_app import _PasskeyViews
    from threegate.review.reviewed_draft import open_reviewed_draft, read_draft

    path = place.bench.draft("req-same", slug="same")
    sessions = Sessions(lambda: 0.0)
    view, _ = sessions.begin("Y3JlZA alice")
    views = _PasskeyViews(place.bench.workspace, place.origin, sessions)

    class Asked:
        path_params = {"view": view, "folder": "inbox", "key": path.stem}  # noqa: RUF012

    from threegate.review.overview import entries

    entry = next(entry for entry in entries(place.bench.workspace, "drafts") if entry.path == path)
    look, more = views._looked(Asked(), entry)  # type: ignore[arg-type]
    shown = Statement.parse(decode_base64url(more["signing"]["statement"]))
    with open_reviewed_draft(place.bench.context, read_draft(place.bench.workspace, path)) as reviewed:
        ours = seal(place.bench.context, reviewed, "alice", approved_utc=shown.approved_utc, nonce=shown.nonce)
    assert ours.statement == shown
    assert look.sections
