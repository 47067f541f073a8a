"""Whether the container engine answers now: one small query over its socket, for a screen that cannot wait.

Invariant: nothing heavy is imported, nothing is changed, and no answer is waited for longer than ANSWER_SECONDS.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Final

from threegate.core import limits
from threegate.runners.backend import DoctorLine

_DEFAULT: Final = "unix:///var/run/docker.sock"
ANSWER_SECONDS: Final = 3.0
"""How long an engine may take to answer a query about itself."""


def engine_url(setting: str) -> str:
    """The engine's URL: the setting, DOCKER_HOST, or the default socket."""
    return setting or os.environ.get("DOCKER_HOST") or _DEFAULT


def engine_line(setting: str) -> DoctorLine:
    """The line of the engine that `runners.era.engine` names."""
    path = engine_url(setting).removeprefix("unix://")
    try:
        version = _ask(path)
    except FileNotFoundError:
        seen = f"no container engine: {path} does not exist; start one, or set runners.era.engine"
        return DoctorLine("engine", "warning", seen)
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        return DoctorLine("engine", "warning", f"the container engine at {path} does not answer ({why})")
    return DoctorLine("engine", "ok", f"answers, {version[:40]}")


def _ask(path: str) -> str:
    """The version that the engine at a socket reports. Raises OSError, ValueError, KeyError, TypeError.

    The query uses HTTP/1.0, whose answer is one head and one body until the end: importing an HTTP client
    would be most of the work of `status`.
    """
    answer = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.settimeout(ANSWER_SECONDS)
        asked.connect(path)
        asked.sendall(b"GET /version HTTP/1.0\r\nHost: engine\r\n\r\n")
        while len(answer) <= limits.ENGINE_VERSION_BYTES and (part := asked.recv(limits.ENGINE_VERSION_BYTES)):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    if head.split()[1:2] != [b"200"]:
        raise ValueError("not an engine's answer")
    return str(json.loads(body)["Version"])
