"""docs/cluster.md typed from the top by a newcomer: four machines, each with accounts, files and a net of its own.

What stands for a machine: an overlay over this one's files, entered by bubblewrap in a network namespace. There is no
systemd in it: `systemctl` starts what the unit (the page's, Debian's, ours) names, as the account that it names. `scp`
copies from one overlay into another.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.engine_fixtures import ENGINE, IMAGE
from tests.plugins.cluster.machines import Cluster, Net, _in_namespace, _kill, inside, missing_parts
from tests.support import era_draft, monty_draft, request_id, wait_until
from threegate.core.settings import parse_settings

pytestmark = [pytest.mark.root, pytest.mark.timeout(900)]
PAGE = (Path(__file__).parents[3] / "docs" / "cluster.md").read_text()
BROKER, DAEMON = "broker.example", "the daemon's machine"
ADDRESSES = {BROKER: "10.77.0.2", DAEMON: "10.77.0.3", "w1": "10.77.0.11", "w2": "10.77.0.12"}
WS = Path("/srv/gate/ws")


def section(title: str) -> str:
    """The text of a section of the page."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def blocks(text: str) -> list[tuple[str, list[str]]]:
    """(where, command lines) of each block that is introduced by "On …:"."""
    found = re.findall(r"^On ([^\n,(:]+?)(?: ?[,(][^\n]*)?:\n\n((?: {4}.*\n)+)", text, re.M)
    return [(where, block.replace("\\\n", " ").splitlines()) for where, block in found]


def unit_of_the_page() -> str:
    found = re.search(r"^    \[Unit\]\n(?:    .*\n)*?    WantedBy=.*\n", PAGE, re.M)
    assert found is not None
    return "".join(line[4:] for line in found[0].splitlines(keepends=True))


class Computer:
    """A machine: its own files, accounts and net."""

    def __init__(self, name: str, net: Net, home: Path, number: int) -> None:
        self.name = name
        self.space = net.machine(f"m{number}", ADDRESSES[name])
        self.root = home / "root"
        self.units: dict[str, tuple[subprocess.Popen[bytes], list[str]]] = {}
        for part in ("upper", "work", "root"):
            (home / part).mkdir(mode=0o755, parents=True)
        options = f"lowerdir=/,upperdir={home}/upper,workdir={home}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(self.root)], check=True)
        with (self.root / "etc/hosts").open("a") as hosts:
            hosts.writelines(f"{address} {host}\n" for host, address in ADDRESSES.items() if " " not in host)
        for folder in reversed(Path(sys.executable).resolve().parents):  # it may lie below /root
            (self.root / str(folder).lstrip("/")).chmod((self.root / str(folder).lstrip("/")).stat().st_mode | 0o555)
        for place in ("opt/threegate/bin/threegate", "usr/local/bin/threegate"):
            program = self.root / place
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m threegate "$@"\n')
            program.chmod(0o755)

    def file(self, path: str | Path) -> Path:
        """A file of this machine, seen from outside."""
        return self.root / str(path).lstrip("/")

    def words(self, *words: str, account: str = "root") -> list[str]:
        jail = ["bwrap", "--cap-add", "ALL", "--bind", str(self.root), "/", "--dev-bind", "/dev", "/dev"]
        jail += ["--proc", "/proc", "--ro-bind", "/sys", "/sys", "--die-with-parent", "--clearenv"]
        for name, value in (("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), ("LANG", "C.UTF-8")):
            jail += ["--setenv", name, value]
        become = [] if account == "root" else ["runuser", "-u", account, "--"]
        home = "/root" if account == "root" else self.home(account)
        return inside(self.space, *jail, "--chdir", "/", "--", *become, "env", f"HOME={home}", *words)

    def home(self, account: str) -> str:
        """Its home folder, as this machine's passwd has it."""
        lines = self.file("/etc/passwd").read_text().splitlines()
        return next(line.split(":")[5] for line in lines if line.startswith(f"{account}:"))

    def run(self, *words: str, account: str = "root") -> str:
        done = subprocess.run(
            self.words(*words, account=account), capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, f"{self.name}: {words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, unit: str, text: str) -> None:
        """What a unit starts, as whom it says; a running one is ended first."""
        lines = dict(
            line.partition("=")[::2] for line in text.replace("\\\n", " ").splitlines() if not line.startswith("#")
        )
        self.stop(unit)
        before = set(_in_namespace(self.space))
        words = self.words(*shlex.split(lines["ExecStart"]), account=lines["User"])
        with self.file(f"/var/log/{unit}.out").open("ab") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.units[unit] = process, [str(pid) for pid in before]

    def stop(self, unit: str) -> None:
        process, before = self.units.pop(unit, (None, []))
        if process is not None:
            for pid in _in_namespace(self.space):
                if str(pid) not in before:
                    _kill(pid, signal.SIGTERM)
            process.wait(60)

    def log(self, unit: str) -> str:
        return self.file(f"/var/log/{unit}.out").read_text(errors="replace")

    def close(self) -> None:
        for pid in _in_namespace(self.space):
            _kill(pid, signal.SIGKILL)
        subprocess.run(["umount", "-l", str(self.root)], check=False)


class Newcomer:
    """Types lines on machines."""

    def __init__(self, computers: dict[str, Computer]) -> None:
        self.computers = computers

    def type(self, where: str, line: str) -> str:
        """One line as root; what it printed."""
        computer = self.computers[where]
        words = shlex.split(line)
        match words:
            case ["apt-get", "install", package]:
                return computer.run("dpkg", "-s", package)
            case ["scp", "-r", source, target]:
                host, _, place = target.removeprefix("root@").partition(":")
                destination = self.computers[host].file(place)
                assert destination.is_dir(), f"{line}: no such folder there"
                copy = ["cp", "-r", f"{computer.root}{source}", str(destination)]
                return subprocess.run(copy, check=True, capture_output=True, text=True, umask=0o022).stdout
            case ["systemctl", *_, "rabbitmq-server"]:
                computer.start("rabbitmq-server", Path("/lib/systemd/system/rabbitmq-server.service").read_text())
                self.wait_for_broker()
            case ["systemctl", *_, "threegate-worker"]:
                computer.start("threegate-worker", unit_of_the_page())
            case ["sudo", "threegate", *more] if more[2:] == ["settings", "service", "install", "--yes"]:
                self.start_daemon()
            case ["sudo", "-H", "-u", account, *command]:
                return computer.run(*command, account=account)
            case _:
                return computer.run(*words)
        return ""

    def type_printed(self, printed: str) -> None:
        """The lines that a command printed, each where it says."""
        where = DAEMON
        for line in printed.splitlines():
            if line.startswith("On "):
                where = line.removeprefix("On ").removesuffix(":").partition(",")[0].replace("this machine", DAEMON)
            elif line.startswith("  "):
                self.type(where, line)

    def start_daemon(self) -> None:
        computer = self.computers[DAEMON]
        computer.start(
            "threegate", computer.run("threegate", "-w", str(WS), "settings", "service", "install", "--print")
        )

    def wait_for_broker(self) -> None:
        probe = f"import socket; socket.create_connection(('{BROKER}', 5671), 1).close()"
        computer = self.computers[BROKER]
        words = computer.words(sys.executable, "-I", "-c", probe)
        wait_until(
            lambda: subprocess.run(words, capture_output=True).returncode == 0,
            lambda: computer.log("rabbitmq-server"),
            120,
        )

    def live(self) -> set[str]:
        """Workers that take work, as `status` shows them."""
        told = self.computers[DAEMON].run("threegate", "-w", str(WS), "status", "--json", account="threegate")
        return {seat["worker"] for seat in json.loads(told).get("workers", ()) if seat["live"]}

    def wait_live(self, *names: str) -> None:
        def seen() -> str:
            logs = [computer.log(unit) for computer in self.computers.values() for unit in computer.units]
            return "\n".join(log[-2000:] for log in logs)

        wait_until(lambda: self.live() == set(names), seen, 120)

    def request(self, slug: str) -> str:
        """The result of a request that the operator approved."""
        computer, name = self.computers[DAEMON], request_id(slug)
        draft = WS / "inbox" / f"{name}.md"
        computer.file(draft).write_text(monty_draft(name, "sum(range(10))", memory_mb=64))
        computer.run("threegate", "-w", str(WS), "approve", str(draft), "--as", "operator", "--key", "/srv/gate/key",
                     "--yes", account="threegate")  # fmt: skip
        results = computer.file(WS / "tool-exec/results")
        wait_until(lambda: any(results.glob(f"TS-*{name}.md")), lambda: computer.log("threegate")[-3000:], 120)
        [result] = results.glob(f"TS-*{name}.md")
        return result.read_text()


@pytest.fixture
def newcomer() -> Iterator[Newcomer]:
    if (reason := missing_parts()) is not None:
        missing(reason)
    if shutil.which("bwrap") is None:
        missing("bwrap (apt-get install bubblewrap)")
    folder = Path(tempfile.mkdtemp(prefix="threegate-page-", dir="/var/tmp"))
    folder.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        net = Net()
        stack.callback(net.close)
        computers = {}
        for number, name in enumerate(ADDRESSES):
            computers[name] = Computer(name, net, folder / str(number), number)
            stack.callback(computers[name].close)
        daemon = computers[DAEMON]
        daemon.run("useradd", "--system", "--create-home", "--home-dir", "/var/lib/threegate", "threegate")
        daemon.run("install", "-d", "-o", "threegate", "/srv/gate")
        daemon.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/srv/gate/key", account="threegate")
        daemon.run("threegate", "init", str(WS), "--key", "/srv/gate/key.pub", account="threegate")
        yield Newcomer(computers)


@pytest.mark.soak
def test_the_page(newcomer: Newcomer) -> None:
    """Set up; a request on w1; w2 comes; w1 goes, and stays away when the broker starts again."""
    setup = blocks(section("Set it up"))
    assert [where for where, _ in setup] == [DAEMON, BROKER, "w1", DAEMON, BROKER, "w1", DAEMON]
    typed = [line.strip() for _, lines in setup for line in lines]
    printed = [newcomer.type(where, line) for where, lines in setup for line in lines]
    steps = re.findall(r"^  (.*)", printed[0], re.M)
    assert [line for line in typed if line in steps] == steps, "the page shows what the command prints"
    text = newcomer.request("first")
    assert "\nstatus: succeeded\n" in text and "Run by worker w1" in text, text
    newcomer.wait_live("w1")
    worker = newcomer.computers["w1"]
    main = _in_namespace(worker.space)
    uid = int(worker.run("id", "-u", "threegate-worker"))
    assert uid in {os.stat(f"/proc/{pid}").st_uid for pid in main} and uid != 0

    add, remove = re.findall(r"^    (sudo .*)", section("Workers come and go"), re.M)
    for where, lines in setup[2:3]:
        for line in lines:
            newcomer.type(where.replace("w1", "w2"), line)
    newcomer.type_printed(newcomer.type(DAEMON, add))
    newcomer.type("w2", "systemctl enable --now threegate-worker")
    newcomer.start_daemon()
    assert "\nstatus: succeeded\n" in newcomer.request("second")
    newcomer.wait_live("w1", "w2")

    newcomer.type_printed(newcomer.type(DAEMON, remove))
    newcomer.start_daemon()
    text = newcomer.request("third")
    assert "\nstatus: succeeded\n" in text and "Run by worker w2" in text, text
    newcomer.type(BROKER, "systemctl restart rabbitmq-server")
    newcomer.wait_live("w2")
    users = newcomer.type(BROKER, "rabbitmqctl --quiet list_users")
    assert set(re.findall(r"^(\S+)\t\[", users, re.M)) == {"daemon", "w2"}, users
    assert "\nstatus: succeeded\n" in newcomer.request("fourth")


def test_the_settings_of_a_worker_with_containers() -> None:
    """The page's example is read as a worker reads it."""
    settings = parse_settings(example().encode(), "worker.toml")
    assert (settings.request.max_memory_mb, settings.runners.era.parallel) == (4096, 4)
    assert settings.runners.era.engine == "unix:///var/run/docker.sock" and settings.runners.era.require_readback


@pytest.mark.soak
@pytest.mark.engine
def test_a_worker_with_containers(tmp_path: Path) -> None:
    """A worker with the page's example takes a container's run; only the engine's socket is this machine's."""
    if (reason := missing_parts()) is not None:
        missing(reason)
    text = example().replace("unix:///var/run/docker.sock", ENGINE)
    assert ENGINE in text
    era = {"runners.era.engine": ENGINE, "runners.era.image": IMAGE, "request.max_memory_mb": 4096}
    cluster = Cluster(tmp_path, ("w1",), settings=era, worker_settings=text)
    try:
        cluster.start()
        assert "takes work: True" in cluster.workers["w1"].log
        cluster.daemon()
        name = request_id("contained")
        cluster.place.approve(cluster.place.drop(era_draft(name, "echo hello", memory_mb=128)))
        assert cluster.wait_end(name) == {name: "succeeded"}, cluster.result(name)
    finally:
        cluster.close()


def example() -> str:
    found = re.search(r"(?:^    .*\n)+", section("Containers on a worker"), re.M)
    assert found is not None
    return "".join(line[4:] for line in found[0].splitlines(keepends=True))
