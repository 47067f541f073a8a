"""Lines of `threegate doctor` about a cluster: certificates, broker, workers.

Invariant: what is said of the broker was tried just now, with the daemon's own certificate, and changes nothing there:
a message that is addressed to nobody shows whether it takes any. What is said of a worker it said itself, and the line
says when.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import amqp
from cryptography import x509

from threegate.core import limits
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.cluster.broker import FAULTS, NOTE, Broker, shut
from threegate.plugins.cluster.capacity import NO_DAEMON, worker_lines
from threegate.plugins.cluster.section import ClusterSettings
from threegate.review.status import heard_text
from threegate.runners.backend import DoctorLine, LineState, guarded

_BROKER = "cluster: broker"
_DEFINITIONS = "load its definitions.json: rabbitmqctl import_definitions FILE"
_ALARM = (
    "it has an alarm (memory or disk) and takes no message, so nothing starts",
    "on its machine: rabbitmqctl status (names the alarm), rabbitmqctl list_queues -p threegate name memory",
)


def cluster_lines(workspace: Workspace, settings: Settings) -> list[DoctorLine]:
    """For the place `report`, where a broker is set."""
    cluster = settings.section(ClusterSettings)
    broker = Broker(cluster.broker, Path(cluster.identity))
    now = datetime.now(UTC)
    lines = guarded("cluster: certificates", lambda: _own_certificates(broker, now))
    lines += guarded(_BROKER, lambda: _broker(broker, now))
    for row in worker_lines(workspace, settings):
        lines += _worker(row, broker.identity, now)
    return lines


def _own_certificates(broker: Broker, now: datetime) -> Iterator[DoctorLine]:
    broker.check()
    for name, file in (("daemon's", "tls.pem"), ("CA's", "ca.pem")):
        path = broker.identity / file
        try:
            certificate = x509.load_pem_x509_certificate(path.read_bytes())
        except ValueError:
            yield DoctorLine(f"cluster: {name} certificate", "failure", f"{path} is not a certificate", _renew(broker))
            continue
        yield _certificate(f"cluster: {name} certificate", certificate.not_valid_after_utc, now, _renew(broker))


def _certificate(name: str, end: datetime, now: datetime, fix: str) -> DoctorLine:
    """How long a certificate is still valid."""
    days, day = (end - now).days, f"{end:%Y-%m-%d}"
    if end <= now:
        return DoctorLine(name, "failure", f"expired on {day}; connections with it are refused", fix)
    state: LineState = "ok" if days >= limits.CERTIFICATE_LOW_DAYS else "warning"
    return DoctorLine(name, state, f"ends in {days} days, on {day}", "" if state == "ok" else fix)


def _renew(broker: Broker, what: str = "daemon", where: str = "") -> str:
    """How a member of the cluster gets a new certificate: from our own CA, if its key is here, or from theirs."""
    folder = broker.identity.parent
    if not (folder / "ca" / "ca.key").exists():
        return "get a new one from your CA"
    copied = f", then copy {folder / what} {where}" if where else ", then restart the daemon"
    return f"threegate settings cluster {folder} --renew{copied}"


def _broker(broker: Broker, now: datetime) -> Iterator[DoctorLine]:
    """Whether it answers, with which certificate, whether it knows this daemon, and whether it takes messages."""
    parts = urlsplit(broker.url)
    place = f"{parts.hostname}:{parts.port or 5671}"
    try:
        shown = _shown_certificate(broker, str(parts.hostname), parts.port or 5671)
    except OSError as error:
        what = f"{place} does not answer ({error.strerror or error})"
        yield DoctorLine(_BROKER, "failure", what, "start RabbitMQ there, or correct cluster.broker in threegate.toml")
        return
    renew = _renew(broker, "broker", "to the broker and restart it")
    yield _certificate("cluster: broker's certificate", shown.not_valid_after_utc, now, renew)
    if (refusal := _refusal(broker, place)) is not None:
        yield DoctorLine(_BROKER, "failure", *refusal)
    else:
        yield DoctorLine(_BROKER, "ok", f"{place} takes messages, over TLS 1.3 with certificates")


def _refusal(broker: Broker, place: str) -> tuple[str, str] | None:
    """Why the broker takes no message of this daemon, and what to do; None if it takes them."""
    alarms: list[str] = []
    try:
        _publish_to_nobody(broker, alarms)
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or "it failed"
        return f"{place}: no TLS with it: {why}", _renew(broker)
    except amqp.exceptions.ConnectionError as error:
        return f"{place} refuses this daemon ({_one_line(error)})", _DEFINITIONS
    except amqp.exceptions.ChannelError as error:
        return f"{place} has other queues or rights ({_one_line(error)})", _DEFINITIONS
    except FAULTS as error:
        if not alarms:
            return f"{place} takes no message ({_one_line(error)})", "look at its log"
    return (f"{place}: {_ALARM[0]}", _ALARM[1]) if alarms else None


def _shown_certificate(broker: Broker, host: str, port: int) -> x509.Certificate:
    """The certificate that it shows, also one that nobody should accept. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is only looked at: nothing is sent
    context.load_cert_chain(broker.identity / "tls.pem", broker.identity / "tls.key")
    with (
        socket.create_connection((host, port), limits.DOCTOR_BROKER_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        return x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")


def _publish_to_nobody(broker: Broker, alarms: list[str]) -> None:
    """Publish a message that has no queue; what the broker says of an alarm goes into `alarms`. Raises FAULTS."""
    connection = broker.connection(on_blocked=lambda *reason: alarms.append(str(reason)))
    try:
        connection.connect()
        channel: Any = connection.channel()
        message = amqp.Message(b"", channel=channel)
        seconds = limits.DOCTOR_BROKER_SECONDS
        channel.basic_publish_confirm(message, NOTE, "nobody", timeout=seconds, confirm_timeout=seconds)
        with contextlib.suppress(TimeoutError):
            connection.drain_events(timeout=1.0)  # the broker reports an alarm after the first message
    finally:
        shut(connection)  # not `release`: a broker with an alarm does not answer that


def _worker(row: dict[str, Any], identity: Path, now: datetime) -> Iterator[DoctorLine]:
    """What a worker said of itself, and when."""
    name, heard = f"cluster: {row['worker']}", heard_text(row, now)
    said = f"{heard}, version {row['version'] or 'not known'}"
    if not row["live"]:
        yield DoctorLine(name, "warning", f"gets nothing: {row['reason']} ({said})", _next_step(row))
    elif row.get("operators") == "other":
        yield DoctorLine(name, "warning", f"accepts work, but its operators differ from those here ({said})", _COPY)
    else:
        yield DoctorLine(name, "ok", f"accepts work, with the version, rules and operators of this workspace ({said})")
    if row["certificate_end"]:
        end = datetime.fromtimestamp(row["certificate_end"], UTC)
        fix = _renew(Broker("", identity), f"workers/{row['worker']}", f"to {row['worker']} and restart it")
        line = _certificate(f"{name}'s certificate", end, now, fix)
        if line.state != "ok":
            yield line


_COPY = "copy tool-exec/operators and its companions there, unless its own name fewer people on purpose"


def _next_step(row: dict[str, Any]) -> str:
    """What to do about a worker that gets nothing and does not say why itself."""
    if row["reason"] == NO_DAEMON:
        return "threegate run"
    if row["heard_utc"] is None:
        return "start threegate serve worker there; its log says whether it reaches the broker"
    return ""


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
