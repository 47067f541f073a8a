"""The parts of a cluster: a development CA, a certificate for each member, and the broker's users, queues and
permissions.

Invariant: existing files are kept (a second call adds workers); no worker can read another's queue, publish
outside its own exchange, or declare anything; the broker has one listener, TLS 1.3, and identifies every
client by certificate.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.workspace import Workspace
from threegate.plugins.cluster.broker import (
    BEAT_EXCHANGE,
    CHUNK_EXCHANGE,
    JOB_EXCHANGE,
    LEAD_QUEUE,
    LOST_QUEUE,
    NOTE_EXCHANGE,
    beat_queue,
    chunk_queue,
    job_queue,
    note_queue,
    output_exchange,
    result_exchange,
)
from threegate.plugins.cluster.seal import WORKER
from threegate.plugins.cluster.section import ClusterSettings
from threegate.setup.certificates import certificate_pem, certify, common_name, new_key, private_pem
from threegate.setup.settings_file import set_values
from threegate.trail.payloads import SettingsChanged
from threegate.trail.trail import Trail
from threegate.trail.workspace_key import VerifierKey

VHOST = "threegate"
DAEMON = "daemon"
_CA_DAYS, _LEAF_DAYS = 3650, 397


@dataclass(frozen=True, slots=True)
class MadeCluster:
    """Where things are, and the entries for threegate.toml."""

    folder: Path
    workers: tuple[str, ...]
    settings: dict[str, Any]


def make_cluster(
    workspace: Workspace, folder: Path, workers: Sequence[str], *, host: str, port: int = 5671
) -> MadeCluster:
    """Create or complete the files of a cluster below `folder`. Raises InvalidInput, Unavailable, OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = sorted({*workers, *(path.name for path in folder.glob("workers/*") if path.is_dir())})
    if not names:
        raise InvalidInput("a cluster needs at least one worker; name it with --worker")
    for name in names:
        if not WORKER.fullmatch(name) or name == DAEMON:
            raise InvalidInput(f"{name[:40]}: not a valid worker name (a-z, 0-9 and -, at most 32 characters)")
    workspace_key = _workspace_key(workspace)
    authority = _authority(folder / "ca")
    _member(folder / "broker", authority, host, host=host)
    _member(folder / DAEMON, authority, DAEMON)
    keys = []
    for name in names:
        home = folder / "workers" / name
        _member(home, authority, name)
        _keep(home / "workspace.pub", workspace_key.encode() + b"\n", 0o644)
        operators = durable.read_regular(workspace.operators_file, max_bytes=limits.OPERATORS_FILE_BYTES)
        _keep(home / "operators", operators, 0o644)
        if (
            workspace.passkeys_file.exists()
        ):  # without its pinned origin no passkey entry is valid, nor any entry next to it
            pins = durable.read_regular(workspace.passkeys_file, max_bytes=limits.OPERATORS_FILE_BYTES)
            _keep(home / "operators.passkeys", pins, 0o644)
        keys.append(_result_key(home, name))
    _write_broker(folder / "broker", names, port)
    settings = {
        "cluster.broker": f"amqps://{host}:{port}/{VHOST}",
        "cluster.identity": str((folder / DAEMON).absolute()),
        "cluster.workers": tuple(keys),
    }
    return MadeCluster(folder, tuple(names), settings)


def enter_cluster(workspace: Workspace, made: MadeCluster, *, actor: str) -> bool:
    """Write the settings into threegate.toml, with an event; False if they are already there."""
    cluster = workspace.load_settings().section(ClusterSettings)
    if {f"cluster.{name}": getattr(cluster, name) for name in cluster.rules} == made.settings:
        return False
    trail = Trail(workspace)
    try:
        with trail.locked() as held:
            broker = str(made.settings["cluster.broker"])
            changed = SettingsChanged(reason="settings cluster", broker=broker, workers=made.workers)
            held.append(changed, actor=actor)
            held.sync()
            set_values(workspace.settings_file, made.settings)
    finally:
        trail.close()
    return True


def definitions(workers: Sequence[str]) -> dict[str, Any]:
    """RabbitMQ's definitions: users without a password, and exactly the permissions that each needs."""
    users = [DAEMON, *workers]
    one_reader = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    queues = [_queue(LOST_QUEUE, one_reader), _queue(LEAD_QUEUE, one_reader)]
    bindings = [_binding(LOST_QUEUE, LOST_QUEUE, ""), _binding(LEAD_QUEUE, LEAD_QUEUE, "")]
    exchanges = [
        _exchange(JOB_EXCHANGE, "direct"),
        _exchange(BEAT_EXCHANGE, "fanout"),
        _exchange(NOTE_EXCHANGE, "direct"),
        _exchange(CHUNK_EXCHANGE, "direct"),
        _exchange(LOST_QUEUE, "fanout"),
        _exchange(LEAD_QUEUE, "fanout"),
    ]
    refusing = {"x-overflow": "reject-publish"}
    chunks = _most(limits.BROKER_CHUNKS, limits.BROKER_CHUNK_BYTES)
    for name in workers:
        result, output = result_exchange(name), output_exchange(name)
        exchanges += [_exchange(result, "fanout"), _exchange(output, "fanout")]
        dead = {"x-dead-letter-exchange": LOST_QUEUE, "x-dead-letter-strategy": "at-least-once"}
        job = {"x-queue-type": "quorum", "x-delivery-limit": 0, **dead, **refusing}
        queues += [
            _queue(job_queue(name), job),
            _queue(beat_queue(name), {"x-max-length": limits.BROKER_BEATS}),
            _queue(note_queue(name), {"x-max-length-bytes": limits.BROKER_NOTE_BYTES, **refusing}),
            _queue(chunk_queue(name), chunks),
            _queue(result, {**one_reader, **_most(limits.BROKER_RESULTS, limits.BROKER_RESULT_BYTES)}),
            _queue(output, chunks),
        ]
        bindings += [
            _binding(JOB_EXCHANGE, job_queue(name), name),
            _binding(BEAT_EXCHANGE, beat_queue(name), ""),
            _binding(NOTE_EXCHANGE, note_queue(name), name),
            _binding(CHUNK_EXCHANGE, chunk_queue(name), name),
            _binding(result, result, ""),
            _binding(output, output, ""),
        ]
    most = {"max-connections": limits.BROKER_CONNECTIONS, "max-channels": limits.BROKER_CHANNELS}
    return {
        "vhosts": [{"name": VHOST}],
        "users": [
            {
                "name": name,
                "password_hash": "",
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": "",
                "limits": {} if name == DAEMON else most,
            }
            for name in users
        ],
        "permissions": [
            {
                "user": DAEMON,
                "vhost": VHOST,
                "configure": "^$",
                "write": f"^({JOB_EXCHANGE}|{BEAT_EXCHANGE}|{NOTE_EXCHANGE}|{CHUNK_EXCHANGE}|{LEAD_QUEUE})$",
                "read": rf"^((res|out)\.[a-z0-9-]+|{LOST_QUEUE}|{LEAD_QUEUE})$",
            },
            *(
                {
                    "user": name,
                    "vhost": VHOST,
                    "configure": "^$",
                    "write": rf"^(res|out)\.{name}$",
                    "read": rf"^(job|beat|note|chunk)\.{name}$",
                }
                for name in workers
            ),
        ],
        "exchanges": exchanges,
        "queues": queues,
        "bindings": bindings,
    }


def _most(messages: int, size: int) -> dict[str, Any]:
    return {"x-max-length": messages, "x-max-length-bytes": size, "x-overflow": "reject-publish"}


def broker_configuration(folder: Path, port: int) -> str:
    """rabbitmq.conf: one listener, TLS 1.3, certificates only."""
    return f"""# Made by threegate settings cluster: one listener, mutual TLS 1.3, no access without a certificate.
listeners.tcp = none
listeners.ssl.default = {port}
ssl_options.cacertfile = {folder / "ca.pem"}
ssl_options.certfile = {folder / "tls.pem"}
ssl_options.keyfile = {folder / "tls.key"}
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
ssl_options.versions.1 = tlsv1.3
auth_mechanisms.1 = EXTERNAL
ssl_cert_login_from = common_name
heartbeat = {limits.CLUSTER_HEARTBEAT_SECONDS}
max_message_size = {limits.CLUSTER_MESSAGE_BYTES}
# What quorum queues keep in memory before it goes to their own files; RabbitMQ's default is 512 MiB.
raft.wal_max_size_bytes = {limits.BROKER_WAL_BYTES}
# Longer than the longest run and the transfer of its inputs (milliseconds).
consumer_timeout = {2 * (limits.REQUEST_MAX_TIME_SEC + limits.CLUSTER_START_SECONDS + 3600) * 1000}
load_definitions = {folder / "definitions.json"}
"""


ENVIRONMENT = """# Made by threegate settings cluster: Erlang's own ports stay on this machine.
NODENAME=rabbit@localhost
SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}"
export ERL_EPMD_ADDRESS=127.0.0.1
"""


def _write_broker(folder: Path, names: Sequence[str], port: int) -> None:
    place = folder.absolute()
    text = json.dumps(definitions(names), indent=1) + "\n"
    durable.overwrite(folder / "definitions.json", text.encode(), 0o644)
    durable.overwrite(folder / "rabbitmq.conf", broker_configuration(place, port).encode(), 0o644)
    durable.overwrite(folder / "rabbitmq-env.conf", ENVIRONMENT.encode(), 0o644)
    durable.overwrite(folder / "enabled_plugins", b"[rabbitmq_auth_mechanism_ssl].\n", 0o644)


def _exchange(name: str, kind: str) -> dict[str, Any]:
    return {
        "name": name,
        "vhost": VHOST,
        "type": kind,
        "durable": True,
        "auto_delete": False,
        "internal": False,
        "arguments": {},
    }


def _queue(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "vhost": VHOST, "durable": True, "auto_delete": False, "arguments": arguments}


def _binding(source: str, queue: str, key: str) -> dict[str, Any]:
    return {
        "source": source,
        "vhost": VHOST,
        "destination": queue,
        "destination_type": "queue",
        "routing_key": key,
        "arguments": {},
    }


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return certificate_pem(self.certificate)


def _authority(folder: Path) -> _Authority:
    """The development CA, made once. Raises Unavailable if an existing one cannot be read."""
    folder.mkdir(mode=0o700, exist_ok=True)
    try:
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        certificate = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("another kind of key")
        return _Authority(certificate, key)
    except FileNotFoundError:
        pass
    except (OSError, ValueError):
        raise Unavailable(f"{folder}: ca.key or ca.pem cannot be read; fix it or name another folder") from None
    made, name = new_key(), common_name("ThreeGate development CA")
    certificate = certify(name, made.public_key(), name, made, days=_CA_DAYS, authority=True)
    durable.deliver(folder / "ca.key", private_pem(made), 0o600)
    durable.deliver(folder / "ca.pem", certificate_pem(certificate), 0o644)
    return _Authority(certificate, made)


def _member(folder: Path, authority: _Authority, name: str, *, host: str = "") -> None:
    """A certificate and its key, unless they exist; with `host`, one for a server."""
    folder.mkdir(mode=0o755 if host else 0o700, parents=True, exist_ok=True)
    _keep(folder / "ca.pem", authority.pem, 0o644)
    if (folder / "tls.pem").exists():
        return
    key = new_key()
    usage = ExtendedKeyUsageOID.SERVER_AUTH if host else ExtendedKeyUsageOID.CLIENT_AUTH
    extensions: list[tuple[x509.ExtensionType, bool]] = [(x509.ExtendedKeyUsage([usage]), False)]
    if host:
        extensions.append((x509.SubjectAlternativeName([_alternative(host)]), False))
    certificate = certify(
        common_name(name),
        key.public_key(),
        authority.certificate.subject,
        authority.key,
        days=_LEAF_DAYS,
        extensions=extensions,
    )
    durable.deliver(folder / "tls.key", private_pem(key), 0o600)
    durable.deliver(folder / "tls.pem", certificate_pem(certificate), 0o644)


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _result_key(home: Path, name: str) -> str:
    """The verifier key of a worker's results; created here for development, otherwise by the worker itself."""
    path = home / "sign.key"
    if not path.exists():
        data = Ed25519PrivateKey.generate().private_bytes_raw().hex().encode() + b"\n"
        durable.deliver(path, data, 0o600)
    try:
        private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text("ascii").strip()))
    except ValueError:
        raise Unavailable(f"{path}: not a key; move it away to have a new one made") from None
    return VerifierKey(name, private.public_key().public_bytes_raw()).render()


def _workspace_key(workspace: Workspace) -> str:
    path = workspace.audit / "workspace.pub"
    try:
        text = durable.read_regular(path, max_bytes=limits.KEY_FILE_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise Unavailable(f"{path}: cannot be read; threegate init creates it") from None
    return VerifierKey.parse(text).render()


def _keep(path: Path, data: bytes, mode: int) -> None:
    """Write a file unless it exists."""
    if not path.exists():
        durable.deliver(path, data, mode)
