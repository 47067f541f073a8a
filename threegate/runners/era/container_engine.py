"""The container engine behind its socket: one client, bounded answers, errors in one line.

Invariant: nothing waits for the engine longer than ANSWER_SECONDS, and the operator's own Docker
configuration (proxies, credentials) never reaches a container.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import docker
import docker.errors
import requests.exceptions
import urllib3.exceptions

from threegate.core.errors import Unavailable
from threegate.runners.era.engine_answer import LABEL as LABEL
from threegate.runners.era.engine_answer import engine_url as engine_url
from threegate.runners.era.engine_answer import other_engine

ANSWER_SECONDS = 6
BOOT_LABEL = "threegate.boot"
REQUEST_LABEL = "threegate.request"

FAULTS = (docker.errors.DockerException, requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError)
"""All errors that mean the engine did not answer."""


class BoundedClient(docker.APIClient):
    """A client without unbounded waits: the library's own attach has no timeout and would wait for ever."""

    told: dict[str, Any]
    """The engine's last answer about its version."""

    def version(self, api_version: bool = True) -> Any:
        """Like the library's method, and cached."""
        self.told = super().version(api_version)
        return self.told

    def request(self, method: str, url: str, **words: Any) -> Any:  # type: ignore[override]
        """Like the method of requests, with the client's timeout if none is given."""
        words.setdefault("timeout", self.timeout)
        return super().request(method, url, **words)


def connect(url: str) -> docker.APIClient:
    """A client for a local engine. Raises Unavailable with one line that says what to do."""
    path = url.removeprefix("unix://")
    if not url.startswith("unix://"):
        raise Unavailable(f"{url}: only an engine on this machine (unix://) can be measured; name its socket")
    if not Path(path).exists():
        raise Unavailable(f"no container engine: {path} does not exist; start one, or set runners.era.engine")
    try:
        client = BoundedClient(base_url=url, timeout=ANSWER_SECONDS, version="auto")
    except FAULTS as error:
        raise Unavailable(f"no container engine: {path} does not answer ({reason(error)})") from None
    if (problem := other_engine(client.told)) is not None:
        client.close()
        raise Unavailable(f"no container engine: {path} is {problem}")
    return client


def reason(error: BaseException) -> str:
    """An engine's error message, in one short line."""
    text = getattr(error, "explanation", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:300]


@contextlib.contextmanager
def client(url: str) -> Iterator[docker.APIClient]:
    """A client until the block ends."""
    opened = connect(url)
    try:
        yield opened
    finally:
        opened.close()


def check_image(api: docker.APIClient, image: str) -> dict[str, Any]:
    """The image's facts; refuses a missing image, and one with its own volumes, health checks or build hooks.

    Raises Unavailable.
    """
    try:
        facts: dict[str, Any] = api.inspect_image(image)  # type: ignore[no-untyped-call]
    except docker.errors.ImageNotFound:
        raise Unavailable(
            f"no image: {image[:19]}… is not in the engine; build it: threegate settings images"
        ) from None
    except FAULTS as error:
        raise Unavailable(f"no container engine: it does not answer ({reason(error)})") from None
    config = facts.get("Config") or {}
    # A volume of the image would be writable without our limits,
    # and a health check or hook is a command that nobody signed.
    for key in ("Volumes", "Healthcheck", "OnBuild"):
        if config.get(key):
            raise Unavailable(f"image {image[:19]}… has {key}, which no sandbox image may have; build another")
    # A tag can name another image tomorrow; the digest is part of what is signed.
    if facts["Id"] != image:
        raise Unavailable(f"image {image[:19]}… is not named by its digest; set runners.era.image to {facts['Id']}")
    return facts


NEEDED_LIMITS: Final = {"MemoryLimit": "memory", "PidsLimit": "processes", "CpuCfsQuota": "cores"}
"""What an engine reports about the limits that it can set, and the limit's name."""


def check_runtime(api: docker.APIClient, runtime: str) -> str:
    """The runtime's name for the engine. Raises Unavailable, also if the engine cannot enforce limits with it.

    Such an engine would still start a container, and the run would end as `limits_not_enforced`; so the request waits.
    """
    try:
        info = api.info()
    except FAULTS as error:
        raise Unavailable(f"no container engine: it does not answer ({reason(error)})") from None
    unlimited = [name for key, name in NEEDED_LIMITS.items() if info.get(key) is False]
    if unlimited:
        raise Unavailable(
            f"the engine limits no {', '.join(unlimited)}: a rootless engine needs cgroup v2, with these controllers "
            "delegated to its user; or set runners.era.engine to another engine"
        )
    name = runtime or str(info.get("DefaultRuntime") or "runc")
    listed = info.get("Runtimes") or {}
    # An engine may list runtimes that it would search for; one with a full path must exist.
    known = sorted(key for key, value in listed.items() if _is_there((value or {}).get("path")))
    if name not in known:
        raise Unavailable(
            f"the engine has no runtime {name!r} (it has {', '.join(known)}); add it to the engine's configuration"
        )
    return name


def _is_there(path: object) -> bool:
    return not isinstance(path, str) or not path.startswith("/") or Path(path).exists()


def remove_container(api: docker.APIClient, container: str) -> bool:
    """Kill and remove a container with its volumes; False if the engine could not do it."""
    try:
        api.remove_container(container, v=True, force=True)
    except docker.errors.NotFound:
        return True
    except docker.errors.APIError as error:
        # Our earlier attempt is already removing it.
        return "in progress" in reason(error) and _gone(api, container)
    except FAULTS:
        return False
    return True


def _gone(api: docker.APIClient, container: str) -> bool:
    """Wait until a removal in progress has finished."""
    end = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < end:
        try:
            api.inspect_container(container)
        except docker.errors.NotFound:
            return True
        except FAULTS:
            return False
        time.sleep(0.05)
    return False
