"""A tool server and its authorization server at a public address: added with a login, called by the daemon, logged in
to again. Nothing of ThreeGate is replaced (see `test_remote_calls`); the browser is urllib.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.plugins.tools.end_to_end.test_remote_calls import World, world
from tests.plugins.tools.https_servers import NAME, OTHER
from tests.support import THREEGATE, wait_until

SERVERS = f"""
import json, sys
from pathlib import Path
import uvicorn
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
sys.path.insert(0, {str(Path(__file__).resolve().parents[4])!r})
from tests.plugins.tools import authorization_server
from tests.plugins.tools.test_login_command import Checked

folder = Path(sys.argv[1])
chain = folder / "other.pem"
beside = folder.parent
chain.write_bytes((beside / "{OTHER}.key").read_bytes() + (beside / "{OTHER}.crt").read_bytes())
authorization_server.AUTHORITY = "{OTHER}"
url, issuer = "https://{NAME}/mcp", "https://{OTHER}:8443"

def ended(path, said):
    (folder / "tokens").open("a").write(json.dumps([item.data for item in servers.issuer.valid]) + "\\n")
    if (folder / "revoked").exists():
        (folder / "revoked").unlink()
        servers.issuer.valid.clear()
    return said

with authorization_server.serving((chain, chain), ("0.0.0.0", 8443)) as servers:
    servers.altered = ended
    servers.issuer.lives = 61
    server = MCPServer("tracker", version="1", token_verifier=Checked(servers), auth=AuthSettings(
        issuer_url=issuer, resource_server_url=url, required_scopes=["read"], validate_token_resource=True))

    @server.tool()
    def file_bug(title: str) -> str:
        with (folder / "calls").open("a") as calls:
            calls.write(json.dumps(title) + "\\n")
        return f"filed {{title}}"

    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(transport_security=security)
    uvicorn.run(app, host="0.0.0.0", port=443, ssl_certfile=sys.argv[2], ssl_keyfile=sys.argv[3], log_level="critical")
"""
BROWSER = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())"


def by_browser(made: World, *words: str) -> str:
    """What a command prints that waits for a browser."""
    command = subprocess.Popen(
        [*made.prefix, *THREEGATE, "--workspace", str(made.place.root), *words, "--yes"],
        env=made.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    said: list[str] = []
    assert command.stdout is not None
    stream = command.stdout
    reading = threading.Thread(target=lambda: said.extend(stream), daemon=True)
    reading.start()
    link = wait_until(lambda: next((line for line in list(said) if line.startswith("https://")), ""), lambda: said)
    page = subprocess.run(
        [*made.prefix, sys.executable, "-c", BROWSER, link.strip()],
        env=made.environment, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "The answer arrived." in page.stdout
    assert command.wait(60) == 0, said
    reading.join(10)
    return "".join(said)


def called(made: World, title: str) -> str:
    """The result of a call that was signed and run by the daemon."""
    draft = made.draft(title=title)
    made.signed("approve", str(draft))
    made.threegate("run", "--once")
    return made.place.result(draft.stem)


@pytest.mark.slow
def test_added_with_a_login_and_logged_in_to_again(tmp_path: Path) -> None:
    with world(tmp_path, SERVERS) as made:
        words = (
            "tools",
            "add",
            "tracker",
            "--url",
            f"https://{NAME}/mcp",
            "--as",
            "operator",
            "--key",
            str(made.place.key),
        )
        screen = by_browser(made, *words)
        assert f"https://{OTHER}:8443" in screen and "added tracker with 1 tool " in screen
        assert "filed one" in called(made, "one")
        (made.folder / "revoked").touch()
        made.threegate("tools", "test", "tracker", expect=2)
        result = called(made, "two")
        assert "status: login_required" in result and "threegate tools login tracker" in result
        assert made.calls() == ["one"]
        assert "logged in to tracker" in by_browser(made, "tools", "login", "tracker")
        assert "filed three" in called(made, "three") and made.calls() == ["one", "three"]
        made.threegate("audit", "verify")
        issued = set(re.findall(r"\b[ar]t-[A-Za-z0-9]{40,}", (made.folder / "tokens").read_text()))
        assert len(issued) >= 4
        kept = b"".join(path.read_bytes() for path in made.place.root.rglob("*") if path.is_file())
        assert not [token for token in issued if token.encode() in kept], "no file of the workspace has a token"
