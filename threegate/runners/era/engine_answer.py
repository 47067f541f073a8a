"""Whether the container engine answers now: one small question over its socket, for a screen that cannot wait.

Invariant: nothing heavy is imported, nothing is changed, and no answer is waited for longer than ANSWER_SECONDS.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from typing import Final

from threegate.core import limits
from threegate.runners.description import DoctorLine

_DEFAULT: Final = "unix:///var/run/docker.sock"
ANSWER_SECONDS: Final = 3.0
"""How long an engine may take to answer a question about itself."""


def engine_url(setting: str) -> str:
    """The engine's URL: the setting, DOCKER_HOST, or the default socket."""
    return setting or os.environ.get("DOCKER_HOST") or _DEFAULT


def engine_line(setting: str) -> DoctorLine:
    """The line of the engine that `runners.era.engine` names."""
    path = engine_url(setting).removeprefix("unix://")
    asked = _OverSocket(path)
    try:
        asked.request("GET", "/version")
        answer = json.loads(asked.getresponse().read(limits.ENGINE_VERSION_BYTES))
        version = str(answer["Version"])
    except FileNotFoundError:
        seen = f"no container engine: {path} is not there; start one, or set runners.era.engine"
        return DoctorLine("engine", "warning", seen)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        return DoctorLine("engine", "warning", f"the container engine at {path} does not answer ({why})")
    finally:
        asked.close()
    return DoctorLine("engine", "ok", f"answers, {version[:40]}")


class _OverSocket(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("engine", timeout=ANSWER_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
