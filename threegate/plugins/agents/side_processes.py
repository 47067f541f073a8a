"""The processes that serve an agent's run from outside its jail: the relay to the model, and the door.

Invariant: each gets one listening socket, with mode 0600 and owned by the agent's account, and nothing of
another run. The key is passed only to the relay, through a pipe.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from threegate.core.errors import Unavailable
from threegate.core.own_process import own_process
from threegate.core.workspace import AgentRun, Workspace
from threegate.plugins.agents.model_counts import RelaySettings
from threegate.runners.jail.side_process import SideProcess, start_side_process


def start_model_relay(
    listener: socket.socket, settings: RelaySettings, cgroups: Sequence[Path] = ()
) -> tuple[SideProcess, int]:
    """The relay, and a descriptor for its counts, which the caller closes. Raises Unavailable."""
    # It is in the run's cgroups before it does anything, because it holds what the agent sends.
    counts = os.memfd_create("counts", os.MFD_CLOEXEC)
    descriptors = (listener.fileno(), counts)
    command = own_process("threegate.plugins.agents.model_relay", *map(str, descriptors))
    kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    process = start_side_process(command, descriptors, kept, cgroups=cgroups)
    assert process.stdin
    try:
        process.stdin.write(json.dumps(asdict(settings)).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise Unavailable("the relay to the model exited at once; try: threegate doctor") from None
    return SideProcess("model relay", process), counts


def start_door(workspace: Workspace, run: AgentRun, listener: socket.socket, wait_sec: int) -> SideProcess:
    """`threegate serve mcp --run` with the listening socket as its stdin (as inetd does for wait services).
    Raises Unavailable.
    """
    command = own_process("threegate", "--workspace", str(workspace.root))
    command += ["serve", "mcp", "--run", run.run_id, "--wait-sec", str(wait_sec)]
    return SideProcess("door", start_side_process(command, (), os.environ, stdin=listener.fileno()))
