"""The daemon and who runs it: messages to a service manager, sd_notify(3) over a datagram socket, and signals.

Invariant: a watchdog ping is sent only by `turned`, which the daemon's own loop calls, so that a hanging loop
stops the pings; nothing depends on an answer, and without NOTIFY_SOCKET nothing is sent. Between the arrival of a
signal and the call, no lock of this process is taken, since the thread that was interrupted could have it; the
interpreter writes one byte.

These are a dozen lines of our own: of the packages for it, sdnotify is from 2017, systemd-watchdog
from 2021 and cysystemd needs a compiler.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager, suppress

from threegate.approval.shown.escaped_lines import safe

_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_STATUS_CHARS = 200
_PINGS_PER_INTERVAL = 4
_END = b"\0"


class Supervisor:
    """The service manager that started this process, if one did."""

    def __init__(
        self,
        address: str = "",
        watchdog_seconds: float = 0.0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`address`: a path or, with a leading @, an abstract name. `watchdog_seconds`: 0 means no watchdog."""
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._watchdog = watchdog_seconds
        self.turn_seconds = min(1.0, watchdog_seconds / _PINGS_PER_INTERVAL) if watchdog_seconds else 1.0
        """How long a turn may wait for an event, so that the pings are sent in time."""
        self._clock = clock
        self._pinged = 0.0
        self._status = ""
        self._ready = False

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> Supervisor:
        """The one that the environment names. Removes the variables, so that no child can send messages for us."""
        # Systemd sets WATCHDOG_PID so that a child that inherits the variables does not ping.
        address, microseconds, pid = (environment.pop(name, "") for name in _VARIABLES)
        ours = pid in ("", str(os.getpid()))
        usable = microseconds.isascii() and microseconds.isdigit() and ours
        return cls(
            address if address.startswith(("/", "@")) else "",
            int(microseconds) / 1e6 if usable else 0.0,
        )

    def ready(self) -> None:
        """The daemon has recovered and is working (again, after a reload)."""
        self._ready = True
        self._send("READY=1")

    def reloading(self) -> None:
        """Settings and contracts are being reloaded; `ready` follows."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """The daemon has begun to stop."""
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """One line for `systemctl status`; sent only when it changed. Numbers, codes and paths, never a payload."""
        if text != self._status:
            self._status = text
            self._send(f"STATUS={safe(text)[:_STATUS_CHARS]}")

    def turned(self) -> None:
        """The loop finished a turn, or a long turn made progress: ping if it is time."""
        now = self._clock()
        if self._watchdog and self._ready and now - self._pinged >= self._watchdog / _PINGS_PER_INTERVAL:
            self._pinged = now
            self._send("WATCHDOG=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        with (
            suppress(OSError),  # the manager is gone or its queue is full: continue
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel,
        ):
            channel.setblocking(False)
            channel.sendto(text.encode(), self._address)


@contextmanager
def signals_to(react: Callable[[signal.Signals], None], numbers: Iterable[signal.Signals]) -> Iterator[None]:
    """While the block lasts, call `react` in a thread for each of these signals that arrives. Only from the main
    thread.
    """
    numbers = frozenset(numbers)
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writing, False)

    def work() -> None:
        while (byte := os.read(reading, 1)) not in (b"", _END):
            if (number := byte[0]) in numbers:
                react(signal.Signals(number))

    thread = threading.Thread(target=work, name="signals", daemon=True)
    former = {number: signal.signal(number, _nothing) for number in numbers}
    waking = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(waking)
        for number, handler in former.items():
            signal.signal(number, handler)
        os.set_blocking(writing, True)
        os.write(writing, _END)
        thread.join()
        os.close(reading)
        os.close(writing)


def _nothing(_number: int, _frame: object) -> None:
    """Called by the interpreter; only the byte in the pipe matters."""
