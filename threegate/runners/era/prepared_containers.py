"""Containers that are prepared ahead: started and waiting, each used for one request and thrown away.

Invariant: a prepared container is the same as one made for a run before it receives the run; only its /in is
filled later. Its restrictions are read back then, as for any other. One that died, or was made for other
limits, is never used.
"""

from __future__ import annotations

import os
import secrets
import select
import socket
import threading
from collections import Counter, deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import docker

from threegate.core.errors import Unavailable
from threegate.request.job import Job, JobLimits
from threegate.runners.era import container_engine, spec
from threegate.runners.era.orphans import PREPARED
from threegate.runners.era.waiting_container import Greeting, attach, greeting
from threegate.runners.interface import Control
from threegate.runners.staging import remove_folder

_REQUEST = "prepared"


@dataclass(frozen=True, slots=True)
class Kind:
    """What cannot change once a container is running: two jobs of one kind can use the same container."""

    image: str
    runtime: str
    """The engine's name for it."""
    asked_runtime: str
    """The job's name for it; empty for the engine's default."""
    limits: JobLimits
    """With a time of 0: the deadline is passed with the run's words and begins with the run."""

    @classmethod
    def of(cls, job: Job, runtime: str) -> Kind | None:
        """The kind of a job, or None if no container can be prepared for it.

        One with a network needs its own relay's network; for gVisor the host cannot see the state of the
        processes.
        """
        if job.network or runtime == "runsc":
            return None
        return cls(job.image, runtime, job.runtime, replace(job.limits, time_sec=0))

    def serves(self, job: Job) -> bool:
        """Whether a container of this kind is what the job asks for."""
        return Kind.of(job, self.runtime) == self


@dataclass(slots=True)
class PreparedContainer:
    """One waiting container. `folder` contains its in/."""

    kind: Kind
    api: docker.APIClient
    """Its own client, used by one thread at a time."""
    folder: Path
    container: str
    connection: socket.socket
    greeting: Greeting
    pidfd: int

    def alive(self) -> bool:
        """Whether it is still waiting: PID 1 is alive and has neither written nor closed its output."""
        return not select.select([self.pidfd, self.connection.fileno()], [], [], 0)[0]

    def release(self) -> str:
        """The container's id; from now on the caller must remove it."""
        container, self.container = self.container, ""
        return container

    def end(self) -> None:
        """Kill PID 1, and with it everything in it, without waiting for the engine."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)

    def discard(self, *, ask_engine: bool = True) -> bool:
        """Kill it and remove what it still owns; False if the engine did not. The second call does nothing.

        Without `ask_engine` (the engine hangs) the container itself is left to the next start of the daemon.
        """
        if self.pidfd < 0:
            return True
        self.end()
        os.close(self.pidfd)
        self.pidfd = -1
        self.connection.close()
        self.api.timeout = container_engine.ANSWER_SECONDS
        container = self.release()
        removed = not container or (ask_engine and container_engine.remove_container(self.api, container))
        self.api.close()
        remove_folder(self.folder)
        return removed


class PreparedContainers:
    """Keeps up to `count` containers ready: one for each of the last `count` runs, of that run's kind."""

    def __init__(self, url: str, count: int, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._recent: deque[Kind] = deque(maxlen=count)
        self._ready: list[PreparedContainer] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def has(self, job: Job) -> bool:
        """Whether one is ready for such a job."""
        with self._changed:
            return any(item.kind.serves(job) and item.alive() for item in self._ready)

    def take(self, job: Job) -> PreparedContainer | None:
        """A container for this job only; discard it after its one run. None if there is none."""
        with self._changed:
            for item in self._ready:
                if item.kind.serves(job) and item.alive():
                    self._ready.remove(item)
                    return item
        return None

    def learn(self, kind: Kind, control: Control) -> None:
        """A run of this kind has ended: have one ready for the next. `control` names workspace and boot."""
        with self._changed:
            if self._closed:
                return
            self._recent.append(kind)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._keep_ready, args=(control,), name="era-preparer", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Prepare no more, and remove the waiting ones; if the engine hangs, the next boot does."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=4 * container_engine.ANSWER_SECONDS)
        with self._changed:
            left, self._ready = self._ready, []
        for item in left:
            item.end()
        answers = True
        for item in left:
            answers = item.discard(ask_engine=answers)

    def _keep_ready(self, control: Control) -> None:
        # Only workspace and boot are used from it, which are the same for every run of this process.
        while (kind := self._next()) is not None:
            try:
                item = self._prepare(kind, control)
            except (Unavailable, KeyError, ValueError, *container_engine.FAULTS):
                # The next run of this kind reports the problem itself, and requests another one.
                with self._changed, suppress(ValueError):
                    self._recent.remove(kind)
                continue
            with self._changed:
                late = self._closed
                if not late:
                    self._ready.append(item)
            if late:
                item.discard()

    def _next(self) -> Kind | None:
        """Wait until one more is needed, and discard those that died or are no longer needed. None:
        closed.
        """
        while True:
            with self._changed:
                if self._closed:
                    return None
                surplus = self._surplus()
                missing = Counter(self._recent) - Counter(item.kind for item in self._ready)
                kind = next((kind for kind in reversed(self._recent) if missing[kind]), None)
                if kind is None and not surplus:
                    self._changed.wait()
            for item in surplus:
                item.discard()
            if kind is not None:
                return kind

    def _surplus(self) -> list[PreparedContainer]:
        """Remove those that died, and those whose kind is not among the last runs."""
        kept: Counter[Kind] = Counter()
        wanted = Counter(self._recent)
        surplus = []
        for item in list(self._ready):
            kept[item.kind] += 1
            if kept[item.kind] > wanted[item.kind] or not item.alive():
                kept[item.kind] -= 1
                self._ready.remove(item)
                surplus.append(item)
        return surplus

    def _prepare(self, kind: Kind, control: Control) -> PreparedContainer:
        """Create and start one. Raises Unavailable, the engine's errors, and KeyError or ValueError for
        malformed answers.
        """
        token = secrets.token_hex(6)
        with ExitStack() as stack:
            api = container_engine.connect(self._url)
            stack.callback(api.close)
            folder = self._folder / f"{PREPARED}{token}"
            folder.mkdir(mode=0o700)
            stack.callback(remove_folder, folder)
            (folder / "in").mkdir(mode=0o700)
            name = f"threegate-{control.boot_nonce[:8]}-{token}"
            marks = spec.labels(_REQUEST, control)
            host = spec.host_config(api, kind.limits, folder / "in", network="none", runtime=kind.runtime, marks=marks)
            # Before it exists, because the engine may create it without answering. Only we use the name.
            stack.callback(container_engine.remove_container, api, name)
            container = spec.create(api, kind.image, host, marks, name)
            connection = attach(api, container)
            stack.callback(connection.close)
            api.start(container)
            said = greeting(connection)
            pidfd = os.pidfd_open(int(api.inspect_container(container)["State"]["Pid"]))
            stack.pop_all()
        return PreparedContainer(kind, api, folder, container, connection, said, pidfd)
