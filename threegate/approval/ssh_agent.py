"""The keys in the user's ssh-agent, and an ssh-agent of our own for keys whose passphrase was typed.

Invariant: an agent that does not answer, or answers what is not a list of keys, has no keys. A passphrase goes from the
terminal to `ssh-add` and is never in this process, an argument or a variable; the unlocked key is in a process that
ends with the command.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from threegate.approval.key_files import PublicLine, parse_line
from threegate.core import limits
from threegate.core.errors import InvalidInput, Unavailable

SSH_ADD: Final = "/usr/bin/ssh-add"
SSH_AGENT: Final = "/usr/bin/ssh-agent"
_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
_HOLDER: Final = ("/bin/sh", "-c", "echo $SSH_AGENT_PID; exec cat >/dev/null")
"""What our agent runs for: it ends once this process closes the pipe or is killed; the agent then ends within 10 s."""


def keys_in_agent() -> tuple[PublicLine, ...]:
    """The keys and certificates of the agent at SSH_AUTH_SOCK that may approve; none if it cannot be asked."""
    socket = os.environ.get("SSH_AUTH_SOCK")
    if not socket:
        return ()
    try:
        listed = subprocess.run(
            [SSH_ADD, "-L"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**_ENVIRONMENT, "SSH_AUTH_SOCK": socket},
            timeout=limits.AGENT_LIST_SECONDS,
            start_new_session=True,
            check=True,  # 1: it has no keys; 2: it cannot be reached
        ).stdout
    except (OSError, ValueError, subprocess.SubprocessError):
        return ()
    if len(listed) > limits.AGENT_LIST_BYTES:
        return ()
    lines = listed.decode("utf-8", "replace").split("\n")[: limits.AGENT_KEYS]
    return tuple(line for line in map(parse_line, lines) if line is not None)


class OwnAgent:
    """An ssh-agent that holds unlocked keys until `end`, or until this process is gone.

    Why an agent: `ssh-keygen` asks at every signature, and to ask in its place we would have to hold the passphrase.
    """

    def __init__(self) -> None:
        """Start it. Raises Unavailable."""
        self._unlocked: set[Path] = set()
        with ExitStack() as undo:
            # Only we may enter the folder.
            folder = tempfile.TemporaryDirectory(prefix="threegate-key-", ignore_cleanup_errors=True)
            self._socket = f"{undo.enter_context(folder)}/agent"
            try:
                holder = subprocess.Popen(
                    [SSH_AGENT, "-a", self._socket, *_HOLDER],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=_ENVIRONMENT,
                    start_new_session=True,  # a Ctrl-C is for what signs
                )
                undo.callback(holder.communicate)
                assert holder.stdout is not None  # a pipe
                agent = os.pidfd_open(int(holder.stdout.readline()))
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it does not start"
                raise Unavailable(f"{SSH_AGENT}: {reason}; reinstall it: apt-get install openssh-client") from None
            undo.callback(_end, agent)
            self._undo = undo.pop_all()
        atexit.register(self.end)

    def unlock(self, key: Path, environment: Mapping[str, str]) -> str:
        """Ask for the passphrase of a key on the terminal, unless it was asked before; return the agent's socket.

        Raises InvalidInput if there is no right answer, Unavailable.
        """
        if key not in self._unlocked:
            # It asks again after a wrong passphrase, until it is right or empty; to kill it would leave the terminal
            # without its echo.
            try:
                added = subprocess.run([SSH_ADD, "-q", str(key)], env={**environment, "SSH_AUTH_SOCK": self._socket})
            except OSError as error:
                raise Unavailable(f"{SSH_ADD}: {error.strerror}; install it: apt-get install openssh-client") from None
            if added.returncode != 0:
                raise InvalidInput(f"{key}: was not unlocked, so ssh-keygen did not sign; nothing was approved")
            self._unlocked.add(key)
        return self._socket

    def end(self) -> None:
        """End it, and forget what it holds. It may have ended before."""
        atexit.unregister(self.end)
        self._undo.close()


def _end(agent: int) -> None:
    """End the process of this descriptor, and wait until it is gone."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(agent, signal.SIGTERM)
        select.select([agent], [], [], limits.AGENT_LIST_SECONDS)
    os.close(agent)
