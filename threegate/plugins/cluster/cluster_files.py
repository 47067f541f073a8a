"""The parts of a cluster: a development CA, a certificate for each member, and the broker's users, queues and
permissions.

Invariant: keys are kept, copies of the workspace's files are refreshed, and the name of a removed worker is refused
while its certificate is valid; no worker can read another's queue, publish outside its own exchange, or declare
anything; the broker has one listener, TLS 1.3, and identifies every client by certificate.
"""

from __future__ import annotations

import ipaddress
import json
import re
import secrets
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.workspace import Workspace
from threegate.plugins.cluster.broker import BEAT, CHUNK, JOB, LEAD, LOST, NOTE, OUTPUT, RESULT, queue_of
from threegate.plugins.cluster.seal import WORKER
from threegate.plugins.cluster.section import BROKER_URL, ClusterSettings
from threegate.plugins.cluster.worker.identity import SIGN_KEY, WORKSPACE_KEY, signing_key
from threegate.setup.certificates import certificate_pem, certify, common_name, new_key, private_pem
from threegate.setup.settings_file import set_values
from threegate.trail.payloads import SettingsChanged
from threegate.trail.trail import Trail
from threegate.trail.workspace_key import VerifierKey

VHOST = "threegate"
DAEMON = "daemon"
WORKER_DIR = "/etc/threegate-worker"
_CA_DAYS, _RENEW = 3650, timedelta(days=limits.CERTIFICATE_LOW_DAYS)
LEAF_DAYS = 397
"""How long a member's certificate is valid."""
_OTHER_BROKER = "broker.pem"
"""In ca/: the CA of a broker that another folder made; this folder then has only its definitions."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where the broker is, kept in the folder as cluster.json."""

    host: str = "localhost"
    port: int = 5671
    vhost: str = VHOST
    broker_dir: str = "/etc/rabbitmq"

    @property
    def url(self) -> str:
        """What the daemon and the workers connect to."""
        return f"amqps://{self.host}:{self.port}/{self.vhost}"

    def user(self, name: str) -> str:
        """A member's user at the broker and its common name; users are shared by all virtual hosts."""
        return name if self.vhost == VHOST else f"{name}@{self.vhost}"


_HERE = Site()


@dataclass(frozen=True, slots=True)
class MadeCluster:
    """Where things are, the entries for threegate.toml, and what to do next."""

    folder: Path
    site: Site
    workers: tuple[str, ...]
    removed: tuple[str, ...]
    settings: dict[str, Any]
    changed: tuple[str, ...]
    """New and changed files, relative to `folder`."""
    ends: dict[str, datetime]
    """Certificates that end soon: a member's folder, the end."""

    def steps(self) -> Iterator[str]:
        """What to type, in this order; a line that ends with a colon says where."""
        folder, site, place = shlex.quote(str(self.folder)), self.site, self.site.broker_dir
        broker = {name for name in self.changed if name.startswith("broker/")}
        renewed = [name for name in self.workers if any(p.startswith(f"workers/{name}/") for p in self.changed)]
        copies = [f"scp -r {folder}/broker/. root@{site.host}:{place}/"] if broker else []
        copies += [f"scp -r {folder}/workers/{name}/. root@{name}:{WORKER_DIR}/" for name in renewed]
        if copies:
            yield "On this machine:"
            yield from copies
        if broker or self.removed:
            yield f"On {site.host}, as root:"
            yield f"chown -R rabbitmq: {place}"
        if "broker/rabbitmq.conf" in broker:
            yield "systemctl restart rabbitmq-server"
        elif broker:
            yield f"rabbitmqctl import_definitions {place}/definitions/{site.vhost}.json"
            if "broker/tls.pem" in broker:
                yield "rabbitmqctl eval 'ssl:clear_pem_cache().'"
        for name in self.removed:
            yield f"rabbitmqctl delete_user {site.user(name)}"
            for queue in definitions([name], site)["queues"]:
                if queue["name"].endswith(f".{name}"):
                    yield f"rabbitmqctl delete_queue --vhost {site.vhost} {queue['name']}"
        for name in renewed:
            yield f"On {name}, as root:"
            yield f"chown -R --reference={WORKER_DIR} {WORKER_DIR}"


def make_cluster(
    workspace: Workspace,
    folder: Path,
    workers: Sequence[str] = (),
    *,
    remove: Sequence[str] = (),
    renew: bool = False,
    **given: Any,
) -> MadeCluster:
    """Create, complete or reduce the files of a cluster below `folder`; `given` are fields of `Site` that were named.

    Raises InvalidInput, Unavailable, OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = _contents(folder)
    site = _site(folder, given)
    for name in remove:
        _remove(folder, name, enrolled=_names(workspace))
    names = sorted({*workers, *(path.name for path in folder.glob("workers/*") if path.is_dir())})
    if not names and not remove:
        raise InvalidInput("a cluster needs at least one worker; name it with --worker")
    for name in names:
        _check_name(folder, name)
    authority = _authority(folder / "ca")
    ends = {"daemon": _member(folder / DAEMON, authority, site.user(DAEMON), renew)}
    keys = []
    for name in names:
        home = folder / "workers" / name
        ends[f"workers/{name}"] = _member(home, authority, site.user(name), renew)
        _refresh(home / WORKSPACE_KEY, _workspace_key(workspace), 0o644)
        for suffix in ("", ".revoked", ".passkeys"):  # without the passkeys' pinned origin no entry is valid
            source = workspace.operators_file.with_name(workspace.operators_file.name + suffix)
            _copy(source, home / f"operators{suffix}")
        keys.append(signing_key(home / SIGN_KEY, name).public.render())
    if not (folder / "ca" / _OTHER_BROKER).exists():
        ends["broker"] = _member(folder / "broker", authority, site.host, renew, host=site.host)
        _refresh(folder / "broker" / "rabbitmq.conf", broker_configuration(site).encode(), 0o644)
        _refresh(folder / "broker" / "rabbitmq-env.conf", ENVIRONMENT.encode(), 0o644)
        _refresh(folder / "broker" / "enabled_plugins", b"[rabbitmq_auth_mechanism_ssl].\n", 0o644)
    text = json.dumps(definitions(names, site), indent=1) + "\n"
    (folder / "broker" / "definitions").mkdir(mode=0o755, parents=True, exist_ok=True)
    _refresh(folder / "broker" / "definitions" / f"{site.vhost}.json", text.encode(), 0o644)
    _refresh(folder / "cluster.json", json.dumps(asdict(site)).encode() + b"\n", 0o644)
    after = _contents(folder)
    soon = datetime.now(UTC) + _RENEW
    return MadeCluster(
        folder,
        site,
        tuple(names),
        tuple(remove),
        {
            "cluster.broker": site.url,
            "cluster.identity": str((folder / DAEMON).absolute()),
            "cluster.workers": tuple(keys),
        },
        tuple(sorted(name for name in after if after[name] != before.get(name))),
        {name: end for name, end in ends.items() if end < soon},
    )


def enter_cluster(workspace: Workspace, made: MadeCluster, *, enter: bool, actor: str) -> bool:
    """Take removed workers out of threegate.toml, and with `enter` write the rest, with an event; False if nothing
    changes.
    """
    cluster = workspace.load_settings().section(ClusterSettings)
    gone = {*made.removed, *(made.workers if enter else ())}
    kept = tuple(key for key in cluster.workers if VerifierKey.parse(key).name not in gone)
    settings = made.settings if enter else {}
    settings = {**settings, "cluster.workers": (*kept, *settings.get("cluster.workers", ()))}
    if all(getattr(cluster, name.removeprefix("cluster.")) == value for name, value in settings.items()):
        return False
    names = tuple(VerifierKey.parse(key).name for key in settings["cluster.workers"])
    trail = Trail(workspace)
    try:
        with trail.locked() as held:
            changed = SettingsChanged(reason="settings cluster", broker=made.site.url, workers=names)
            held.append(changed, actor=actor)
            held.sync()
            set_values(workspace.settings_file, settings)
    finally:
        trail.close()
    return True


def definitions(workers: Sequence[str], site: Site = _HERE) -> dict[str, Any]:
    """RabbitMQ's definitions: users without a password, and exactly the permissions that each needs."""
    one_reader = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    refusing = {"x-overflow": "reject-publish"}
    dead = {"x-dead-letter-exchange": LOST, "x-dead-letter-strategy": "at-least-once"}
    job = {"x-queue-type": "quorum", "x-delivery-limit": 0, **dead, **refusing}
    notes = {"x-max-length-bytes": limits.BROKER_NOTE_BYTES, **refusing}
    chunks = {"x-max-length": limits.BROKER_CHUNKS, "x-max-length-bytes": limits.BROKER_CHUNK_BYTES, **refusing}
    most = {"x-max-length": limits.BROKER_RESULTS, "x-max-length-bytes": limits.BROKER_RESULT_BYTES}
    results = {**one_reader, **most, **refusing}
    exchanges = {JOB: "direct", BEAT: "fanout", NOTE: "direct", CHUNK: "direct"}
    queues: list[tuple[str, str, str, Mapping[str, Any]]] = []  # exchange, routing key, queue, its arguments
    told = (*exchanges, LEAD)
    rights = [(DAEMON, f"^({'|'.join(told)})$", rf"^((res|out)\.[a-z0-9-]+|{LOST}|{LEAD})$")]
    for name in (LOST, LEAD):
        exchanges[name] = "fanout"
        queues.append((name, "", name, one_reader))
    for name in workers:
        result, output = queue_of(RESULT, name), queue_of(OUTPUT, name)
        exchanges |= {result: "fanout", output: "fanout"}
        queues += [
            (JOB, name, queue_of(JOB, name), job),
            (BEAT, "", queue_of(BEAT, name), {"x-max-length": limits.BROKER_BEATS}),
            (NOTE, name, queue_of(NOTE, name), notes),
            (CHUNK, name, queue_of(CHUNK, name), chunks),
            (result, "", result, results),
            (output, "", output, chunks),
        ]
        rights.append((name, rf"^(res|out)\.{name}$", rf"^(job|beat|note|chunk)\.{name}$"))
    here = {"vhost": site.vhost}
    kept = {**here, "durable": True, "auto_delete": False}
    user = {
        "password_hash": "",
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": "",
        "limits": {"max-connections": limits.BROKER_USER_CONNECTIONS, "max-channels": limits.BROKER_USER_CHANNELS},
    }
    bound = {"destination_type": "queue", "arguments": {}, **here}
    return {
        "vhosts": [{"name": site.vhost}],
        "users": [{"name": site.user(name), **user} for name, _, _ in rights],
        "permissions": [
            {"user": site.user(name), "configure": "^$", "write": write, "read": read, **here}
            for name, write, read in rights
        ],
        "exchanges": [
            {"name": name, "type": kind, "internal": False, "arguments": {}, **kept} for name, kind in exchanges.items()
        ],
        "queues": [{"name": name, "arguments": arguments, **kept} for _, _, name, arguments in queues],
        "bindings": [
            {"source": exchange, "routing_key": key, "destination": name, **bound} for exchange, key, name, _ in queues
        ],
    }


def broker_configuration(site: Site) -> str:
    """rabbitmq.conf: one listener, TLS 1.3, certificates only."""
    place = site.broker_dir
    return f"""# Made by `threegate settings cluster DIR`: one listener, mutual TLS 1.3, certificates only.
listeners.tcp = none
listeners.ssl.default = {site.port}
ssl_options.cacertfile = {place}/ca.pem
ssl_options.certfile = {place}/tls.pem
ssl_options.keyfile = {place}/tls.key
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
load_definitions = {place}/definitions
"""


ENVIRONMENT = """# Made by `threegate settings cluster DIR`: Erlang's own ports stay on this machine.
NODENAME=rabbit@localhost
SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}"
export ERL_EPMD_ADDRESS=127.0.0.1
"""


def _site(folder: Path, given: dict[str, Any]) -> Site:
    """What was kept, with what was named now. Raises InvalidInput, Unavailable."""
    path = folder / "cluster.json"
    try:
        kept = json.loads(durable.read_regular(path, max_bytes=limits.KEY_FILE_BYTES))
        site = Site(**{**kept, **given})
    except FileNotFoundError:
        if "host" not in given and (folder / "broker").exists():
            raise InvalidInput(f"{folder}: an earlier version did not keep the broker's name; give --host") from None
        kept, site = {}, Site(**given)
    except (OSError, ValueError, TypeError):
        raise Unavailable(f"{path}: cannot be read; remove it and give --host again") from None
    if not re.fullmatch(BROKER_URL, site.url):
        raise InvalidInput(f"{site.url[:100]}: --host or --vhost has a character that a broker's URL cannot have")
    if not re.fullmatch(r"/[A-Za-z0-9._/-]*", site.broker_dir):
        raise InvalidInput("--broker-dir: must be an absolute path of letters, digits and . _ / -")
    if kept.get("vhost", site.vhost) != site.vhost:
        raise InvalidInput(f"--vhost: {folder} is for {kept['vhost']}; each virtual host has a folder of its own")
    return site


def _names(workspace: Workspace) -> set[str]:
    """Workers that threegate.toml names."""
    return {VerifierKey.parse(key).name for key in workspace.load_settings().section(ClusterSettings).workers}


def _check_name(folder: Path, name: str) -> None:
    if not WORKER.fullmatch(name) or name == DAEMON:
        raise InvalidInput(f"{name[:40]}: not a valid worker name (a-z, 0-9 and -, at most 32 characters)")
    gone = folder / "removed" / f"{name}.pem"
    if gone.exists() and (end := _certificate(gone).not_valid_after_utc) > datetime.now(UTC):
        raise InvalidInput(
            f"{name}: was removed, and its certificate is valid until {end:%Y-%m-%d}; choose another name"
        )


def _remove(folder: Path, name: str, *, enrolled: set[str]) -> None:
    """Keep a worker's certificate and nothing else; once more changes nothing."""
    home, gone = folder / "workers" / name, folder / "removed" / f"{name}.pem"
    if not WORKER.fullmatch(name) or not (home.is_dir() or gone.exists() or name in enrolled):
        raise InvalidInput(f"{name[:40]}: not a worker of {folder} or threegate.toml")
    if home.is_dir():
        gone.parent.mkdir(mode=0o700, exist_ok=True)
        if (home / "tls.pem").exists():
            durable.overwrite(gone, (home / "tls.pem").read_bytes(), 0o644)
        shutil.rmtree(home)


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    bundle: bytes
    """Its certificate, and those that were put beside it."""


def _authority(folder: Path) -> _Authority:
    """The development CA, made once. Raises Unavailable if an existing one cannot be read."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if not (folder / "ca.pem").exists():
        made, name = new_key(), common_name(f"ThreeGate CA {secrets.token_hex(4)}")  # a broker may trust several
        own = certify(name, made.public_key(), name, made, days=_CA_DAYS, authority=True)
        durable.deliver(folder / "ca.key", private_pem(made), 0o600)
        durable.deliver(folder / "ca.pem", certificate_pem(own), 0o644)
    try:
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        certificate = _certificate(folder / "ca.pem")
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("another kind of key")
        others = [_certificate(path) for path in sorted(folder.glob("*.pem")) if path.name != "ca.pem"]
    except (OSError, ValueError):
        raise Unavailable(f"{folder}: ca.key or a certificate cannot be read; fix it or name another folder") from None
    return _Authority(certificate, key, b"".join(map(certificate_pem, (certificate, *others))))


def _member(folder: Path, authority: _Authority, user: str, renew: bool, *, host: str = "") -> datetime:
    """A certificate and its key; with `host`, one for a server. Returns its end.

    It is kept if another CA made it, or unless the name changed, or with `renew` its end is near.
    """
    folder.mkdir(mode=0o755 if host else 0o700, parents=True, exist_ok=True)
    _refresh(folder / "ca.pem", authority.bundle, 0o644)
    path = folder / "tls.pem"
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH if host else ExtendedKeyUsageOID.CLIENT_AUTH]), False)
    ]
    if host:
        extensions.append((x509.SubjectAlternativeName([_alternative(host)]), False))
    if path.exists():
        old = _certificate(path)
        due = old.subject != common_name(user) or (renew and old.not_valid_after_utc < datetime.now(UTC) + _RENEW)
        if not due or old.issuer != authority.certificate.subject:
            return old.not_valid_after_utc
    key = new_key()
    certificate = certify(
        common_name(user),
        key.public_key(),
        authority.certificate.subject,
        authority.key,
        days=LEAF_DAYS,
        extensions=extensions,
    )
    durable.overwrite(folder / "tls.key", private_pem(key), 0o600)
    durable.overwrite(path, certificate_pem(certificate), 0o644)
    return certificate.not_valid_after_utc


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise Unavailable(f"{path}: is not a certificate in PEM; replace it") from None


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _workspace_key(workspace: Workspace) -> bytes:
    path = workspace.audit / "workspace.pub"
    try:
        text = durable.read_regular(path, max_bytes=limits.KEY_FILE_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise Unavailable(f"{path}: cannot be read; threegate init DIR creates it") from None
    return VerifierKey.parse(text).render().encode() + b"\n"


def _copy(source: Path, target: Path) -> None:
    """Make `target` as `source` is, absent if that is."""
    try:
        _refresh(target, durable.read_regular(source, max_bytes=limits.OPERATORS_FILE_BYTES), 0o644)
    except FileNotFoundError:
        target.unlink(missing_ok=True)


def _refresh(path: Path, data: bytes, mode: int) -> None:
    if not path.exists() or path.read_bytes() != data:
        durable.overwrite(path, data, mode)


def _contents(folder: Path) -> dict[str, bytes]:
    """Every file below it, by its path there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
