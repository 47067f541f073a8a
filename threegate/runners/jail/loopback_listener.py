"""A listening socket on the loopback of a run's network namespace, made from outside, for a proxy that stays outside.

Invariant: none of our processes runs inside the jail. A helper enters only the network namespace of the run (and the
user namespace that owns it, without which the kernel lets an ordinary user in nowhere), sends the socket back and
exits. A namespace that this process is itself in is refused, so the proxy never listens on the machine's own loopback.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

from threegate.core.errors import Unavailable
from threegate.core.own_process import own_process

_SECONDS: Final = 10.0
_BACKLOG: Final = 64
_NS_GET_USERNS: Final = 0xB701
"""ioctl_ns(2): a descriptor of the user namespace that owns this one."""
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def listen_on_loopback_of(pid: int, port: int) -> socket.socket:
    """Listen on 127.0.0.1:`port` in the network namespace of process `pid`, with lo up. Raises Unavailable."""
    try:
        net = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.path.samestat(os.fstat(net), Path("/proc/self/ns/net").stat()):
                raise Unavailable("the run has no network of its own, so it gets no way out")
            user = fcntl.ioctl(net, _NS_GET_USERNS)
            try:
                return _listener(net, user, port)
            finally:
                os.close(user)
        finally:
            os.close(net)
    except OSError as error:
        raise Unavailable(f"no proxy can listen in the run's network ({error.strerror or error})") from None


def _listener(net: int, user: int, port: int) -> socket.socket:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = own_process("threegate.runners.jail.loopback_listener", *map(str, (net, user, port, theirs.fileno())))
        kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        helper = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(net, user, theirs.fileno()),
            env=kept,
            cwd="/",
            start_new_session=True,
        )
        theirs.close()  # else the read below would not end if the helper fails
        try:
            ours.settimeout(_SECONDS)
            said, descriptors, _, _ = socket.recv_fds(ours, 200, 1)
        finally:
            helper.kill()
            helper.wait()
    if not descriptors:
        raise Unavailable(
            f"no proxy can listen in the run's network ({said.decode('utf-8', 'replace') or 'no answer'})"
        )
    return socket.socket(fileno=descriptors[0])


def main() -> None:
    """The helper: enter, listen, send the socket (or one line about what failed), exit."""
    net, user, port, answer = map(int, sys.argv[1:])
    with socket.socket(fileno=answer) as channel:
        try:
            if not os.path.samestat(os.fstat(user), Path("/proc/self/ns/user").stat()):
                _enter(user, _CLONE_NEWUSER)
            _enter(net, _CLONE_NEWNET)
            with socket.socket() as listener:
                _bring_up(listener)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("127.0.0.1", port))
                listener.listen(_BACKLOG)
                socket.send_fds(channel, [b"listening"], [listener.fileno()])
        except OSError as error:
            channel.sendall((error.strerror or str(error)).encode()[:200])


def _enter(descriptor: int, kind: int) -> None:
    # os.setns is new in Python 3.12.
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _bring_up(held: socket.socket) -> None:
    """ifreq of netdevice(7): a name of 16 bytes, then the flags."""
    name, flags = struct.unpack_from("16sh", fcntl.ioctl(held, _SIOCGIFFLAGS, struct.pack("16sh14x", b"lo", 0)))
    if not flags & _IFF_UP:
        fcntl.ioctl(held, _SIOCSIFFLAGS, struct.pack("16sh14x", name, flags | _IFF_UP))


if __name__ == "__main__":
    main()
