"""Servers that tests of this plugin share, or have for themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers import TOKEN, Running, start, stop


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for many tests, with a rate limit that they do not meet."""
    running = start(tmp_path_factory.mktemp("http"), "--rate", "100000")
    yield running
    assert running.process.poll() is None, "the server died"
    stop(running)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts servers that a test has for itself."""
    all_running: list[Running] = []

    def begin(*options: str, token: str | None = TOKEN) -> Running:
        folder = tmp_path / str(len(all_running))
        folder.mkdir()
        all_running.append(start(folder, *options, token=token))
        return all_running[-1]

    yield begin
    for running in all_running:
        stop(running)
