"""The unit of a worker, as docs/cluster.md prints it, under a real systemd with a real broker: it runs, it is
killed, it stops.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import WANTING, missing
from tests.plugins.cluster.machines import RABBITMQ
from tests.setup.booted import Machine
from tests.setup.test_systemd import threegate, wait_until
from tests.support import monty_draft, request_id

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        shutil.which("systemd-nspawn") is None and os.environ.get("THREEGATE_REQUIRE_ENGINE") != "1",
        reason=WANTING + "systemd-nspawn (apt-get install systemd-container)",
    ),
]
HOME = Path("/var/lib/gate")
WS, FILES = HOME / "ws", HOME / "cluster"
BROKER = "amqps://127.0.0.1:5671/threegate"
ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "cluster.md"


def documented_unit() -> str:
    """The unit of the documentation, on this machine's interpreter and this test's broker."""
    found = re.search(r"^    \[Unit\]\n(?:    .*\n)*?    WantedBy=.*\n", DOCUMENT.read_text(), re.MULTILINE)
    assert found is not None
    unit = "".join(line[4:] for line in found[0].splitlines(keepends=True))
    for ours, theirs in (
        ("/opt/threegate/bin/threegate", f"{sys.executable} -P -m threegate"),
        ("amqps://broker.example:5671/threegate", BROKER),
        ("ProtectHome=yes", "ProtectHome=read-only"),  # the interpreter may lie below /root
        ("PrivateTmp=yes", f"PrivateTmp=yes\nBindReadOnlyPaths={ROOT}"),  # or below /tmp
    ):
        assert ours in unit
        unit = unit.replace(ours, theirs)
    return unit


@pytest.fixture
def machine() -> Iterator[Machine]:
    if shutil.which("systemd-nspawn") is None or not Path(RABBITMQ).exists():
        missing("systemd-nspawn and rabbitmq-server (apt-get install systemd-container rabbitmq-server)")
    with Machine() as booted:
        booted.run("mkdir", "-p", str(HOME))
        booted.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{HOME}/key")
        threegate(booted, "init", str(WS), "--key", f"{HOME}/key.pub", cwd=HOME)
        words = ["settings", "cluster", str(FILES), "--worker", "w1", "--host", "127.0.0.1", "--enter"]
        threegate(booted, *words, "--broker-dir", f"{FILES}/broker")
        start_broker(booted)
        yield booted


def start_broker(machine: Machine) -> None:
    """RabbitMQ from the files that `settings cluster` made, as a unit of its own."""
    machine.run("mkdir", "-p", f"{HOME}/rabbit")
    environment = {
        "HOME": f"{HOME}/rabbit",
        "RABBITMQ_MNESIA_BASE": f"{HOME}/rabbit/mnesia",
        "RABBITMQ_LOG_BASE": f"{HOME}/rabbit/log",
        "RABBITMQ_CONFIG_FILE": f"{FILES}/broker/rabbitmq.conf",
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{FILES}/broker/enabled_plugins",
        "RABBITMQ_CONF_ENV_FILE": f"{FILES}/broker/rabbitmq-env.conf",
        "RABBITMQ_NODENAME": "rabbit@localhost",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2",
    }
    given = [f"--setenv={name}={value}" for name, value in environment.items()]
    machine.run("systemd-run", "--unit=broker", *given, RABBITMQ)


def said(machine: Machine, unit: str) -> str:
    return machine.run("journalctl", "--no-pager", "-u", unit, "-o", "cat").stdout


def main_pid(machine: Machine) -> str:
    return machine.run("systemctl", "show", "-P", "MainPID", "threegate-worker").stdout.strip()


def run_one(machine: Machine, slug: str) -> str:
    """A request, approved, run by the worker; the text of its result."""
    name = request_id(slug)
    draft = WS / "inbox" / f"{name}.md"
    (machine.root / str(draft).lstrip("/")).write_text(monty_draft(name, "sum(range(10))", memory_mb=64))
    threegate(machine, "approve", str(draft), "--as", "operator", "--key", f"{HOME}/key", "--yes")
    results = machine.root / f"{WS}/tool-exec/results".lstrip("/")

    def ended() -> bool:
        return any(results.glob(f"TS-*{name}.md"))

    try:
        wait_until(ended, f"the result of {name}", 120)
    except AssertionError:
        raise AssertionError(said(machine, "gate") + said(machine, "threegate-worker")) from None
    [result] = results.glob(f"TS-*{name}.md")
    return result.read_text()


@pytest.mark.slow
def test_the_documented_unit(machine: Machine) -> None:
    """It takes work; killed, it is back by itself and takes the next; stopped, it leaves no process behind."""
    identity = FILES / "workers" / "w1"
    machine.run("useradd", "--system", "--home-dir", "/var/lib/threegate-worker", "threegate-worker")
    for folder in reversed(Path(sys.executable).resolve().parents):
        machine.run("chmod", "a+rx", str(folder))
    machine.run("cp", "-r", str(identity), "/etc/threegate-worker")
    machine.run("install", "-d", "-m", "0700", "/var/lib/threegate-worker")
    machine.run("chown", "-R", "threegate-worker", "/etc/threegate-worker", "/var/lib/threegate-worker")
    unit = machine.root / "etc/systemd/system/threegate-worker.service"
    unit.write_text(documented_unit())
    looked = machine.run("systemd-analyze", "verify", "/etc/systemd/system/threegate-worker.service", check=False)
    assert "threegate-worker" not in looked.stderr, looked.stderr
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "enable", "--now", "threegate-worker")
    wait_until(lambda: "connected to the broker" in said(machine, "threegate-worker"), "the broker", 120)
    machine.run("systemd-run", "--unit=gate", f"--working-directory={WS}", "--setenv=HOME=/root",
                sys.executable, "-P", "-m", "threegate", "run")  # fmt: skip
    text = run_one(machine, "first")
    assert "\nstatus: succeeded\n" in text and "Run by worker w1" in text, text

    killed = main_pid(machine)
    machine.run("systemctl", "kill", "--kill-who=main", "--signal=KILL", "threegate-worker")
    wait_until(lambda: main_pid(machine) not in ("0", killed), "the next process")
    wait_until(lambda: said(machine, "threegate-worker").count("connected to the broker") == 2, "the broker again", 120)
    assert "\nstatus: succeeded\n" in run_one(machine, "second")

    group = machine.run("systemctl", "show", "-P", "ControlGroup", "threegate-worker").stdout.strip()
    last = main_pid(machine)
    places = [f"/sys/fs/cgroup/systemd{group}", f"/sys/fs/cgroup{group}"]
    listing = " ".join(f"{place}/cgroup.procs" for place in places)

    def members() -> list[str]:
        return machine.run("sh", "-c", f"cat {listing} 2>/dev/null", check=False).stdout.split()

    assert last in members()
    machine.run("systemctl", "stop", "threegate-worker")
    assert machine.run("systemctl", "show", "-P", "Result", "threegate-worker").stdout.strip() == "success"
    assert machine.run("sh", "-c", f"kill -0 {last} 2>&1", check=False).returncode != 0
    assert members() == [], "a process of the worker outlived its unit"
    machine.run("systemctl", "stop", "gate", "broker", check=False)
