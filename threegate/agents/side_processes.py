"""What works for an agent's run outside of its jail: the relay to the model, and the door.

Invariant: each gets one listening socket, 0600 and the agent's account's, and nothing of another run. The key goes to the relay
through a pipe and nowhere else.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import asdict

from threegate.agents.model_counts import RelaySettings
from threegate.core.errors import Unavailable
from threegate.core.workspace import AgentRun, Workspace
from threegate.jail.side_process import SideProcess, start_side_process


def start_model_relay(listener: socket.socket, settings: RelaySettings) -> tuple[SideProcess, int]:
    """The relay, and a descriptor of its counts, which the caller closes. Raises Unavailable."""
    counts = os.memfd_create("counts", os.MFD_CLOEXEC)
    descriptors = (listener.fileno(), counts)
    command = [sys.executable, "-m", "threegate.agents.model_relay", *map(str, descriptors)]
    kept = {name: os.environ[name] for name in ("PYTHONPATH", "SSL_CERT_FILE") if name in os.environ}
    process = start_side_process(command, descriptors, kept)
    assert process.stdin
    try:
        process.stdin.write(json.dumps(asdict(settings)).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise Unavailable("the relay to the model ended at once; try: threegate doctor") from None
    return SideProcess("model relay", process), counts


def start_door(workspace: Workspace, run: AgentRun, listener: socket.socket, wait_sec: int) -> SideProcess:
    """`threegate serve mcp --run`, whose stdin is the listening socket (as inetd does for services that wait). Raises Unavailable."""
    command = [sys.executable, "-m", "threegate", "--workspace", str(workspace.root)]
    command += ["serve", "mcp", "--run", run.run_id, "--wait-sec", str(wait_sec)]
    return SideProcess("door", start_side_process(command, (), os.environ, stdin=listener.fileno()))
