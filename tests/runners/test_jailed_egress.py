"""The allowlist of a run by bubblewrap: real servers and a real name server, as root and as an ordinary account."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine_fixtures import era_job
from tests.ordinary_user import ACCOUNT, as_account, python
from tests.runners.egress_attempts import ATTEMPTS, DIRECT, LISTED, REFUSED, TLS_SERVER, certificate
from tests.runners.own_internet import HERE, THERE, Internet, own_internet
from threegate.core.errors import Unavailable
from threegate.runners.era.jailed_egress import egress_missing, open_egress

pytestmark = pytest.mark.root

PAIRS = ["allowed.example:8080", "allowed.example:8443", "private.example:8080"]
PASSED_ON = {"manager"}
"""A listed server may have any path, also one that squid keeps for itself."""
POST = """
import http.client
for more in {}, {"Expect": "100-continue"}:
    connection = http.client.HTTPConnection("127.0.0.1", 3128, timeout=20)
    headers = {"Authorization": "Basic eDp5", "Connection": "X-Hop", "X-Hop": "here", **more}
    connection.request("POST", "http://allowed.example:8082/", b"x" * 100_000, headers)
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
"""
DIES = """
import time, urllib.request
print(urllib.request.urlopen("http://allowed.example:8080/", timeout=20).status, flush=True)
while True:
    time.sleep(0.05)
    try: urllib.request.urlopen("http://allowed.example:8080/", timeout=5)
    except OSError: print("gone"); break
"""
PRIVATE = """
import urllib.request, urllib.error
for name in ("inside", "myself"):
    try: print(urllib.request.urlopen(f"http://{name}.example:8080/", timeout=20).status)
    except urllib.error.HTTPError as error: print(error.code)
"""


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    folder = Path(tempfile.mkdtemp(prefix="tg-internet-", dir="/var/tmp"))
    folder.chmod(0o755)
    certificate(folder)
    try:
        with own_internet(folder, TLS_SERVER.replace("/in/", "")) as made:
            yield made
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module", params=["root", "ordinary"])
def account(request: pytest.FixtureRequest) -> str:
    return "" if request.param == "root" else ACCOUNT


def run(internet: Internet, account: str, code: str, *argv: str, network: list[str], **more: Any) -> dict[str, Any]:
    program, path = python()
    words = {
        "argv": ["/usr/bin/python3", "-c", code, *argv],
        "network": network,
        "inputs": {"ca.pem": str(internet.folder / "cert.pem")},
        **more,
    }
    said = scene(internet, account, program, path, json.dumps(words))
    assert said["code"] == 0, said
    return said


def scene(internet: Internet, account: str, program: str, path: str, words: str) -> dict[str, Any]:
    line = [program, "-m", "tests.runners.jailed_scene", words]
    account_options = as_account(account)
    if account_options:
        ids = [f"--reuid={account_options['user']}", f"--regid={account_options['group']}", "--clear-groups"]
        line = ["/usr/bin/setpriv", *ids, "--", *line]
    environment = {"PYTHONPATH": path, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    environment["SSL_CERT_FILE"] = str(internet.folder / "cert.pem")
    done = subprocess.run(
        internet.here_run(line), env=environment, cwd="/", capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


class TestAttempts:
    """One run against real servers; every answer is looked at by itself."""

    @pytest.fixture(scope="class")
    def seen(self, internet: Internet, account: str) -> tuple[dict[str, Any], dict[str, Any], set[str]]:
        script = ATTEMPTS.replace(
            "import json,", "import os; os.environ['SSL_CERT_FILE'] = '/in/ca.pem'\nimport json,", 1
        )
        before = len(internet.asked())
        said = run(internet, account, script, "allowed.example", "8080", HERE, THERE, network=PAIRS)
        return json.loads(said["out"]), said, set(internet.asked()[before:])

    @pytest.mark.parametrize("name", LISTED)
    def test_listed_pairs_pass(self, name: str, seen) -> None:
        assert seen[0][name] == 200

    @pytest.mark.parametrize("name", [name for name in REFUSED if name not in PASSED_ON])
    def test_everything_else_is_refused(self, name: str, seen) -> None:
        assert seen[0][name] == {"a listed name that nobody knows": 502}.get(name, 403)

    @pytest.mark.parametrize("name", sorted(PASSED_ON))
    def test_a_listed_server_answers_itself(self, name: str, seen) -> None:
        assert seen[0][name] == 404

    @pytest.mark.parametrize("name", DIRECT)
    def test_there_is_no_other_way(self, name: str, seen) -> None:
        assert seen[0][name] == "refused"

    def test_no_other_name_is_looked_up(self, seen) -> None:
        assert seen[2] == {"allowed.example", "private.example"}

    def test_what_was_reached_and_refused_is_recorded(self, seen) -> None:
        destinations = seen[1]["destinations"]
        allowed = {(item["host"], item["port"]): item["bytes"] for item in destinations if item["allowed"]}
        assert set(allowed) == {("allowed.example", 8080), ("allowed.example", 8443), ("private.example", 8080)}
        assert allowed["allowed.example", 8080] > 60_000  # sent in a tunnel; the answer was small
        assert allowed["allowed.example", 8443] > 0 and allowed["private.example", 8080] == 0
        refused = {(item["host"], item["port"]) for item in destinations if not item["allowed"]}
        assert refused >= {("other.example", 8080), ("nowhere.example", 8080), ("169.254.169.254", 80)}
        assert refused >= {("allowed.example", 22), ("allowed.example", 8081)}
        assert all(item["bytes"] == 0 for item in destinations if not item["allowed"])

    def test_the_way_out_lasted(self, seen) -> None:
        assert seen[1]["network"] == f"lo, and through its own proxy: {' '.join(PAIRS)}"
        assert seen[1]["notes"] == ["Refused 4 more attempts, at destinations that are not listed."]


def test_a_listed_name_of_a_private_address_or_of_this_machine_is_refused(internet: Internet, account: str) -> None:
    network = ["inside.example:8080", "myself.example:8080"]
    said = run(internet, account, PRIVATE, network=network)
    assert said["out"] == "403\n403\n"
    assert [(item["host"], item["allowed"]) for item in said["destinations"]] == [
        ("inside.example", False),
        ("myself.example", False),
    ]


def test_a_request_with_a_body_is_written_anew_and_429_is_noted(internet: Internet, account: str) -> None:
    before = (internet.folder / "posted").read_text()
    said = run(internet, account, POST, network=["allowed.example:8082"])
    assert said["out"] == "429 busy\n" * 2
    [reached] = said["destinations"]
    assert reached["busy"] and reached["bytes"] > 200_000 and said["retry"]
    got = (internet.folder / "posted").read_text().removeprefix(before)
    assert got == "100000 allowed.example:8082 Basic eDp5 None\n" * 2


def test_a_proxy_that_dies_ends_the_way_out_and_nothing_else(internet: Internet, account: str) -> None:
    said = run(internet, account, DIES, network=["allowed.example:8080"], kill=True)
    assert said["out"] == "200\ngone\n"
    assert said["notes"] == ["The proxy ended before the run did; later connections were refused."]
    assert said["destinations"][0]["bytes"] > 0


SECRET = """
import http.client
for method, url in (("POST", "/v1"), ("POST", "/v2"), ("PUT", "/v1")):
    connection = http.client.HTTPConnection("127.0.0.1", 3128, timeout=20)
    headers = {"Authorization": "mine", "X-Hop": "not passed on"}
    connection.request(method, f"http://allowed.example{url}", b"x" * 10, headers)
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
"""


def test_a_secret_is_added_outside_and_to_the_one_request_only(internet: Internet, account: str) -> None:
    before = (internet.folder / "posted").read_text()
    secret = ["POST", "allowed.example", "/v1", "s3cret-token"]
    said = run(internet, account, SECRET, network=["allowed.example:8444"], secret=secret)
    assert said["out"] == "429 busy\n403 \n403 \n"
    got = (internet.folder / "posted").read_text().removeprefix(before)
    assert got == "10 allowed.example:8444 Bearer s3cret-token None\n"
    # Where the run asked; and what it was refused there.
    kinds = [(item["host"], item["port"], item["bytes"], item["allowed"]) for item in said["destinations"]]
    assert kinds == [("allowed.example", 80, 14, True), ("allowed.example", 80, 0, False)]


@pytest.mark.slow
def test_the_runners_own_probe_finds_every_wall_and_the_proxy(internet: Internet, account: str) -> None:
    said = scene(internet, account, *python(), "prove")
    assert said["out"], said
    walls = json.loads(said["out"])
    assert [wall for wall in walls if not wall[1]] == []
    assert "the proxy refuses what is not listed" in {name for name, _, _ in walls}
    assert [(item["host"], item["allowed"]) for item in said["destinations"]] == [("not-listed.invalid", False)]
    assert said["network"] == "lo, and through its own proxy: threegate-probe.invalid:80" and said["notes"] == []


def test_the_proxy_never_listens_on_the_loopback_of_the_machine() -> None:
    with pytest.raises(Unavailable, match="no network of its own"):
        open_egress(os.getpid(), era_job("id", network=("a.example:443",)))


def test_a_process_that_is_gone_gets_no_way_out() -> None:
    with subprocess.Popen(["/bin/true"]) as gone:
        pass
    with pytest.raises(Unavailable, match=r"no proxy can listen in the run's network \(No such file"):
        open_egress(gone.pid, era_job("id", network=("a.example:443",)))


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert egress_missing() is None
    monkeypatch.setitem(sys.modules, "h11", None)
    assert egress_missing() == "ERA by bubblewrap with a network needs h11: pip install 'threegate[era]'"
    with pytest.raises(Unavailable, match="needs h11"):
        open_egress(1, era_job("id", network=("a.example:443",)))
