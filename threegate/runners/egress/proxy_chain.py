"""The only way out of a run with an allowlist: a relay, a unix socket, and a proxy for this run
(docs/spec/6-runners.md, Network allowlist).

Invariant: the run's network namespace is the relay's and has no interface but lo; only the proxy has a
network; both helpers have no capabilities, a read-only root and limits, and are removed with the run.
"""

from __future__ import annotations

import secrets
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import docker
from docker.types import Mount

from threegate.core import durable, limits
from threegate.core.errors import Unavailable
from threegate.core.public_address import own_addresses
from threegate.request.job import Job
from threegate.runners.egress.egress import read_access_log, squid_conf
from threegate.runners.egress.routes import block_routes
from threegate.runners.egress.secret_header import SecretHeader, forwarder, forwarder_source, listening
from threegate.runners.era import container_engine, spec
from threegate.runners.era.container_stream import attach
from threegate.runners.interface import Control, Destination

_RELAY_USER, _PROXY_USER, _FORWARDER_USER = 65533, 65532, 65531
_READY_SECONDS = 10.0


class EgressChain:
    """Relay and proxy of one run. `network` is the engine's network that the proxy joins."""

    def __init__(
        self,
        api: docker.APIClient,
        job: Job,
        control: Control,
        request_id: str,
        folder: Path,
        network: str,
        secret: SecretHeader | None = None,
    ) -> None:
        self._secret = secret
        self._api = api
        self._job = job
        self._marks = spec.labels(request_id, control)
        self._folder = folder
        self._network = network
        self._name = f"threegate-{control.boot_nonce[:8]}-{secrets.token_hex(6)}"
        self._containers: list[str] = []
        self.relay = ""
        """The relay's container id, once it runs."""
        self.relay_pid = 0
        self.proxy_pid = 0
        self.notes: list[str] = []

    def start(self) -> None:
        """Start both and wait for the socket. Raises Unavailable; then nothing of the request has run."""
        shared, conf = self._folder / "egress", self._folder / "egress-conf"
        shared.mkdir()
        conf.mkdir(mode=0o755)
        # The proxy's own user writes there; other users of this machine cannot pass the folder above.
        shared.chmod(0o777)
        container_engine.check_image(self._api, self._job.egress_image)
        try:
            (conf / "squid.conf").write_text(
                squid_conf(self._job.network, own_addresses(), self._secret), encoding="ascii"
            )
            (conf / "squid.conf").chmod(0o444)
            mounts = [spec.bind("/egress", shared, read_only=False), spec.bind("/egress-conf", conf, read_only=True)]
            network = self._network
            if self._secret is not None:
                # First of all, and before the proxy joins its network: squid checks only once, at its start,
                # whether a peer listens.
                self._start_forwarder(self._secret, conf)
                network = f"container:{self._containers[0]}"
            self.proxy_pid = self._run("proxy", _PROXY_USER, network, mounts, 128)
            if (missing := block_routes(self.proxy_pid)) is not None:
                self.notes.append(missing)
            mounts = [spec.bind("/egress", shared, read_only=True)]
            self.relay_pid = self._run("relay", _RELAY_USER, "none", mounts, 32)
            self.relay = self._containers[-1]
        except (*container_engine.FAULTS, ValueError, KeyError) as error:
            raise Unavailable(f"the network access could not be set up ({container_engine.reason(error)})") from None
        why_not = "the proxy did not start; check with: threegate doctor --sandbox"
        _wait_until((shared / "proxy.sock").exists, self.proxy_pid, why_not)

    def _start_forwarder(self, secret: SecretHeader, conf: Path) -> None:
        """The forwarder for the one request with a secret, in the network namespace that the proxy then joins."""
        authorities = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
        shutil.copyfile(authorities, conf / "ca.pem")
        (conf / "ca.pem").chmod(0o444)
        (conf / "forwarder.py").write_bytes(forwarder_source())
        (conf / "forwarder.py").chmod(0o444)
        command = forwarder(secret, "/egress-conf/forwarder.py", "/egress-conf/ca.pem")
        mounts = [spec.bind("/egress-conf", conf, read_only=True)]
        value = f"{secret.value}\n".encode("ascii")
        pid = self._run("forwarder", _FORWARDER_USER, self._network, mounts, 96, command, value)
        table = Path(f"/proc/{pid}/net/tcp")
        _wait_until(
            lambda: listening(table.read_text(encoding="ascii")), pid, "the forwarder of a secret did not start"
        )

    def alive(self) -> bool:
        """Whether relay and proxy are still running."""
        return all(Path(f"/proc/{pid}").exists() for pid in (self.relay_pid, self.proxy_pid))

    def destinations(self) -> tuple[Destination, ...]:
        """Stop the proxy so that it writes its log, and read it, up to a limit."""
        for container in reversed(self._containers):
            try:
                self._api.kill(container, signal="TERM")
            except container_engine.FAULTS:
                continue
        end = time.monotonic() + 3
        while Path(f"/proc/{self.proxy_pid}").exists() and time.monotonic() < end:
            time.sleep(0.02)
        try:
            # The proxy's user can write to that folder, so the name may be a link or a FIFO.
            data = durable.read_regular(self._folder / "egress" / "access.log", max_bytes=limits.EGRESS_LOG_BYTES)
        except OSError:
            self.notes.append("The proxy's log cannot be read, so it is not known what was reached.")
            return ()
        found = read_access_log(data.decode("utf-8", "backslashreplace"))
        if found.unlisted:
            self.notes.append(f"Refused {found.unlisted} more attempts, at destinations that are not listed.")
        return tuple(found.destinations)

    def remove(self) -> None:
        """Remove both containers."""
        for container in self._containers:
            if not container_engine.remove_container(self._api, container):
                self.notes.append("The engine did not remove a helper container; the next start of the daemon does.")
        self._containers.clear()

    def _run(
        self,
        role: str,
        user: int,
        network: str,
        mounts: list[Mount],
        memory_mb: int,
        command: Sequence[str] = (),
        given: bytes = b"",
    ) -> int:
        """Create and start one helper, with `given` as its standard input; return its process id."""
        host: dict[str, Any] = self._api.create_host_config(
            **spec.hardened(memory_mb, {"nofile": 512, "fsize": limits.EGRESS_LOG_BYTES, "core": 0}),
            network_mode=network,
            nano_cpus=500_000_000,
            pids_limit=80,
            shm_size=16 * limits.MIB,
            tmpfs=dict.fromkeys(("/tmp", "/run"), "rw,noexec,nosuid,nodev,size=4m,mode=1777"),
            mounts=mounts,
        )
        made = self._api.create_container(
            image=self._job.egress_image,
            # Helpers also exit by themselves if no process is left to stop them.
            command=["timeout", "--signal=KILL", str(self._job.limits.time_sec + 60), *(command or [f"start-{role}"])],
            entrypoint=[],
            environment={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
            user=f"{user}:{user}",
            working_dir="/",
            host_config=host,
            labels=self._marks,
            name=f"{self._name}-{role}",
            stdin_open=bool(given),
            use_config_proxy=False,
        )
        container = str(made["Id"])
        self._containers.append(container)
        if given:
            self._start_with(container, given)
        else:
            self._api.start(container)
        return int(self._api.inspect_container(container)["State"]["Pid"])

    def _start_with(self, container: str, given: bytes) -> None:
        """Start a helper and write to its standard input, which then ends: a secret is passed in no other way."""
        with attach(self._api, container, output=False) as connection:
            connection.settimeout(container_engine.ANSWER_SECONDS)
            self._api.start(container)
            connection.sendall(given)
            connection.shutdown(socket.SHUT_WR)


def _wait_until(ready: Callable[[], bool], pid: int, message: str) -> None:
    """Raises Unavailable with the message if a helper ends, or takes too long."""
    end = time.monotonic() + _READY_SECONDS
    while not ready():
        if time.monotonic() >= end or not Path(f"/proc/{pid}").exists():
            raise Unavailable(message)
        time.sleep(0.02)
