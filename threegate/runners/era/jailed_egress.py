"""The only way out of a run by bubblewrap with an allowlist: a socket on the loopback of the run's own network
namespace, and a proxy outside that accepts on it (docs/spec/6-runners.md, Network allowlist).

Invariant: the run's namespace has no interface but lo, and none of our code runs in it; the proxy knows only this run's
pairs and ends with it. A proxy that ends earlier ends the way out and nothing else.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from threegate.core.errors import Unavailable
from threegate.core.extras import install_line, missing_modules
from threegate.request.job import PROXY_URL, Job
from threegate.runners.egress.egress import read_pair
from threegate.runners.egress.secret_header import SecretHeader
from threegate.runners.interface import Destination
from threegate.runners.jail.host_log import HostLog, read_hosts
from threegate.runners.jail.loopback_listener import listen_on_loopback_of
from threegate.runners.jail.side_process import SideProcess, start_host_proxy

PORT: Final = urlsplit(PROXY_URL).port or 0


class Egress:
    """The way out of one run; `open_egress` makes it, and the end of the block closes it."""

    def __init__(self, job: Job, proxy: SideProcess, log: int) -> None:
        self._job = job
        self._proxy: SideProcess | None = proxy
        self._log = log
        self._seen = HostLog()
        self.notes: list[str] = []
        """Lines for the outcome."""

    @property
    def limit(self) -> str:
        """The run's network, for `effective_limits`."""
        return f"lo, and through its own proxy: {' '.join(self._job.network)}"

    def alive(self) -> bool:
        """Whether the proxy is still running."""
        return self._proxy is not None and self._proxy.died() is None

    def destinations(self) -> tuple[Destination, ...]:
        """End the proxy, so that nothing is added, and return what was reached and refused."""
        if self._proxy is not None:
            if not self.alive():
                self.notes.append("The proxy ended before the run did; later connections were refused.")
            self.close()
            if self._seen.unlisted:
                self.notes.append(f"Refused {self._seen.unlisted} more attempts, at destinations that are not listed.")
        return self._seen.destinations

    def close(self) -> None:
        """End the proxy; the second call does nothing."""
        proxy, self._proxy = self._proxy, None
        if proxy is None:
            return
        try:
            proxy.end()
            self._seen = read_hosts(self._log)
        finally:
            os.close(self._log)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def egress_missing() -> str | None:
    """One line if no run can have a way out here; None if one can."""
    if "h11" in missing_modules("era"):
        return f"ERA by bubblewrap with a network needs h11: {install_line('era')}"
    return None


def open_egress(pid: int, job: Job, secret: SecretHeader | None = None) -> Egress:
    """The way out for the run whose first process is `pid`, which must wait until this returns. Call it in the thread
    that stays as long as the run: the kernel kills the proxy with it. Raises Unavailable; then nothing of the request
    has run.
    """
    if (problem := egress_missing()) is not None:
        raise Unavailable(problem)
    try:
        pairs = [f"{host}:{port}" for host, port in map(read_pair, job.network)]
    except ValueError as error:
        raise Unavailable(f"the network access could not be set up ({error})") from None
    with listen_on_loopback_of(pid, PORT) as listener:  # closed here: a proxy that dies leaves no open port
        return Egress(job, *start_host_proxy(listener, pairs, secret=secret))
