"""The service under a real systemd: installed, started, reloaded, hung, stopped, removed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import WANTING, missing
from tests.setup.booted import Machine
from tests.support import monty_draft, request_id, wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        shutil.which("systemd-nspawn") is None and os.environ.get("THREEGATE_REQUIRE_ENGINE") != "1",
        reason=WANTING + "systemd-nspawn (apt-get install systemd-container)",
    ),
]
ROOT = Path(__file__).resolve().parents[2]
WS = Path("/var/lib/gate/ws")
Said = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    if shutil.which("systemd-nspawn") is None:
        missing("systemd-nspawn (apt-get install systemd-container)")
    place = Path(sys.executable).absolute()
    if place.is_relative_to("/tmp") or place.is_relative_to("/var/tmp"):
        pytest.skip(f"{place}: the unit's PrivateTmp hides an interpreter below /tmp; check out elsewhere")
    with Machine() as booted:
        # The interpreter of this environment may lie below /root; in the thrown-away machine everybody may pass there.
        for folder in reversed(Path(sys.executable).resolve().parents):
            booted.run("chmod", "a+rx", str(folder))
        booted.run("mkdir", "-p", str(WS.parent))
        booted.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/var/lib/gate/key")
        threegate(booted, "init", str(WS), "--key", "/var/lib/gate/key.pub", cwd=WS.parent)
        yield booted


def threegate(machine: Machine, *words: str, account: str = "", check: bool = True, cwd: Path = WS) -> Said:
    as_account = ["runuser", "-u", account, "--", "env", f"HOME=/var/lib/{account}"] if account else []
    return machine.run(*as_account, sys.executable, "-P", "-m", "threegate", *words, check=check, cwd=cwd)


def state(machine: Machine) -> dict[str, str]:
    said = threegate(machine, "settings", "service", "status", "--json", check=False).stdout
    value = json.loads(said)
    assert isinstance(value, dict)
    return value


def journal(machine: Machine, name: str = "threegate") -> str:
    return machine.run("journalctl", "--no-pager", "-u", name, "-o", "cat").stdout


def events(machine: Machine, kind: str) -> list[dict[str, object]]:
    lines = (machine.root / f"{WS}/tool-exec/audit/trail.jsonl".lstrip("/")).read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["type"] == kind]


@pytest.mark.slow
def test_the_life_of_the_service(machine: Machine) -> None:
    asked = threegate(machine, "settings", "service", "install", check=False)
    assert asked.returncode == 2 and "give --yes" in asked.stderr
    assert "will  write /etc/systemd/system/threegate.service" in asked.stdout
    assert not (machine.root / "etc/systemd/system/threegate.service").exists()

    threegate(machine, "settings", "service", "install", "--yes")
    told = state(machine)
    assert (told["running"], told["SubState"], told["UnitFileState"]) == (True, "running", "enabled")
    main = told["MainPID"]
    status = machine.run("cat", f"/proc/{main}/status").stdout
    assert "NoNewPrivs:\t1" in status and "CapBnd:\t0000000000000000" in status and "Seccomp:\t2" in status
    for place in ("/etc/x", "/usr/x", "/var/lib/gate/x", "/var/lib/threegate/x"):
        refused = machine.run("nsenter", "-t", main, "-m", "touch", place, check=False)
        assert "Read-only file system" in refused.stderr, (place, refused)
    machine.run("nsenter", "-t", main, "-m", "test", "-w", f"{WS}/tool-exec")

    # The operator signs with a key that the service's account cannot read.
    rid = request_id("served")
    draft = WS / "inbox" / f"{rid}.md"
    (machine.root / str(draft).lstrip("/")).write_text(monty_draft(rid, "sum(range(10))"))
    wait_until(lambda: any(event["request_id"] == rid for event in events(machine, "validated")))
    statement = threegate(
        machine, "approve", str(draft), "--print-statement", "--as", "operator", account="threegate"
    ).stdout
    (machine.root / "var/lib/gate/statement").write_text(statement)
    machine.run(
        "ssh-keygen",
        "-q",
        "-Y",
        "sign",
        "-n",
        "threegate-approval",
        "-f",
        "/var/lib/gate/key",
        "/var/lib/gate/statement",
    )
    signed = statement + "\n" + (machine.root / "var/lib/gate/statement.sig").read_text()
    (machine.root / "var/lib/gate/approval.sig").write_text(signed)
    threegate(
        machine,
        "approve",
        str(draft),
        "--signature",
        "/var/lib/gate/approval.sig",
        "--yes",
        account="threegate",
    )
    wait_until(lambda: events(machine, "finished") != [])
    assert events(machine, "finished")[0]["data"]["status"] == "succeeded"  # type: ignore[index]
    results = machine.root / f"{WS}/tool-exec/results".lstrip("/")
    wait_until(lambda: any(results.glob("TS-*.md")))  # the event announces it
    [result] = results.glob("TS-*.md")
    text = result.read_text()
    for wall in (
        'network_namespace: "own"',
        'ipc_namespace: "own"',
        'no_new_privs: "yes"',
        'capabilities: "none"',
    ):
        assert wall in text, text

    changed = machine.root / f"{WS}/threegate.toml".lstrip("/")
    changed.write_text(changed.read_text().replace("# checkpoint_every = 1000", "checkpoint_every = 7"))
    machine.run("systemctl", "reload", "threegate")  # returns when the signal is sent
    wait_until(lambda: events(machine, "settings_changed") != [])
    assert [event["data"]["changed"] for event in events(machine, "settings_changed")] == [  # type: ignore[index]
        ["audit.checkpoint_every"]
    ]
    assert state(machine)["MainPID"] == main
    lines = [json.loads(line) for line in journal(machine).splitlines() if line.startswith("{")]
    assert {"ready", "finished", "reloaded"} <= {line["event"] for line in lines}
    assert all(line["workspace"].startswith("ws-") for line in lines)
    _a_daemon_that_hangs_is_started_anew(machine)


def _a_daemon_that_hangs_is_started_anew(machine: Machine) -> None:
    machine.run("mkdir", "-p", "/etc/systemd/system/threegate.service.d")
    drop_in = machine.root / "etc/systemd/system/threegate.service.d/quick.conf"
    drop_in.write_text("[Service]\nWatchdogSec=3\nRestartSec=1\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", "threegate")
    before = state(machine)["MainPID"]
    time.sleep(3.5)  # nothing is to happen for longer than the watchdog waits
    assert state(machine)["MainPID"] == before, "a loop that turns is left alone"
    machine.run("kill", "-STOP", before)
    wait_until(lambda: state(machine)["MainPID"] not in ("0", before) and bool(state(machine)["running"]))
    assert "Watchdog timeout" in machine.run("journalctl", "--no-pager", "-u", "threegate").stdout
    machine.run("systemctl", "stop", "threegate")
    told = state(machine)
    assert (told["running"], told["Result"]) == (False, "success")
    assert '"event": "ended"' in journal(machine)
    verified = threegate(machine, "audit", "verify", account="threegate")
    assert "trail verifies" in verified.stdout
    threegate(machine, "settings", "service", "uninstall", "--yes")
    assert not (machine.root / "etc/systemd/system/threegate.service").exists()
    again = threegate(machine, "settings", "service", "uninstall", "--yes", check=False)
    assert again.returncode == 2 and "no such service" in again.stderr


@pytest.mark.slow
def test_the_unit_with_era_keeps_the_machine_s_own_mounts(machine: Machine) -> None:
    threegate(machine, "settings", "service", "install", "--era", "--yes", "--name", "gate-era")
    main = json.loads(threegate(machine, "settings", "service", "status", "--name", "gate-era", "--json").stdout)[
        "MainPID"
    ]
    own = machine.run("readlink", f"/proc/{main}/ns/mnt").stdout
    assert own == machine.run("readlink", "/proc/1/ns/mnt").stdout
    status = machine.run("cat", f"/proc/{main}/status").stdout
    assert "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
    threegate(machine, "settings", "service", "uninstall", "--yes", "--name", "gate-era")


@pytest.mark.slow
def test_a_threegate_that_is_installed_in_a_home_is_started(machine: Machine) -> None:
    """A virtual environment in a home: the unit lets the daemon see it. Hidden, the same unit does not start."""
    venv, name = Path("/home/alice/venv"), "gate-home"
    machine.run("mkdir", "-p", str(venv.parent))
    machine.run(sys._base_executable, "-m", "venv", "--without-pip", str(venv))  # type: ignore[attr-defined]
    found = [path for path in sys.path if path.endswith("site-packages")]
    (site,) = machine.root.joinpath(*venv.parts[1:]).glob("lib/python*/site-packages")
    (site / "threegate.pth").write_text("\n".join([str(ROOT), *found]) + "\n")
    machine.run(
        str(venv / "bin" / "python"),
        "-P",
        "-m",
        "threegate",
        "settings",
        "service",
        "install",
        "--yes",
        "--name",
        name,
        cwd=WS,
    )
    unit = f"/etc/systemd/system/{name}.service"
    text = (machine.root / unit.lstrip("/")).read_text()
    assert f"\nExecStart={venv}/bin/python " in text and "\nProtectHome=read-only\n" in text
    verified = machine.run("systemd-analyze", "verify", unit)
    assert name not in verified.stderr, verified.stderr
    assert machine.run("systemctl", "is-active", name, check=False).stdout.strip() == "active"
    pid = machine.run("systemctl", "show", "-P", "MainPID", name).stdout.strip()
    assert machine.run("cat", f"/proc/{pid}/cmdline").stdout.startswith(f"{venv}/bin/python\0")
    machine.run("systemctl", "stop", name)
    (machine.root / f"{unit.lstrip('/')}.d").mkdir()
    (machine.root / f"{unit.lstrip('/')}.d" / "hide.conf").write_text("[Service]\nProtectHome=yes\nRestart=no\n")
    machine.run("systemctl", "daemon-reload")
    assert machine.run("systemctl", "start", name, check=False).returncode != 0
    assert machine.run("systemctl", "show", "-P", "ExecMainStatus", name).stdout.strip() == "203"  # EXIT_EXEC
    threegate(machine, "settings", "service", "uninstall", "--yes", "--name", name)
