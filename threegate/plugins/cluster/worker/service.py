"""The life of a worker: identity, cleanup, doctor, then jobs until a stop is requested.

Invariant: no job is accepted before orphans of a previous run are gone, the journal is open and the doctor
finds no problem; after a stop request a worker accepts nothing more, gives running jobs a short time to
finish, and then stops them.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import celery.exceptions
import celery.signals

from threegate.approval.operators import Operators
from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.core.settings import Settings, parse_settings
from threegate.plugins.cluster.broker import FAULTS, TASK, Broker
from threegate.plugins.cluster.celery import make_app
from threegate.plugins.cluster.worker.health import images_of, judges_by, look, quick_look
from threegate.plugins.cluster.worker.heartbeat import Agent
from threegate.plugins.cluster.worker.identity import Identity, read_identity
from threegate.plugins.cluster.worker.job_handler import JobHandler
from threegate.plugins.cluster.worker.journal import NonceJournal
from threegate.plugins.cluster.worker.operators_file import WorkerOperators
from threegate.plugins.cluster.worker.outbox import Outbox
from threegate.plugins.cluster.worker.store import Store
from threegate.runners.backend import backends, make_runner
from threegate.runners.machine import Budget

_STOP_GRACE_SECONDS = 5.0
_LOOK_SECONDS = 10.0
_STOPPING = "this worker is stopping"


@dataclass(frozen=True, slots=True)
class Options:
    """What `threegate serve worker` was called with."""

    broker: str
    operators: Path
    identity: Path
    state: Path
    settings: Path | None
    take_operators: bool = False


def run_worker(options: Options, say: Callable[[str], None]) -> None:
    """Work until SIGTERM or SIGINT. Raises Unavailable, InvalidInput when it cannot begin."""
    identity = read_identity(options.identity)
    settings = _settings(options.settings)
    broker = Broker(options.broker, options.identity)
    broker.check()
    say(f'{identity.name}: enrol me with cluster.workers = ["{identity.key.public.render()}"]')
    era, egress = images_of(settings)
    filled = settings.runners.era.but(image=era, egress_image=egress)
    settings = settings.but(runners=settings.runners.but(era=filled))
    boot = secrets.token_hex(8)
    operators = WorkerOperators(options.operators, options.state / "operators.taken", options.take_operators)
    runs = options.state / "runs"
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    journal = NonceJournal(options.state / "nonces.jsonl", now=datetime.now(UTC))
    try:
        run_here = [backend for backend in backends() if backend.on_workers]  # of the others there is nothing here
        for backend in run_here:
            for line in backend.remove_orphans(identity.mark, boot, settings.runners, runs):
                say(line)
        outbox = Outbox(runs, identity.key.public)
        for line in outbox.recover():
            say(line)
        agent = Agent(broker, identity.name, identity.key, identity.workspace_key, outbox, say)
        runners = {backend.name: make_runner(backend.name, settings) for backend in run_here}
        store, budget = Store(options.state / "store"), Budget.of(settings.runners)
        handler = JobHandler(agent, identity, operators, settings, journal, outbox, store, runners, budget, boot, say)
        _Service(options, identity, settings, operators, agent, say).work(broker, handler)
        for runner in runners.values():
            runner.close()
    finally:
        journal.close()


@dataclass(frozen=True, slots=True)
class _Service:
    """A worker whose state is open and whose orphans are gone."""

    options: Options
    identity: Identity
    settings: Settings
    operators: WorkerOperators
    agent: Agent
    say: Callable[[str], None]

    def work(self, broker: Broker, handler: JobHandler) -> None:
        """Doctor, then Celery until a stop is requested. Raises Unavailable."""
        agent, name = self.agent, self.identity.name
        operators = self.operators.read()
        agent.judges_by = self._judges_by(operators)
        agent.take_operators = self._take_operators
        agent.capacity, agent.problem = look(self.settings, operators, self.options.state)
        found = agent.problem
        self.say(f"takes work: {found is None}" + (f" ({found})" if found else ""))
        agent.start()
        stop = threading.Event()
        threading.Thread(target=self._watch_health, args=(found, stop), name="health", daemon=True).start()
        app = make_app(broker, name)

        @app.task(name=TASK, bind=True, max_retries=0)  # type: ignore[untyped-decorator]
        def run(task: Any, *arguments: Any, **named: Any) -> None:
            handler.take(arguments[0] if len(arguments) == 1 and not named else None, str(task.request.id))

        _quiet(self.say)

        def stopping(**_: Any) -> None:
            agent.problem = _STOPPING
            threading.Thread(target=_interrupt_later, args=(agent,), daemon=True).start()

        celery.signals.worker_shutting_down.connect(stopping, weak=False)
        worker = app.Worker(
            hostname=f"{name}@{self.identity.workspace_id[:11]}",
            pool="threads",
            concurrency=max(2, sum(agent.capacity.rows.values()) + 2),
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            task_events=False,
            consumer_cls="threegate.plugins.cluster.worker.celery_consumer:JobConsumer",
            quiet=True,
        )
        try:
            worker.start()
            if worker.exitcode:
                raise Unavailable(f"{name}: ended; the broker refuses its certificate, or the line before says why")
        finally:
            stop.set()
            agent.close()

    def _judges_by(self, operators: Operators) -> dict[str, str | int]:
        told = judges_by(self.settings, operators, self.options.identity)
        return {**told, "takes_operators": self.operators.takes}

    def _watch_health(self, found: str | None, stop: threading.Event) -> None:
        """Look now and then at what can change; what the start found stays."""
        agent = self.agent
        while not stop.wait(_LOOK_SECONDS):
            operators = self.operators.read()
            now = found or quick_look(operators, self.options.state), self._judges_by(operators)
            if agent.problem == _STOPPING:
                return
            if now != (agent.problem, agent.judges_by):
                agent.problem, agent.judges_by = now
                agent.tell_now()

    def _take_operators(self, note: Mapping[str, Any]) -> None:
        """Take the operators files of a note, or say why not."""
        try:
            taken = self.operators.take(note, workspace_id=self.identity.workspace_id, now=datetime.now(UTC))
        except (Refused, Unavailable, OSError) as error:
            self.say(f"operators files that came were not taken: {error}")
            return
        names = ", ".join(sorted({entry.name for entry in taken.entries}))
        self.say(f"took operators files that an operator signed; operators are now: {names}")
        self.agent.judges_by = self._judges_by(taken)
        self.agent.tell_now()


def _interrupt_later(agent: Agent) -> None:
    time.sleep(_STOP_GRACE_SECONDS)
    agent.interrupt_all()


def _settings(path: Path | None) -> Settings:
    if path is None:
        return Settings()
    try:
        return parse_settings(durable.read_regular(path, max_bytes=limits.SETTINGS_BYTES), path)
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror or error})") from None


class _Lines(logging.Handler):
    """Celery's and kombu's own messages as one line each, without their arguments: those may hold a payload."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        first = (str(record.msg).strip().splitlines() or [record.levelname])[0][:120]
        given = record.args if isinstance(record.args, tuple) else ()
        faults = [f" ({str(item)[:200]})" for item in given if isinstance(item, FAULTS)]
        self._say(f"{record.name}: {first}{''.join(faults)}")


def _quiet(say: Callable[[str], None]) -> None:
    warnings.filterwarnings("ignore", category=celery.exceptions.SecurityWarning)  # ERA and namespaces need root
    celery.signals.setup_logging.connect(lambda **_: None, weak=False)
    for name in ("celery", "kombu", "amqp"):
        logger = logging.getLogger(name)
        logger.handlers = [_Lines(say)]
        logger.propagate = False
