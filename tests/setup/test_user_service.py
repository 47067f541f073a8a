"""The service of an ordinary user, under a user's own systemd: nothing of it needs root."""

from __future__ import annotations

import json
import os
import shutil
import sys
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
UID = "61002"
HOME = Path("/home/carol")
WS = HOME / "ws"


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A machine with a user and the user's service manager."""
    if shutil.which("systemd-nspawn") is None:
        missing("systemd-nspawn (apt-get install systemd-container)")
    with Machine() as booted:
        for folder in reversed(Path(sys.executable).resolve().parents):
            booted.run("chmod", "a+rx", str(folder))
        booted.run("useradd", "--uid", UID, "--create-home", "--home-dir", str(HOME), "carol")
        booted.run("install", "-d", "-o", "carol", "-m", "700", f"/run/user/{UID}")
        settings = [f"--setenv=XDG_RUNTIME_DIR=/run/user/{UID}", f"--setenv=HOME={HOME}"]
        manager = ["--uid=carol", "--property=Delegate=yes", "--unit=carols-manager", *settings]
        booted.run("systemd-run", *manager, "/lib/systemd/systemd", "--user", "--unit=basic.target")
        version = ["systemctl", "--user", "show", "-P", "Version"]
        wait_until(lambda: carol(booted, *version, check=False) != "", "a manager of carol's services")
        carol(booted, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{HOME}/key")
        threegate(booted, "init", str(WS), "--key", f"{HOME}/key.pub", "--operator", "carol")
        yield booted


def carol(machine: Machine, *words: str, check: bool = True) -> str:
    """What the user's command prints."""
    environment = [f"HOME={HOME}", f"XDG_RUNTIME_DIR=/run/user/{UID}"]
    done = machine.run("runuser", "-u", "carol", "--", "env", *environment, *words, check=check, cwd=HOME)
    return done.stdout + (done.stderr if done.returncode else "") if check or done.returncode == 0 else ""


def threegate(machine: Machine, *words: str) -> str:
    """The user runs one command in the workspace."""
    place = [] if words[0] == "init" else ["--workspace", str(WS)]
    return carol(machine, sys.executable, "-P", "-m", "threegate", *place, *words)


@pytest.mark.slow
def test_the_life_of_a_users_service(machine: Machine) -> None:
    told = threegate(machine, "settings", "service", "install", "--yes")
    unit = f"{HOME}/.config/systemd/user/threegate.service"
    assert f"will  write {unit}" in told and "systemctl --user enable" in told and "loginctl enable-linger" in told
    text = (machine.root / unit.lstrip("/")).read_text()
    assert "User=" not in text and "\nWantedBy=default.target\n" in text
    state = json.loads(threegate(machine, "settings", "service", "status", "--json"))
    assert (state["running"], state["StatusText"]) == (True, "0 running, 0 waiting")
    status = machine.run("cat", f"/proc/{state['MainPID']}/status").stdout
    assert f"\nUid:\t{UID}\t{UID}" in status and "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
    rid = request_id("users")
    draft = machine.root / f"{WS}/inbox/{rid}.md".lstrip("/")
    draft.write_text(monty_draft(rid, "print(6 * 7)"))
    os.chown(draft, int(UID), int(UID))
    threegate(machine, "approve", f"{WS}/inbox/{rid}.md", "--as", "carol", "--key", f"{HOME}/key", "--yes")
    told = threegate(machine, "show", "--follow", rid)
    assert "finished" in told and "succeeded" in told
    threegate(machine, "settings", "service", "uninstall", "--yes")
    assert not (machine.root / unit.lstrip("/")).exists()
    assert "not running" in threegate(machine, "status")


@pytest.mark.slow
def test_an_engine_that_the_user_may_not_speak_to_stops_the_plan(machine: Machine) -> None:
    done = machine.run(
        "runuser", "-u", "carol", "--", "env", f"HOME={HOME}", f"XDG_RUNTIME_DIR=/run/user/{UID}",
        sys.executable, "-P", "-m", "threegate", "--workspace", str(WS),
        "settings", "service", "install", "--era", "--yes",
        check=False, cwd=HOME,
    )  # fmt: skip
    assert done.returncode == 3
    assert "stop  no container engine: " in done.stdout and "socket's group" in done.stderr
    assert done.stderr.count("\n") == 1
