"""Commands as other accounts, in processes that need not import the program first.

`tests.commands` does this for our own account. An account that may not read the files of our Python needs an
interpreter that it may run, so this is a server of its own: `python -m tests.plugins.agents.command_server DESCRIPTOR`
imports everything once, and each order that arrives there becomes a process with its account, folder, environment and
streams. What a cold start must do is tested by `Person.start`, which makes one.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

ORDER_BYTES = 128 * 1024
_PR_SET_DUMPABLE = 4


def command(
    python: tuple[str, str],
    arguments: Sequence[str],
    *,
    env: dict[str, str],
    cwd: Path,
    account: dict[str, Any],
    stdin: bytes,
    timeout: float,
) -> subprocess.CompletedProcess[bytes]:
    """Run one command to its end, and until nobody holds its output any more.

    `python` is an interpreter and its PYTHONPATH, `account` what `people.as_account` gives. Raises
    subprocess.TimeoutExpired; the command is then killed.
    """
    order = {"arguments": list(arguments), "env": env, "cwd": str(cwd), "account": account}
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pipes = [os.pipe() for _ in range(3)]
    (in_read, in_write), (out_read, out_write), (err_read, err_write) = pipes
    given = [in_read, out_write, err_write, theirs.fileno()]
    with ours, theirs:
        socket.send_fds(_server(python), [json.dumps(order).encode()], given)
        for descriptor in given[:3]:
            os.close(descriptor)
        theirs.close()
        kept = {out_read: b"", err_read: b""}

        def read(descriptor: int) -> None:
            with os.fdopen(descriptor, "rb") as stream:
                kept[descriptor] = stream.read()

        readers = [threading.Thread(target=read, args=(item,), daemon=True) for item in kept]
        for reader in readers:
            reader.start()
        ours.settimeout(timeout)
        pid = int(ours.recv(32))
        try:
            with os.fdopen(in_write, "wb") as stream:
                stream.write(stdin)
        except BrokenPipeError:
            pass  # it reads nothing
        try:
            code = int(ours.recv(32))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(["threegate", *arguments], timeout) from None
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(["threegate", *arguments], timeout)
    return subprocess.CompletedProcess(arguments, code, kept[out_read], kept[err_read])


@functools.cache
def _server(python: tuple[str, str]) -> socket.socket:
    """Ends with us: its end of the socket is then closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [python[0], "-m", "tests.plugins.agents.command_server", str(theirs.fileno())]
    _started.append(
        subprocess.Popen(
            words,
            env={"PYTHONPATH": python[1]},
            cwd="/",
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
    )
    theirs.close()
    return ours


_started: list[subprocess.Popen[bytes]] = []


def _serve(door: socket.socket) -> None:
    """One child for each order, which becomes the command's parent and says how it ended."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(door, ORDER_BYTES, 4)
        if not data:
            return
        if os.fork() == 0:
            door.close()
            _carry_out(json.loads(data), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        while _reaped():
            pass


def _reaped() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _carry_out(order: dict[str, Any], descriptors: list[int]) -> NoReturn:
    *streams, answer = descriptors
    child = os.fork()
    if child:
        for descriptor in streams:
            os.close(descriptor)
        os.write(answer, str(child).encode())
        _, status = os.waitpid(child, 0)
        os.write(answer, str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)
    if account := order["account"]:
        os.setgroups(account["extra_groups"])
        os.setgid(account["group"])
        os.setuid(account["user"])
        # As after an exec: their files in /proc are theirs again.
        assert ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0) == 0
    os.chdir(order["cwd"])
    coerced = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}
    os.environ.clear()
    os.environ.update({**coerced, **order["env"]})
    # Python looks at the home once, when it starts; there the person's own scripts lie.
    sysconfig.get_config_vars()["userbase"] = os.path.join(os.environ["HOME"], ".local")
    sys.argv = ["threegate", *order["arguments"]]
    os._exit(_ended())


def _ended() -> int:
    """The command's exit code, after its threads and its last words; taking down the interpreter costs more than
    most commands.
    """
    from threegate.cli import main

    try:
        main()
    except SystemExit as end:
        code = end.code
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    assert isinstance(code, int)
    return code


if __name__ == "__main__":
    import tests.commands_preloaded  # noqa: F401

    gc.freeze()  # the children look at none of it again
    _serve(socket.socket(fileno=int(sys.argv[1])))
