"""Whether the container engine answers now: one small query over its socket, for a screen that cannot wait.

Invariant: nothing heavy is imported, nothing is changed, and no answer is waited for longer than ANSWER_SECONDS.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from threegate.core import limits
from threegate.core.extras import has_extra
from threegate.runners.backend import DoctorLine

LABEL: Final = "threegate.workspace"
"""The label of everything that a workspace has at the engine."""
_DEFAULT: Final = "unix:///var/run/docker.sock"
ANSWER_SECONDS: Final = 3.0
"""How long an engine may take to answer a query about itself."""
ANSWER_AGAIN_SECONDS: Final = 2.0
"""How long an answer about an image is used again."""


def engine_url(setting: str) -> str:
    """The engine's URL: the setting, DOCKER_HOST, or the default socket."""
    return setting or os.environ.get("DOCKER_HOST") or _DEFAULT


def has_engine(url: str) -> bool:
    """Whether there may be an engine to ask: its client library is installed, and its socket is there."""
    return has_extra("era") and not (url.startswith("unix://") and not Path(url.removeprefix("unix://")).exists())


def engine_line(setting: str) -> DoctorLine:
    """The line of the engine that `runners.era.engine` names."""
    path = engine_url(setting).removeprefix("unix://")
    try:
        told = _ask(path, "/version")
        version = str(told["Version"])
    except FileNotFoundError:
        seen = f"no container engine: {path} does not exist; start one, or set runners.era.engine"
        return DoctorLine("engine", "warning", seen)
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        return DoctorLine("engine", "warning", f"the container engine at {path} does not answer ({why})")
    if (other := other_engine(told)) is not None:
        return DoctorLine("engine", "warning", f"{path} is {other}")
    return DoctorLine("engine", "ok", f"answers, {version[:40]}")


def other_engine(version: Mapping[str, Any]) -> str | None:
    """One line for an engine that implements Docker's API but not Docker's restrictions."""
    parts = version.get("Components") or ()
    names = [str(part.get("Name", "")) for part in parts if isinstance(part, dict)]
    if not any("podman" in name.lower() for name in names):
        return None
    return (
        f"Podman {version.get('Version')}, which accepts neither our system call filter nor the inode limit of /tmp "
        "over this socket; name a Docker engine in runners.era.engine"
    )


_found: dict[tuple[str, str], tuple[float, bool]] = {}


def has_image(setting: str, image: str) -> bool:
    """Whether the engine answers now, enforces our restrictions, and has this image (its digest). An answer is used
    again for ANSWER_AGAIN_SECONDS.
    """
    path = engine_url(setting).removeprefix("unix://")
    asked, found = _found.get((path, image), (0.0, False))
    if asked == 0.0 or time.monotonic() - asked >= ANSWER_AGAIN_SECONDS:
        try:
            found = other_engine(_ask(path, "/version")) is None and _ask(path, f"/images/{image}/json")["Id"] == image
        except (OSError, ValueError, KeyError, TypeError):
            found = False
        _found[path, image] = (time.monotonic(), found)
    return found


def has_none_labelled(url: str, label: str) -> bool:
    """Whether the engine says that it has no container, network or volume with this label; False, too, if it says
    nothing that can be read.
    """
    path = url.removeprefix("unix://")
    chosen = quote(json.dumps({"label": [label]}))
    try:
        volumes = _ask(path, f"/volumes?filters={chosen}", dict)["Volumes"]
        others = [_ask(path, f"/{what}filters={chosen}", list) for what in ("containers/json?all=1&", "networks?")]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return not volumes and not any(others)


def _ask(path: str, what: str, kind: type = dict) -> Any:
    """What the engine at a socket answers, which has to be of this kind. Raises OSError, ValueError.

    The query uses HTTP/1.0, whose answer is one head and one body until the end: importing an HTTP client
    would be most of the work of `status`.
    """
    answer = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.settimeout(ANSWER_SECONDS)
        asked.connect(path)
        asked.sendall(f"GET {what} HTTP/1.0\r\nHost: engine\r\n\r\n".encode())
        while len(answer) <= limits.ENGINE_ANSWER_BYTES and (part := asked.recv(limits.ENGINE_ANSWER_BYTES)):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    if head.split()[1:2] != [b"200"]:
        raise ValueError("not an engine's answer")
    found = json.loads(body)
    if not isinstance(found, kind):
        raise ValueError("not an engine's answer")
    return found
