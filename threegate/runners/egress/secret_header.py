"""A secret that a run's proxy adds to one request: for one method, host and path, and never inside a sandbox.

Invariant: the value exists only in the daemon's memory and in the memory of the run's forwarder, which gets
it on its standard input, as long as the run lasts; no file, argument, environment, request, trail, result or
run contains it. Only a job made from a proposal for the tool with that name gets one, and only if its one
allowed host is the one that the operator's reference names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from threegate.core.errors import Unavailable
from threegate.core.secret_value import read_secret
from threegate.core.settings import SecretReference
from threegate.request.exposure import secret_name
from threegate.request.job import Job

FORWARD_PORT: Final = 3130


@dataclass(frozen=True, slots=True)
class SecretHeader:
    """What the proxy adds, and to what. `value` is never shown."""

    method: str
    host: str
    port: int
    path: str
    value: str = field(repr=False)


def secret_for(job: Job, references: Mapping[str, SecretReference]) -> SecretHeader | None:
    """The secret of a job, read now; None for a job that needs none. Raises Unavailable if it cannot be obtained."""
    name = secret_name(job.tool, job.proposal_sha256)
    if name is None:
        return None
    reference = references.get(name)
    if reference is None:
        raise Unavailable(f"no secret: put secrets.{name} with env or file into threegate.toml")
    if len(job.network) != 1 or job.network[0].rpartition(":")[0] != reference.host:
        raise Unavailable(f"no secret: secrets.{name} in threegate.toml is for another host than this run's")
    host, _, port = job.network[0].rpartition(":")
    return SecretHeader(reference.method, host, int(port), reference.path, read_secret(name, reference))


def squid_lines(secret: SecretHeader) -> list[str]:
    """squid's rules: this one request goes to the forwarder, which adds the header; no other request to the host does.

    squid checks only once, while it starts, whether a peer listens, and treats one that did not as dead: a request then
    finds no route (ERR_READ_ERROR). So the forwarder must listen before squid starts.
    """
    path = re.sub(r"([^A-Za-z0-9/_-])", r"\\\1", secret.path)
    return [
        f"acl secret_host dstdomain -n {secret.host}",
        f"acl secret_method method {secret.method}",
        f"acl secret_path urlpath_regex ^{path}$",
        "acl secret_plain port 80",
        f"cache_peer 127.0.0.1 parent {FORWARD_PORT} 0 no-query no-digest originserver name=secret"
        f" forceddomain={secret.host}",
        "cache_peer_access secret allow secret_host secret_method secret_path secret_plain",
        "cache_peer_access secret deny all",
        "never_direct allow secret_host secret_plain",
        "request_header_access Authorization deny secret_host",
        "http_access deny secret_plain secret_host refused",
        "http_access allow secret_host secret_method secret_path secret_plain",
    ]


def forwarder_source() -> bytes:
    """The forwarder's program, to be mounted next to the proxy's configuration."""
    return Path(__file__).with_name("secret_forwarder.py").read_bytes()


def forwarder(secret: SecretHeader, program: str, ca_file: str) -> list[str]:
    """The forwarder's command, without the value, which it reads from its standard input."""
    request = [secret.method, secret.host, str(secret.port), secret.path]
    return ["python3", "-I", "-S", "-B", program, *request, ca_file]


def listening(table: str) -> bool:
    """Whether the forwarder listens, according to /proc/net/tcp of its namespace (state 0A is LISTEN)."""
    return re.search(rf"^\s*\d+: 0100007F:{FORWARD_PORT:04X} \S+ 0A ", table, re.MULTILINE) is not None
