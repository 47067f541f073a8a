"""Real witnesses for the tests: `threegate serve witness` in a process of its own; and checkpoints as an attacker
signs them.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from threegate.core.workspace import Workspace
from threegate.trail import tree
from threegate.trail.checkpoint import TrailCheckpoint, sign_trail_checkpoint
from threegate.trail.cosignature import WitnessKey
from threegate.trail.trail import Trail
from threegate.trail.workspace_key import load_key

START_SECONDS = 90


@dataclass(frozen=True)
class Running:
    """A witness process: where it answers, its verifier key, its log."""

    url: str
    vkey: str
    log: Path
    process: subprocess.Popen[str]

    @property
    def key(self) -> WitnessKey:
        return WitnessKey.parse(self.vkey)


@contextmanager
def witness(folder: Path, logs: Sequence[str], *options: str, port: int = 0) -> Iterator[Running]:
    """A witness that keeps its state in `folder` and knows these logs."""
    folder.mkdir(exist_ok=True)
    log = folder / "log"
    known = [part for item in logs for part in ("--log", item)]
    with open(log, "a") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "threegate", "serve", "witness", "--port", str(port)]
            + ["--state", str(folder / "state"), *known, *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    try:
        readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
        vkey = process.stdout.readline().strip() if readable else ""
        url = process.stdout.readline().strip()
        if not url.startswith("listening on "):
            pytest.fail(f"the witness did not start: {vkey!r} {log.read_text()!r}")
        yield Running(url.removeprefix("listening on "), vkey, log, process)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def lines_of(workspace: Workspace) -> list[bytes]:
    return workspace.trail_file.read_bytes().splitlines()


def sign(workspace: Workspace, workspace_id: str) -> TrailCheckpoint:
    """A checkpoint of the lines that are there now, by whoever has the key, whatever the rules say."""
    leaves = [tree.leaf_hash(line) for line in lines_of(workspace)]
    return sign_trail_checkpoint(load_key(workspace_id), len(leaves), tree.root_of(leaves))


def fork(workspace: Workspace, place: Path, keep: int) -> tuple[Workspace, Trail]:
    """A copy of a workspace whose trail is cut after `keep` lines."""
    shutil.copytree(workspace.root, place)
    copy = Workspace(place)
    copy.trail_file.write_bytes(b"".join(line + b"\n" for line in lines_of(workspace)[:keep]))
    os.chmod(copy.trail_file, 0o600)
    return copy, Trail(copy)
