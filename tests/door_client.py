"""A door as a real process, driven by the mcp package's own client, beside a real daemon."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from tests.support import Place, wait_until
from threegate.core.workspace import AgentRun


def parameters(place: Place, run: AgentRun | None, *options: str) -> StdioServerParameters:
    """How a client starts the door of a run, or of the inbox."""
    of = ["--run", run.run_id] if run else []
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "threegate", "--workspace", str(place.root), "serve", "mcp", *of, *options],
        cwd=place.root.parent,
        env=_environment(),
    )


def _environment() -> dict[str, str]:
    import os

    return {key: value for key, value in os.environ.items() if key != "THREEGATE_WORKSPACE"}


def with_door(place: Place, run: AgentRun | None, work: Callable[[Client], Awaitable[Any]], *options: str) -> Any:
    """Run `work` with a client of a door."""
    return with_client(parameters(place, run, *options), work)


def with_client(how: StdioServerParameters, work: Callable[[Client], Awaitable[Any]]) -> Any:
    """Run `work` with a client of a process."""

    async def go() -> Any:
        async with Client(how, read_timeout_seconds=90) as client:
            return await work(client)

    return asyncio.run(go())


@contextmanager
def daemon(place: Place) -> Iterator[Any]:
    """A daemon for the block. What it logs is read all the time: it would stop for ever behind a full pipe."""
    process = place.daemon()
    reader = threading.Thread(target=process.stderr.read, name="log", daemon=True)
    reader.start()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        reader.join(10)
        if process.stderr is not None:
            process.stderr.close()


async def approved(place: Place, folder: Path) -> Path:
    """Approve the one draft that comes into a folder, as an operator in another terminal would."""
    verdicts = folder.parent / "verdicts"

    def looked() -> list[Path]:
        return [path for path in folder.glob("TR-*.md") if (verdicts / f"{path.name}.json").exists()]

    found = await asyncio.to_thread(wait_until, looked, "a draft", 30)
    await asyncio.to_thread(place.approve, found[0])
    return found[0]
