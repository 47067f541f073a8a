"""The allowlist: what squid is told, what its log says, and real servers behind the real chain."""

from __future__ import annotations

import http.server
import json
import os
import random
import subprocess
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.engine_fixtures import clearance, control, docker, era_job, era_settings, run_job
from tests.runners.egress_attempts import ATTEMPTS, DIRECT, LISTED, REFUSED, TLS_SERVER, certificate
from tests.support import wait_until
from threegate.core.public_address import own_addresses
from threegate.runners.egress import proxy_chain, routes
from threegate.runners.egress.egress import read_access_log, squid_conf
from threegate.runners.era.runner import EraRunner
from threegate.runners.interface import Destination


def test_rules_stand_in_the_order_that_asks_no_resolver_for_what_is_not_listed() -> None:
    text = squid_conf(["a.example:443", "b.example:80"], ["192.0.2.9"])
    rules = [line for line in text.splitlines() if line.startswith("http_access")]
    assert rules == [
        "http_access deny manager",
        "http_access deny literal",
        "http_access deny !names",
        "http_access deny !port0 !port1",
        "http_access deny refused",
        "http_access allow host0 port0",
        "http_access allow host1 port1",
        "http_access deny all",
    ]
    assert "acl host0 dstdomain -n a.example" in text.splitlines()
    refused = next(line for line in text.splitlines() if line.startswith("acl refused"))
    assert "169.254.0.0/16" in refused and refused.endswith("192.0.2.9")
    assert "http_port 127.0.0.1:3129" in text.splitlines()


@pytest.mark.parametrize(
    "pair",
    [
        "a.example",
        "a.example:0",
        "a.example:70000",
        "a.example:80\nhttp_access allow all",
        "a b:80",
        ".example:80",
        "*.example:80",
        "a.example:080",
        ":80",
        "[::1]:80",
        "A.example:80",
        "a.example:80 #",
    ],
)
def test_a_pair_that_is_none_never_reaches_the_configuration(pair: str) -> None:
    with pytest.raises(ValueError, match="not a host and a port"):
        squid_conf([pair], [])


def test_the_host_knows_its_own_addresses() -> None:
    assert "127.0.0.1" in own_addresses()


def test_the_log_is_read_in_bounds_and_as_data() -> None:
    lines = [
        "TCP_TUNNEL 200 0 500 40000 CONNECT a.example:443",
        "TCP_TUNNEL 200 60000 700 40000 CONNECT a.example:443",
        "TCP_DENIED 403 0 10 - GET http://b.example/secret?q=1",
        "TCP_MISS 200 0 20 40000 GET http://user:pw@a.example:8080/x",
        "TCP_MISS 200 0 20 40000 GET http://busy.example/a",
        "TCP_MISS 429 0 30 40000 GET http://busy.example/b",
        "TCP_DENIED 429 0 1 - GET http://c.example/",
        "TCP_DENIED 403 0 10 - GET http://\x1b[2J.example/",
        "TCP_DENIED 403 0 10 - GET http://a.example:99999/",
        "NONE_NONE 400 0 0 - - error:invalid-request",
        "TCP_MISS 503 46 3423 0 GET http://closed.example/",
        "TCP_MISS 502 50 3401 - GET http://no-name.example/",
        "TCP_MISS_ABORTED 0 79 0 40000 POST http://heard.example/",
        "broken",
        *[f"TCP_DENIED 403 0 1 - GET http://h{n}.example/" for n in range(500)],
    ]
    found, unlisted = read_access_log("\n".join(lines))
    assert Destination("a.example", 443, 61200, True) in found
    assert Destination("b.example", 80, 10, False) in found
    assert Destination("a.example", 8080, 20, True) in found
    assert Destination("busy.example", 80, 50, True, busy=True) in found
    assert Destination("heard.example", 80, 79, True) in found, "what was sent was heard, whatever came back"
    assert not {"closed.example", "no-name.example"} & {item.host for item in found}
    assert [item.host for item in found if item.busy] == ["busy.example"]
    assert len(found) == 64 + 4 and unlisted > 0
    assert all("\x1b" not in item.host and "pw" not in item.host for item in found)


NO_ENGINE: Any = None
"""There is no container to stop."""


@pytest.mark.parametrize("kind", ["gone", "link", "fifo", "folder"])
def test_a_log_that_cannot_be_read_is_not_an_empty_one(kind: str, tmp_path: Path) -> None:
    """The account of the proxy, which reads what the run sends, may write to that folder."""
    (folder := tmp_path / "egress").mkdir()
    log = folder / "access.log"
    if kind == "link":
        log.symlink_to("/etc/hostname")
    elif kind == "fifo":
        os.mkfifo(log)
    elif kind == "folder":
        log.mkdir()
    job = era_job("true", network=("a.example:443",))
    chain = proxy_chain.EgressChain(NO_ENGINE, job, control(tmp_path), "TR-1", tmp_path, "bridge")
    assert chain.destinations() == ()
    assert chain.notes == ["The proxy's log cannot be read, so it is not known what was reached."]


def test_refused_names_do_not_hide_what_was_allowed() -> None:
    """64 refused names came first, and 50 MB to the allowed host stood nowhere."""
    lines = [
        *[f"TCP_DENIED 403 1 1 - CONNECT h{n}.example:443" for n in range(500)],
        "TCP_TUNNEL 200 52428800 900 40000 CONNECT A.example.:443",
    ]
    found, unlisted = read_access_log("\n".join(lines))
    assert [item for item in found if item.allowed] == [Destination("a.example", 443, 52429700, True)]
    assert len(found) == 64 + 1 and unlisted == 500 - 64


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory):
    """A network with a routable-looking range and real servers on it: one serves two names."""
    mark = uuid.uuid4().hex[:10]
    name = f"threegate-test-{mark}"
    folder = tmp_path_factory.mktemp("tls")
    certificate(folder)
    for _ in range(20):
        base = f"52.{random.SystemRandom().randrange(20, 220)}.{random.SystemRandom().randrange(250)}.0"  # public
        try:
            docker("network", "create", "--subnet", f"{base}/28", name)
        except subprocess.CalledProcessError:
            continue
        break
    server = docker(
        "run",
        "-d",
        "--network",
        name,
        "--network-alias",
        "allowed.example",
        "--network-alias",
        "other.example",
        "--network-alias",
        "cafe.de",
        "-v",
        f"{folder}:/in:ro",
        era_settings().image,
        "python3",
        "-c",
        TLS_SERVER,
    ).strip()
    facts = json.loads(docker("inspect", server))[0]["NetworkSettings"]["Networks"][name]
    yield name, facts["Gateway"], facts["IPAddress"], server, folder
    docker("rm", "-f", server)
    docker("network", "rm", name)


engine = [pytest.mark.engine, pytest.mark.root]


class TestChain:
    """One run against real servers; every answer is looked at by itself."""

    pytestmark = engine

    @pytest.fixture(scope="class")
    def seen(self, net, tmp_path_factory: pytest.TempPathFactory):
        name, gateway, server, _, folder = net
        workspace = f"ws-{uuid.uuid4().hex}"
        runner = EraRunner(era_settings(), egress_network=name)
        from tests.engine_fixtures import with_inputs

        script = ATTEMPTS.replace(
            "import json,", "import os; os.environ['SSL_CERT_FILE'] = '/in/ca.pem'\nimport json,", 1
        )
        job = era_job(
            "/usr/bin/python3",
            "/in/s.py",
            "allowed.example",
            "8080",
            gateway,
            server,
            network=("allowed.example:8080", "allowed.example:8443", "private.example:8080"),
            time_sec=100,
            memory_mb=128,
        )
        target = tmp_path_factory.mktemp("chain")
        job = with_inputs(job, target, {"s.py": script.encode(), "ca.pem": (folder / "cert.pem").read_bytes()})
        outcome = EraRunner.run(runner, clearance(job), job, control(target, workspace_id=workspace))
        left = docker("ps", "-aq", "--filter", f"label=threegate.workspace={workspace}")
        text = outcome.stdout.kept.decode()
        assert text, (outcome.detail, outcome.stderr.kept)
        return json.loads(text), outcome, left, target

    @pytest.mark.parametrize("name", LISTED)
    def test_listed_pairs_pass(self, name: str, seen) -> None:
        assert seen[0][name] == 200

    @pytest.mark.parametrize("name", REFUSED)
    def test_everything_else_is_refused_by_the_proxy(self, name: str, seen) -> None:
        # A listed name is looked up, and this one leads nowhere.
        other = {"a listed name that nobody knows": 502, "garbage": 400}
        assert seen[0][name] == other.get(name, 403)

    @pytest.mark.parametrize("name", DIRECT)
    def test_there_is_no_other_way(self, name: str, seen) -> None:
        assert seen[0][name] == "refused"

    def test_what_was_reached_and_refused_stands_in_the_outcome(self, seen) -> None:
        _, outcome, _, _ = seen
        reached = {(item.host, item.port) for item in outcome.destinations if item.allowed}
        assert reached >= {("allowed.example", 8080), ("allowed.example", 8443)}
        assert "private.example" not in {host for host, _ in reached}, "its name leads nowhere, so nobody was reached"
        refused = {(item.host, item.port) for item in outcome.destinations if not item.allowed}
        assert refused >= {("other.example", 8080), ("nowhere.example", 8080), ("169.254.169.254", 80)}
        assert outcome.effective_limits["network"].startswith("lo, and through its own proxy: allowed.example:8080")

    def test_what_left_through_a_tunnel_is_counted(self, seen) -> None:
        """60 kB went out inside of a tunnel, of which the answer was small."""
        (sent,) = [
            item
            for item in seen[1].destinations
            if (item.host, item.port, item.allowed) == ("allowed.example", 8080, True)
        ]
        assert sent.bytes > 60_000, sent

    def test_nothing_is_left(self, seen) -> None:
        _, _, left, target = seen
        assert left == "" and not (target / "run" / "work").exists()


class TestPrivate:
    """A listed name that points to a private address, and a proxy that dies."""

    pytestmark = engine

    def test_a_listed_name_with_a_private_address_is_refused(self, tmp_path: Path) -> None:
        name = f"threegate-test-{uuid.uuid4().hex[:10]}"
        block = random.SystemRandom().randrange(1, 255)
        docker("network", "create", "--subnet", f"10.{block}.77.0/24", name)
        server = docker(
            "run",
            "-d",
            "--network",
            name,
            "--network-alias",
            "inside.example",
            era_settings().image,
            "python3",
            "-m",
            "http.server",
            "8080",
        ).strip()
        code = (
            "import urllib.request, urllib.error\ntry: "
            "print(urllib.request.urlopen('http://inside.example:8080/').status)\n"
            "except urllib.error.HTTPError as error: print(error.code)"
        )
        try:
            job = era_job("/usr/bin/python3", "-c", code, network=("inside.example:8080",), time_sec=60)
            outcome = run_job(EraRunner(era_settings(), egress_network=name), job, tmp_path)
        finally:
            docker("rm", "-f", server)
            docker("network", "rm", name)
        assert outcome.stdout.kept == b"403\n", outcome
        assert outcome.destinations == (Destination("inside.example", 8080, outcome.destinations[0].bytes, False),)

    @pytest.mark.parametrize("second", [True, False], ids=["the routes hold", "without them all is reached"])
    @pytest.mark.slow
    def test_without_squids_rules_the_routes_stop_what_is_not_public(
        self, second: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The second wall alone: a squid that allows everything. The other case proves that something was there."""
        name = f"threegate-test-{uuid.uuid4().hex[:10]}"
        docker("network", "create", "--subnet", f"10.{random.SystemRandom().randrange(1, 255)}.78.0/24", name)
        words = ("run", "-d", "--network", name, era_settings().image, "python3", "-m", "http.server", "8080")
        neighbour = docker(*words).strip()
        facts = json.loads(docker("inspect", neighbour))[0]["NetworkSettings"]["Networks"][name]
        code = (
            "import urllib.request, urllib.error\n"
            f"for url in ('{facts['IPAddress']}:8080', '{facts['Gateway']}:HOSTPORT', '169.254.169.254', "
            "'192.168.77.1'):\n"
            "  try: print(urllib.request.urlopen('http://' + url, timeout=8).status)\n"
            "  except urllib.error.HTTPError as error: print(error.code)\n"
            "  except OSError as error: print('no answer')"
        )

        def generous(*_: object) -> str:
            rules = squid_conf(["a.example:80"], []).splitlines()
            return "\n".join([line for line in rules if "http_access" not in line] + ["http_access allow all", ""])

        monkeypatch.setattr(proxy_chain, "squid_conf", generous)
        if not second:
            monkeypatch.setattr(proxy_chain, "block_routes", lambda _: None)
            code = code.replace(", '169.254.169.254', '192.168.77.1'", "")
        try:
            server = http.server.ThreadingHTTPServer((facts["Gateway"], 0), http.server.SimpleHTTPRequestHandler)
            with server:
                threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
                code = code.replace("HOSTPORT", str(server.server_port))
                job = era_job("/usr/bin/python3", "-c", code, network=("a.example:80",), time_sec=60)
                outcome = run_job(EraRunner(era_settings(), egress_network=name), job, tmp_path)
                server.shutdown()
        finally:
            docker("rm", "-f", neighbour)
            docker("network", "rm", name)
        assert outcome.stdout.kept == (b"503\n" * 4 if second else b"200\n" * 2), outcome
        assert not any("proxy" in note for note in outcome.notes)

    def test_routes_that_cannot_be_laid_are_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(routes, "TOOLS", "/nowhere")
        assert "nsenter and ip are not installed" in str(routes.block_routes(1))
        monkeypatch.undo()
        monkeypatch.setattr(routes, "_run", lambda *_: "")
        assert "no route could be added for 10.0.0.0/8" in str(routes.block_routes(1))

    def test_a_proxy_that_dies_ends_the_way_out_and_nothing_else(self, net, tmp_path: Path) -> None:
        workspace = f"ws-{uuid.uuid4().hex}"
        code = (
            "import time, urllib.request\nprint(urllib.request.urlopen('http://allowed.example:8080/').status, "
            "flush=True)\n"
            "while True:\n  time.sleep(0.2)\n  try: urllib.request.urlopen('http://allowed.example:8080/', timeout=5)\n"
            "  except OSError: print('gone'); break"
        )
        job = era_job("/usr/bin/python3", "-c", code, network=("allowed.example:8080",), time_sec=60)

        def kill_proxy() -> None:
            mine = ["ps", "-q", "--filter", f"label=threegate.workspace={workspace}"]
            wait_until(lambda: len(docker(*mine).split()) == 3, "three containers", 40)
            wait_until(steer.output.line, "the first answer", 40)
            docker("kill", docker(*mine, "--filter", "name=proxy").strip())

        steer = control(tmp_path, workspace_id=workspace)
        thread = threading.Thread(target=kill_proxy)
        thread.start()
        runner = EraRunner(era_settings(), egress_network=net[0])
        outcome = runner.run(clearance(job), job, steer)
        thread.join()
        assert outcome.status == "succeeded" and outcome.stdout.kept == b"200\ngone\n"
        assert any("proxy ended" in note for note in outcome.notes)
        assert docker("ps", "-aq", "--filter", f"label=threegate.workspace={workspace}") == ""

    def test_a_listed_name_of_hexadecimal_digits_is_no_address(self, net, tmp_path: Path) -> None:
        code = "import urllib.request\nprint(urllib.request.urlopen('http://cafe.de:8080/').status)"
        job = era_job("/usr/bin/python3", "-c", code, network=("cafe.de:8080",), time_sec=60)
        outcome = run_job(EraRunner(era_settings(), egress_network=net[0]), job, tmp_path)
        assert outcome.stdout.kept == b"200\n", outcome

    def test_a_network_that_is_not_there(self, tmp_path: Path) -> None:
        job = era_job("id", network=("allowed.example:8080",))
        outcome = run_job(EraRunner(era_settings(), egress_network="no-such-network"), job, tmp_path)
        assert outcome.status == "unavailable" and "the network access could not be set up" in outcome.detail
