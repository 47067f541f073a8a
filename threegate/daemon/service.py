"""The daemon: lock, recover, then look, judge and run until told to stop.

Invariant: one daemon works on a workspace; it never starts anything before recovery is done and the trail's
outside head agrees; when the trail cannot be written it starts nothing more and says so.
"""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import FrameType

from threegate import durable
from threegate.audit import Trail
from threegate.daemon.dispatcher import Dispatcher
from threegate.daemon.drafts import Inbox
from threegate.daemon.log import Log
from threegate.daemon.notices import Notices
from threegate.daemon.recovery import recover
from threegate.daemon.watch import Watch
from threegate.errors import EXIT_FAILED, EXIT_OK, InvalidInput, ThreeGateError, Unavailable
from threegate.operations.checkpoints import checkpoint_when_due
from threegate.operations.dossier import Desk
from threegate.operations.grant import use_grants
from threegate.operations.proposal import Proposer
from threegate.policy import Policy, load_policy
from threegate.runners.budget import Budget
from threegate.runners.seccomp import SECCOMP_SHA256
from threegate.services import Services, make_services
from threegate.workspace import Workspace

STOP_GRACE_SECONDS = 5.0
_TURN_SECONDS = 1.0
_TYPES_SECONDS = 0.2


@dataclass
class Daemon:
    """One life of the daemon."""

    workspace: Workspace
    log: Log
    once: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)
    on_ready: Callable[[], None] = lambda: None
    _told_checkpoint: bool = False
    _loaded: tuple[object, Policy] | None = None

    def run(self) -> int:
        """Work until stopped (or, with `once`, until nothing is left to do). Returns the exit code.

        Raises Unavailable when another daemon works here, InvalidInput for bad settings, TrailError.
        """
        policy = self._policy()
        with self.workspace.daemon_lock():
            trail = Trail(self.workspace)
            notices = Notices(policy.settings.notify, self.log)
            services = replace(
                make_services(self.workspace, trail, policy, boot_nonce=secrets.token_hex(8)),
                on_end=notices.ended,
            )
            try:
                return self._work(services, policy, notices)
            finally:
                services.close()
                notices.close()
                trail.close()

    def _policy(self) -> Policy:
        """Today's policy; loaded again only when a file that it is made of was touched."""
        look = _policy_files(self.workspace)
        if self._loaded is None or self._loaded[0] != look:
            self._loaded = (look, load_policy(self.workspace, seccomp_sha256=SECCOMP_SHA256))
        return self._loaded[1]

    def _work(self, services: Services, policy: Policy, notices: Notices) -> int:
        problem = self._begin(services)
        for line in services.trail.mended:
            self.log.say("mended", what=line)
        runners = policy.settings.runners
        dispatcher = Dispatcher(
            services,
            Budget.of(runners),
            self.log,
            self.wake,
            runners.monty.workers + runners.era.parallel,
        )
        proposer = Proposer(
            self.workspace,
            services.trail,
            lambda event, file, what: self.log.say(event, file=file, what=what),
        )
        inbox = Inbox(
            self.workspace, services.trail, self.log, propose=proposer, on_draft=notices.draft_waits
        )
        hinted = [
            self.workspace.inbox,
            self.workspace.drafts,
            self.workspace.approved,
            self.workspace.control,
        ]
        watch = Watch([] if self.once else hinted, self.wake)
        if watch.problem:
            self.log.say("watching", what=watch.problem)
        self.log.say("ready", workspace=str(self.workspace.root))
        self.on_ready()
        try:
            problem = self._turns(services, dispatcher, inbox, policy, problem)
        except OSError as error:
            dispatcher.failed = Unavailable(f"{error.filename or 'the disk'}: {error.strerror or error}")
            self.log.say("stopped", what=str(dispatcher.failed))
        except ThreeGateError as error:
            dispatcher.failed = dispatcher.failed or error
            self.log.say("stopped", what=str(error))
        finally:
            watch.close()
            dispatcher.stop(3600.0 if self.once and not self.stop.is_set() else STOP_GRACE_SECONDS)
        self.log.say("ended")
        stopped = problem is not None or dispatcher.failed is not None or dispatcher.held_up is not None
        return EXIT_FAILED if stopped else EXIT_OK

    def _begin(self, services: Services) -> str | None:
        """Recover, unless nothing may be launched here; then why."""
        problem = services.begin()
        if problem is not None:
            code, line = problem
            self.log.say("stopped", code=code, what=line)
            return line
        recover(services, self.log, self._policy().settings.runners.era.engine)
        return None

    def _turns(
        self, services: Services, dispatcher: Dispatcher, inbox: Inbox, policy: Policy, problem: str | None
    ) -> str | None:
        """Turn after turn; returns why launches had to stop, or None."""
        told: str | None = None
        while not self.stop.is_set():
            self.wake.clear()
            try:
                policy = self._policy()
                told = None
            except InvalidInput as error:
                if str(error) != told:
                    told = str(error)
                    self.log.say("settings", what=f"{error}; nothing is started until this is mended")
            did = inbox.scan(policy)
            did += inbox.types.work(_TYPES_SECONDS)
            if did and policy.settings.approval.grants:
                self._use_grants(services, policy)
            self._controls(dispatcher)
            if problem is not None and services.begin() is None:
                problem = self._begin(services)
            if problem is None and told is None:
                did += dispatcher.schedule(policy)
            if problem is None and dispatcher.failed is None:
                self._checkpoint(services, policy)
            if dispatcher.failed is not None and not dispatcher.running:
                break
            if self.once and not did and not dispatcher.running:
                break
            if not did or dispatcher.running:
                self.wake.wait(_TURN_SECONDS)
        return problem or told

    def _use_grants(self, services: Services, policy: Policy) -> None:
        """Promote drafts that a standing grant covers (off by default)."""
        desk = Desk(self.workspace, services.trail, policy, services.gate)
        try:
            promoted = use_grants(desk)
        except (InvalidInput, Unavailable) as error:
            self.log.say("grants", what=f"{error}; no grant is used until this is mended")
            return
        for item in promoted:
            self.log.say("granted", file=item.path.name, what=item.approval_sha256)

    def _checkpoint(self, services: Services, policy: Policy) -> None:
        """Sign the trail's tree every `audit.checkpoint_every` events; without the key here, say so once."""
        try:
            path = checkpoint_when_due(services.trail, policy.settings.audit.checkpoint_every, actor="daemon")
        except Unavailable as error:
            if not self._told_checkpoint:
                self._told_checkpoint = True
                self.log.say("checkpoint", what=str(error))
            return
        if path is not None:
            self.log.say("checkpoint", what=str(path))

    def _controls(self, dispatcher: Dispatcher) -> None:
        """Cancellations that the operator asked for."""
        for path in sorted(self.workspace.control.glob("cancel-*")):
            request_id = path.name.removeprefix("cancel-")
            if dispatcher.cancel(request_id):
                self.log.say("cancelling", request=request_id)
            with suppress(FileNotFoundError):
                durable.unlink(path)


def _policy_files(workspace: Workspace) -> list[tuple[str, int, int, int]]:
    """Names, inodes and times of what a policy is made of: a change of any of them shows here."""
    found = []
    paths = [workspace.settings_file, workspace.contracts, *sorted(workspace.contracts.rglob("*"))]
    for path in paths:
        if ".state" in path.parts:
            continue
        try:
            facts = path.lstat()
        except FileNotFoundError:
            continue
        changed = 0 if path == workspace.contracts else facts.st_ctime_ns
        found.append((str(path), facts.st_ino, facts.st_size if changed else 0, changed))
    return found


def run_daemon(workspace: Workspace, *, once: bool, log: Log) -> int:
    """Run a daemon in this process with SIGTERM and SIGINT as the graceful stop. Returns the exit code."""
    daemon = Daemon(workspace, log, once=once)

    def stop(number: int, _frame: FrameType | None) -> None:
        log.say("stopping", signal=signal.Signals(number).name)
        daemon.stop.set()
        daemon.wake.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return daemon.run()
