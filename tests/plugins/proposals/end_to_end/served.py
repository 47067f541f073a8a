"""A server on the test engine, in a network of its own with a range that looks public."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.conftest import engine_host
from tests.support import wait_until


def docker(*arguments: str) -> str:
    """One docker command on the test engine."""
    done = subprocess.run(["docker", "-H", engine_host() or "", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@contextmanager
def served(host: str, code: str, *options: str) -> Iterator[str]:
    """The network's name, while Python `code`, which prints ``ready``, runs there under the name `host`."""
    name = f"threegate-test-{secrets.token_hex(4)}"
    docker("network", "create", "--subnet", f"52.{secrets.randbelow(200) + 20}.{secrets.randbelow(250)}.0/24", name)
    container = ""
    try:
        image = os.environ["THREEGATE_TEST_IMAGE"]
        place = ("--network", name, "--network-alias", host, *options)
        container = docker("run", "-d", *place, image, "python3", "-c", code)
        wait_until(lambda: "ready" in docker("logs", container), "the server")
        yield name
    finally:
        if container:
            docker("rm", "-f", container)
        docker("network", "rm", name)
