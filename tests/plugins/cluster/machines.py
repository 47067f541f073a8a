"""Machines for tests: network namespaces of the test's own, a real RabbitMQ, and workers as processes of their own.

Nothing is started in the host's network: the broker's Erlang, its epmd and every port live in a namespace.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support import Place, make_place, threegate, wait_until

RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"
BROKER_ADDRESS = "10.77.0.2"
DAEMON_ADDRESS = "10.77.0.3"
COPY_ADDRESS = "10.77.0.4"
_CLONE_NEWNET = 0x40000000


def missing_parts() -> str | None:
    """What this machine lacks for a cluster of namespaces, or None."""
    if os.geteuid() != 0:
        return "root"
    if not Path(RABBITMQ).exists():
        return "rabbitmq-server (apt-get install rabbitmq-server)"
    if shutil.which("ip") is None:
        return "ip (apt-get install iproute2)"
    probe = f"tgp{secrets.token_hex(3)}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True)
    subprocess.run(["ip", "netns", "del", probe], capture_output=True)
    return None if made.returncode == 0 else "network namespaces"


class Net:
    """A bridge in a namespace, and one namespace for each machine on it."""

    def __init__(self) -> None:
        self.tag = f"tg{secrets.token_hex(3)}"
        self._names: list[str] = []
        self.hub = self._make("hub")
        _ip("-n", self.hub, "link", "add", "br0", "type", "bridge")
        _ip("-n", self.hub, "link", "set", "br0", "up")

    def machine(self, name: str, address: str) -> str:
        """A namespace with one address on the bridge; returns its name."""
        space = self._make(name)
        _ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", f"v-{name}", "netns", self.hub)
        _ip("-n", self.hub, "link", "set", f"v-{name}", "master", "br0", "up")
        _ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")
        return space

    def cut(self, name: str) -> None:
        """Take a machine off the net."""
        _ip("-n", self.hub, "link", "set", f"v-{name}", "down")

    def heal(self, name: str) -> None:
        """Put it back."""
        _ip("-n", self.hub, "link", "set", f"v-{name}", "up")

    def slow(self, name: str, rate: str) -> None:
        """A narrow line to and from a machine, as `tc` writes rates ("20mbit")."""
        for space, device in ((self.hub, f"v-{name}"), (f"{self.tag}-{name}", "eth0")):
            words = ["qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "64kb", "latency", "200ms"]
            subprocess.run(["tc", "-n", space, *words], check=True, capture_output=True)

    def close(self) -> None:
        """Remove every namespace."""
        for space in self._names:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)

    def _make(self, name: str) -> str:
        space = f"{self.tag}-{name}"
        _ip("netns", "add", space)
        self._names.append(space)
        _ip("-n", space, "link", "set", "lo", "up")
        return space


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def inside(space: str, *words: str) -> list[str]:
    """A command line on a machine's net. Only the net: `ip netns exec` would hide cgroups and mounts, which ERA
    reads back.
    """
    return ["nsenter", f"--net=/run/netns/{space}", *words]


@contextlib.contextmanager
def entered(space: str) -> Iterator[None]:
    """This thread, and threads that it starts meanwhile, open their sockets on a machine's net."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as ours, open(f"/run/netns/{space}") as theirs:
        assert libc.setns(theirs.fileno(), _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            yield
        finally:
            assert libc.setns(ours.fileno(), _CLONE_NEWNET) == 0


class Rabbit:
    """A RabbitMQ of the test's own, from what `threegate settings cluster` made."""

    def __init__(self, space: str, made: Path, home: Path) -> None:
        self._space = space
        self._made = made
        self.home = home
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("mnesia", "log", "home"):
            (home / name).mkdir(parents=True, exist_ok=True)

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": "/usr/lib/rabbitmq/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "HOME": str(self.home / "home"),
            "RABBITMQ_MNESIA_BASE": str(self.home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.home / "log"),
            "RABBITMQ_CONFIG_FILE": str(self._made / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._made / "enabled_plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(self._made / "rabbitmq-env.conf"),
            "RABBITMQ_NODENAME": "rabbit@localhost",
            "RABBITMQ_PID_FILE": str(self.home / "pid"),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2",
        }

    def start(self, seconds: float = 90) -> None:
        """Start and wait until it answers TLS."""
        with open(self.home / "console", "ab") as log:
            self._process = subprocess.Popen(
                inside(self._space, RABBITMQ),
                env=self._environment(),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        probe = f"import socket; socket.create_connection(('{BROKER_ADDRESS}', 5671), 1).close()"
        command = inside(self._space, sys.executable, "-I", "-c", probe)

        def answers() -> bool:
            assert self._process is not None and self._process.poll() is None, self.console()
            return subprocess.run(command, capture_output=True).returncode == 0

        wait_until(answers, self.console, seconds)

    def console(self) -> str:
        """What it printed last."""
        return (self.home / "console").read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """kill -9 of all of it."""
        if self._process is not None:
            for pid in self.pids():
                _kill(pid, signal.SIGKILL)
            self._process.wait(20)
            self._process = None

    def control(self, *words: str) -> str:
        """rabbitmqctl."""
        done = subprocess.run(
            inside(self._space, "/usr/lib/rabbitmq/bin/rabbitmqctl", "--quiet", *words),
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def pids(self) -> list[int]:
        """All of its processes."""
        return _in_namespace(self._space)

    def memory_mb(self) -> int:
        """What it uses now, in MiB."""
        told = json.loads(self.control("status", "--formatter", "json"))
        return int(told["memory"]["total"][told["memory"]["strategy"]]) >> 20


def _in_namespace(space: str) -> list[int]:
    answer = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True)
    return [int(word) for word in answer.stdout.split()]


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Worker:
    """A worker process in a namespace of its own."""

    def __init__(self, name: str, space: str, home: Path, broker: str, settings: str) -> None:
        self.name = name
        self.space = space
        self.home = home
        self.operators = home / "operators"
        self._broker = broker
        (home / "worker.toml").write_text(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self.more: list[str] = []
        """Further options of `threegate serve worker`."""

    @property
    def state(self) -> Path:
        """Journal, store, runs."""
        return self.home / "state"

    @property
    def log(self) -> str:
        """What it said."""
        path = self.home / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it; it connects by itself."""
        words = ["serve", "worker", "--broker", self._broker, "--operators", str(self.operators)]
        words += ["--identity", str(self.home), "--settings", str(self.home / "worker.toml"), *self.more]
        with open(self.home / "log", "ab") as log:
            self._process = subprocess.Popen(
                inside(self.space, sys.executable, "-m", "threegate", *words),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.home,
            )

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def stop(self) -> None:
        """SIGTERM, then -9."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def wait_said(self, text: str, seconds: float = 60) -> None:
        """Wait until it said something."""
        wait_until(lambda: text in self.log, lambda: f"{self.name} says {text!r}:\n{self.log[-3000:]}", seconds)


class Cluster:
    """A workspace whose requests run on workers in namespaces."""

    def __init__(
        self,
        folder: Path,
        workers: Sequence[str] = ("w1", "w2", "w3"),
        *,
        settings: dict[str, Any] | None = None,
        worker_settings: str = "[runners]\nmemory_budget_mb = 2048\ncpu_budget = 4.0\n[runners.monty]\nworkers = 2\n",
    ) -> None:
        self.net = Net()
        self.folder = folder
        self.broker_space = self.net.machine("broker", BROKER_ADDRESS)
        self.daemon_space = self.net.machine("daemon", DAEMON_ADDRESS)
        self.place: Place = make_place(folder, settings=settings)
        self.files = folder / "cluster"
        names = [word for name in workers for word in ("--worker", name)]
        done = threegate(
            "settings",
            "cluster",
            str(self.files),
            *names,
            "--host",
            BROKER_ADDRESS,
            "--broker-dir",
            str(self.files / "broker"),
            "--enter",
            cwd=self.place.root,
        )
        assert done.code == 0, done.err
        self.url = f"amqps://{BROKER_ADDRESS}:5671/threegate"
        self.rabbit = Rabbit(self.broker_space, self.files / "broker", folder / "rabbit")
        self.workers = {
            name: Worker(
                name,
                self.net.machine(name, f"10.77.0.{10 + number}"),
                self.files / "workers" / name,
                self.url,
                worker_settings,
            )
            for number, name in enumerate(workers)
        }
        self.daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Broker, then workers; returns when all of them take work."""
        for worker in self.workers.values():
            worker.start()
        self.rabbit.start()
        for worker in self.workers.values():
            worker.wait_said("connected to the broker", 120)

    def daemon(self) -> subprocess.Popen[bytes]:
        """A daemon in its namespace; its log is `daemon.log`."""
        with open(self.folder / "daemon.log", "ab") as log:
            process = subprocess.Popen(
                inside(self.daemon_space, sys.executable, "-m", "threegate", "run"),
                cwd=self.place.root,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        self.daemons.append(process)
        return process

    @property
    def daemon_log(self) -> str:
        """What the daemons said."""
        path = self.folder / "daemon.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def stop_daemons(self) -> None:
        """SIGTERM to all of them."""
        for process in self.daemons:
            if process.poll() is None:
                process.terminate()
                process.wait(60)
        self.daemons.clear()

    def wait_end(self, *requests: str, seconds: float = 90) -> dict[str, str]:
        """Wait until requests have their results; request id → status."""

        def missing() -> str:
            logs = "\n".join(f"-- {worker.name}\n{worker.log[-1500:]}" for worker in self.workers.values())
            return f"ends of {sorted(set(requests) - self.ends().keys())}\n{self.daemon_log[-2500:]}\n{logs}"

        wait_until(lambda: self.ends().keys() >= set(requests), missing, seconds)
        return self.ends()

    def ends(self) -> dict[str, str]:
        """Status of every request that has a result."""
        found = {}
        for path in (self.place.root / "tool-exec" / "results").glob("TS-*.md"):
            lines = path.read_text().splitlines()
            facts = dict(line.split(": ", 1) for line in lines[:40] if ": " in line)
            found[facts["request_id"].strip('"')] = facts["status"].strip('"')
        return found

    def result(self, request: str) -> str:
        """The result of a request as its agent reads it."""
        [path] = (self.place.root / "tool-exec" / "results").glob(f"TS-*-{request}.md")
        return path.read_text()

    def starts(self) -> dict[str, int]:
        """What an observer counts: how often each worker said that it started a request."""
        count: dict[str, int] = {}
        for worker in self.workers.values():
            for line in worker.log.splitlines():
                if "what=started " in line:
                    request = line.rpartition("started ")[2].strip()
                    count[request] = count.get(request, 0) + 1
        return count

    def close(self) -> None:
        """End everything that was started."""
        for process in self.daemons:
            if process.poll() is None:
                process.kill()
                process.wait(20)
        for worker in self.workers.values():
            worker.kill()
        self.rabbit.kill()
        for worker in self.workers.values():
            for pid in _in_namespace(worker.space):
                _kill(pid, signal.SIGKILL)
        self.net.close()


class Copy:
    """The workspace and its state, copied to the same paths on a second machine: its own net and its own mounts."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._space = cluster.net.machine("copy", COPY_ADDRESS)
        self._there = {cluster.place.root: "ws", Path(os.environ["XDG_STATE_HOME"]): "state"}
        self._folder = cluster.folder / "copy"
        self.place = Place(self._folder / "ws", cluster.place.key)
        """To read in. Its daemon and its commands see it where the first machine has its own."""
        self.take()

    def take(self) -> None:
        """Copy what the first machine has now, in place of what was here."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        for source, name in self._there.items():
            subprocess.run(["cp", "-a", str(source), str(self._folder / name)], check=True)

    def daemon(self) -> subprocess.Popen[bytes]:
        """A daemon on the second machine."""
        script = 'mount --bind "$1" "$2" && mount --bind "$3" "$4" && cd "$2" && shift 4 && exec "$@"'
        pairs = [str(path) for source, name in self._there.items() for path in (self._folder / name, source)]
        words = ["unshare", "--mount", "sh", "-c", script, "sh", *pairs, sys.executable, "-m", "threegate", "run"]
        with open(self._cluster.folder / "copy.log", "ab") as log:
            process = subprocess.Popen(inside(self._space, *words), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self._cluster.daemons.append(process)
        return process

    @property
    def log(self) -> str:
        """What its daemons said."""
        path = self._cluster.folder / "copy.log"
        return path.read_text(errors="replace") if path.exists() else ""


def peak_mb(pid: int) -> int:
    """The most memory that a process has had, in MiB."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) >> 10


def free_port() -> int:
    """A port that nobody has just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
