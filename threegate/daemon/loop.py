"""The daemon: lock, recover, then scan, judge and run until asked to stop.

Invariant: only one daemon runs in a workspace; it never starts anything before recovery is done and the
trail's outside head agrees; if the trail cannot be written, it starts nothing more and reports that. A full disk,
which anyone who may write can cause, never ends it: what finds no space is left for the next turn, part by part.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from threegate.audit.trail_checkpoints import complete_trail_checkpoint, trail_checkpoint_when_due
from threegate.core import durable, limits
from threegate.core.durable import fill_reserve
from threegate.core.errors import (
    EXIT_FAILED,
    EXIT_OK,
    DiskFull,
    ThreeGateError,
    Unavailable,
    is_disk_full,
)
from threegate.core.own_daemon import UseOfDaemon
from threegate.core.settings import SECTIONS, Settings
from threegate.core.workspace import Workspace
from threegate.daemon.dispatcher import Dispatcher
from threegate.daemon.draft_expiry import DraftExpiry
from threegate.daemon.drafts import Inbox
from threegate.daemon.folder_watch import FolderWatch
from threegate.daemon.log import Log
from threegate.daemon.plugin_work import WORK, DaemonParts, WaitingDraft, Work, plugins_in_use
from threegate.daemon.policy_reload import PolicyReload, contracts_problem
from threegate.daemon.recovery import DISK_WAS_FULL, recover, refuse_open
from threegate.daemon.supervisor import Supervisor, signals_to
from threegate.judgement.policy import Policy
from threegate.launch.context import daemon_context
from threegate.launch.results.space import give_back, reserve_result
from threegate.review.draft_sources import SOURCES, TakeFile
from threegate.runners.machine import MACHINES, THIS_MACHINE, machine_of
from threegate.trail.trail import Trail

_TYPES_SECONDS = 0.2
_NAMES_SHOWN = 8
_TRAIL_CHECKPOINT_LOOK_SECONDS = 1.0
_HOUSEKEEPING_SECONDS = 1.0
"""How often the reserve of disk space is filled, and a plugin's work started that an event asks for."""
_FOLDERS_LOOK_SECONDS = 0.1
"""While requests run and end, which wakes the daemon each time, its folders are scanned at most this often."""
_TRIAL = "trial"
"""Whose result gets space, and gives it back, after a full disk."""


@dataclass
class Daemon:
    """One run of the daemon."""

    workspace: Workspace
    log: Log
    once: bool = False
    use: UseOfDaemon | None = None
    """It ends once no command needs it."""
    stop: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)
    reload: threading.Event = field(default_factory=threading.Event)
    """Set to have settings and contracts reloaded whether or not their files were touched."""
    supervisor: Supervisor = field(default_factory=Supervisor)
    abandon: Callable[[int], None] = lambda code: None
    """Exits the process if a request's thread does not end: the workspace stays locked until the whole process is gone.
    """
    _reported_checkpoint: bool = False
    _looked_for_trail_checkpoint: float = 0.0
    _looked_through: float = 0.0
    _reported_problem: str | None = None
    _full: str | None = None
    """What found no space on the disk in the last turn; None if there was space for everything."""
    _reported_full: bool = False
    _unrecorded: bool = True
    """Whether the contracts that the daemon starts with are still to be recorded."""
    _boot_nonce: str = field(default_factory=lambda: secrets.token_hex(8))
    _trail: Trail = field(init=False)
    _policy_reload: PolicyReload = field(init=False)
    _dispatcher: Dispatcher = field(init=False)
    """Created once, until the settings that it depends on change."""
    _outdated: bool = False
    """Whether they have changed. A running request is finished by the runners that started it: the next dispatcher
    takes over only when nothing runs, and nothing is started before.
    """
    _inbox: Inbox = field(init=False)
    _draft_expiry: DraftExpiry = field(init=False)
    _works: dict[str, Work] = field(default_factory=dict)
    """What plugins do, by the plugin's name."""
    _watch: FolderWatch | None = None
    """None with `once`: nothing is waited for."""

    def run(self) -> int:
        """Work until stopped (or, with `once`, until nothing is left to do). Returns the exit code.

        Raises Unavailable if another daemon runs here, InvalidInput for invalid settings, TrailError.
        """
        self._trail = Trail(self.workspace)
        self._policy_reload = PolicyReload(self.workspace, self._trail)
        self.log.about(workspace=self._policy_reload.policy.settings.workspace.id, boot=self._boot_nonce)
        with self.workspace.daemon_lock():
            try:
                refuse_open(self.workspace, self._trail, self._policy_reload.policy.settings)
                self._start_works()
                self._dispatcher = self._new_dispatcher(self._policy_reload.policy)
                try:
                    return self._work()
                finally:
                    self._close_works()
                    self._dispatcher.context.close()
            finally:
                self._trail.close()

    def _new_dispatcher(self, policy: Policy) -> Dispatcher:
        """With new runners, which start no job until they are called. Raises TrailError, Unavailable."""
        context = daemon_context(
            self.workspace,
            self._trail,
            policy,
            boot_nonce=self._boot_nonce,
            say=lambda line: self.log.say("cluster", what=line),
        )
        context = replace(context, on_end=self._request_ended)
        budget = machine_of(policy.settings).budget(policy.settings, context.runners)
        return Dispatcher(context, budget, self.log, self.wake, budget.threads, beat=self.supervisor.turned)

    def _start_works(self) -> None:
        """Start the work of plugins that the settings or the trail ask for by now. Raises TrailError."""
        with self._trail.locked() as held:
            used = plugins_in_use(self._policy_reload.policy.settings, held.index)
        for plugin in WORK.plugins():
            if plugin.name in used and plugin.name not in self._works and plugin.why_absent() is None:
                parts = DaemonParts(
                    self.workspace,
                    self._trail,
                    self.log,
                    lambda: self._policy_reload.policy.settings,
                    self._draft_waits,
                    lambda: self._inbox.valid,
                )
                # Replaced and not changed: the threads of requests iterate over it.
                self._works = {**self._works, plugin.name: WORK.of(plugin)(parts)}

    def _close_works(self) -> None:
        works, self._works = self._works, {}
        for work in works.values():
            work.close(wait=(self.once or self.use is not None) and not self.stop.is_set())

    def _work(self) -> int:
        fill_reserve(self.workspace.reserve)
        problem = self._begin()
        for line in self._trail.fixed:
            self.log.say("fixed", what=line)
        self._report_contracts()
        self._inbox = inbox = Inbox(
            self.workspace,
            self._trail,
            self.log,
            takers=self._takers(),
            on_draft=self._draft_waits,
            on_valid=self._draft_seen,
            beat=self.supervisor.turned,
            wake=self.wake.set,
            once=self.once,
        )
        if not self.once:
            hinted = (self.workspace.inbox, self.workspace.drafts, self.workspace.approved, self.workspace.control)
            self._watch = FolderWatch(hinted, self.wake)
            if self._watch.problem:
                self.log.say("watching", what=self._watch.problem)
        self._draft_expiry = DraftExpiry(self.log)
        self.log.say("ready", path=str(self.workspace.root))
        self.supervisor.ready()
        try:
            problem = self._turns(inbox, problem)
        except OSError as error:
            failed = Unavailable(f"{error.filename or 'the disk'}: {error.strerror or error}")
            self._dispatcher.failed = failed
            self.log.say("stopped", what=str(failed))
        except ThreeGateError as error:
            self._dispatcher.failed = self._dispatcher.failed or error
            self.log.say("stopped", what=str(error))
        finally:
            self.supervisor.stopping()
            if self._watch is not None:
                self._watch.close()
            inbox.close()
            if self.once:
                self._dispatcher.finish(self.stop.is_set)
            stopped = self._dispatcher.stop(limits.STOP_GRACE_SECONDS)
            self._close_works()
            if not stopped:
                # The thread may still write into the workspace, so the lock is given up only with the process.
                self.abandon(EXIT_FAILED)
        self.log.say("ended")
        dispatcher = self._dispatcher
        reasons = (problem, dispatcher.failed, dispatcher.held_up, dispatcher.full, self._full)
        stopped = any(reason is not None for reason in reasons)
        return EXIT_FAILED if stopped else EXIT_OK

    def _takers(self) -> dict[str, tuple[str, TakeFile]]:
        """What plugins take from an inbox; whether one is on is asked for each file."""
        return {
            name: (
                source.takes,
                source.taker(
                    self.workspace,
                    self._trail,
                    lambda event, file, what: self.log.say(event, file=file, what=what),
                    lambda: self._policy_reload.policy.settings,
                ),
            )
            for name, source in SOURCES.given().items()
            if source.taker is not None
        }

    def _begin(self) -> str | None:
        """Recover, unless launches are blocked; then return why."""
        context = self._dispatcher.context
        problem = context.begin()
        if problem is not None:
            code, line = problem
            self.log.say("stopped", code=code, what=line)
            return line
        self._dispatcher.unsettled = True
        self._unless_full(self._settle)
        return None

    def _settle(self) -> int:
        """Recover; then requests may start. Raises TrailError, Unavailable, OSError."""
        dispatcher = self._dispatcher
        self._start_works()
        why = DISK_WAS_FULL if dispatcher.full is not None else None
        recover(dispatcher.context, self.log, self._works.values(), why)
        self._keep_trail_checkpoint(complete_trail_checkpoint)
        if self._unrecorded:
            self._policy_reload.record_contracts()
            self._unrecorded = False
        if dispatcher.full is not None:  # else the same request would fail again and again, unsaid
            with self._trail.locked():
                reserve_result(self.workspace, _TRIAL)
            give_back(self.workspace, _TRIAL)
        dispatcher.unsettled, dispatcher.full = False, None
        return 0

    def _unless_full(self, part: Callable[[], int]) -> int:
        """Do a part of a turn, and return what it returns; 0 if the disk is full: the next turn tries it again."""
        try:
            return part()
        except (OSError, ThreeGateError) as error:
            if not is_disk_full(error):
                raise
            self._note_full(error)
            return 0

    def _note_full(self, error: BaseException) -> None:
        name = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        line = f"{name}{error.strerror}" if isinstance(error, OSError) else str(error)
        self._full = self._full or line

    def _turns(self, inbox: Inbox, problem: str | None) -> str | None:
        """Turn after turn; return why launches had to stop, or None."""
        housekeeping_at = time.monotonic()
        while not self.stop.is_set():
            # Before the folders are read: what changes during the turn sets it again.
            self.wake.clear()
            self.supervisor.turned()
            now = time.monotonic()
            looked = now - self._looked_through >= _FOLDERS_LOOK_SECONDS or not self._dispatcher.running
            if looked:
                self._full = None
            if looked or self.reload.is_set():
                self._unless_full(self._look_at_settings)
            applied = self._full is None
            unsettled, changing = self._policy_reload.problem, self._policy_reload.is_changing
            dispatcher = self._dispatcher
            context = dispatcher.context
            did = 0
            if looked:
                self._looked_through = now
                if now - housekeeping_at >= _HOUSEKEEPING_SECONDS:
                    housekeeping_at = now
                    fill_reserve(self.workspace.reserve)
                    self._start_works()
                for work in self._works.values():
                    work.look()
                did += self._unless_full(partial(inbox.scan, context.policy))
                if inbox.full is not None:
                    self._note_full(inbox.full)
                if self._watch is not None:
                    self._watch.follow(inbox.live)
                did += self._unless_full(partial(inbox.types.work, _TYPES_SECONDS))
                if unsettled is None and not changing and problem is None:
                    did += self._unless_full(partial(self._draft_expiry.turn, context))
                    off = context.policy.settings.plugins.off
                    for name, work in self._works.items():
                        did += self._unless_full(partial(work.turn, context, off=name in off))
                # Also while launches are stopped: it must always be possible to end a request.
                self._controls()
            # What blocked the start is gone: recovery, which has not run yet, comes before the first launch.
            if problem is not None and context.begin() is None:
                problem = self._begin()
            elif problem is None and dispatcher.unsettled and not dispatcher.running:
                self._unless_full(self._settle)
            # Nothing starts under a policy other than the one on disk, or with runners of other settings.
            starts = problem is None and unsettled is None and not changing and not self._outdated and applied
            dispatcher.held = not starts
            did += self._unless_full(dispatcher.schedule if starts else dispatcher.collect)
            if dispatcher.full is not None:
                self._note_full(dispatcher.full)
            if problem is None and dispatcher.failed is None:
                self._unless_full(self._sign_trail_checkpoint)
            if looked:
                self._report(problem or unsettled)
            if dispatcher.failed is not None and not dispatcher.running:
                break
            # With `once`, a turn in which nothing happened is the last one.
            idle = looked and not did and not dispatcher.running and not changing
            idle = idle and (self._full is not None or not inbox.unfinished)
            if self.once and idle:
                break
            if self.use is not None:
                if not idle:
                    self.use.go_on()
                elif self.use.is_over:
                    break
                elif self.use.end():
                    continue  # what the last command left may have come after this turn's look
            if self._full is not None or (not inbox.in_between and (not did or dispatcher.running)):
                longest = self.supervisor.turn_seconds if looked else _FOLDERS_LOOK_SECONDS
                self.wake.wait(dispatcher.pause(longest))
        return problem or self._policy_reload.problem

    def _look_at_settings(self) -> int:
        """Apply changed settings and contracts, completely or not at all; runners are replaced when nothing runs."""
        at_once = self.reload.is_set()
        if at_once:
            self.reload.clear()
            self.supervisor.reloading()
        try:
            changed = self._policy_reload.look(at_once=at_once)
        except DiskFull:
            if at_once:
                self.reload.set()
            raise
        finally:
            if at_once:
                self.supervisor.ready()
        problem = self._policy_reload.problem
        if problem is not None and (at_once or problem != self._reported_problem):
            self.log.say("settings", what=f"{problem}; nothing is started until this is fixed")
        self._reported_problem = problem
        if changed:
            names = ", ".join(changed[:_NAMES_SHOWN])
            more = f" and {len(changed) - _NAMES_SHOWN} more" if len(changed) > _NAMES_SHOWN else ""
            self.log.say("reloaded", what=f"{names}{more}")
            self._report_contracts()
        elif at_once and problem is None:
            self.log.say("reloaded", what="nothing changed")
        policy, dispatcher = self._policy_reload.policy, self._dispatcher
        if policy is not dispatcher.context.policy:
            dispatcher.context = replace(dispatcher.context, policy=policy)
            self._outdated = of_dispatcher(policy.settings) != of_dispatcher(dispatcher.settings)
            self._start_works()
        if self._outdated and not dispatcher.running and dispatcher.failed is None:
            new = self._new_dispatcher(policy)
            new.unsettled, new.full = dispatcher.unsettled, dispatcher.full
            self._dispatcher, self._outdated = new, False
            dispatcher.stop(0.0)
            dispatcher.context.close()
        return 0

    def _report_contracts(self) -> None:
        wrong = contracts_problem(self._policy_reload.policy)
        if wrong is not None:
            self.log.say("contracts", code="contracts_do_not_compile", what=wrong)

    def _report(self, problem: str | None) -> None:
        """Say once that the disk is full, or that it no longer is; and one line for the service manager: numbers, or
        the reason why nothing is started.
        """
        if self._full is not None and not self._reported_full:
            self.log.say("full", what=f"{self._full}; make room: threegate agent remove RUN, threegate audit prune")
        elif self._full is None and self._reported_full:
            self.log.say("space", what="the disk has space again")
        self._reported_full = self._full is not None
        dispatcher = self._dispatcher
        failed = None if dispatcher.failed is None else str(dispatcher.failed)
        if (why := failed or problem or self._full or dispatcher.held_up) is not None:
            self.supervisor.status(f"nothing is started: {why}")
        else:
            self.supervisor.status(f"{len(dispatcher.running)} running, {len(dispatcher.waits)} waiting")

    def _working(self) -> list[Work]:
        """The work of plugins that are not off."""
        off = self._policy_reload.policy.settings.plugins.off
        return [work for name, work in self._works.items() if name not in off]

    def _draft_waits(self, *draft: *WaitingDraft) -> None:
        for work in self._working():
            work.draft_waits(*draft)

    def _request_ended(self, request_id: str, status: str) -> None:
        for work in self._working():
            work.request_ended(request_id, status)

    def _draft_seen(self, path: Path) -> None:
        for work in self._works.values():
            work.draft_seen(path)

    def _sign_trail_checkpoint(self) -> int:
        """Sign the trail's tree every `audit.checkpoint_every` events; if the key is missing, report that once.

        While requests run, this is checked only now and then, because the check takes the lock that they need.
        """
        now = time.monotonic()
        if now - self._looked_for_trail_checkpoint < _TRAIL_CHECKPOINT_LOOK_SECONDS and self._dispatcher.running:
            return 0
        self._looked_for_trail_checkpoint = now
        every = self._dispatcher.context.policy.settings.audit.checkpoint_every
        if self._keep_trail_checkpoint(lambda trail: trail_checkpoint_when_due(trail, every, actor="daemon")):
            for work in self._works.values():
                work.checkpoint_signed()
        return 0

    def _keep_trail_checkpoint(self, keep: Callable[[Trail], Path | None]) -> bool:
        try:
            path = keep(self._trail)
        except Unavailable as error:
            if not self._reported_checkpoint:
                self._reported_checkpoint = True
                self.log.say("checkpoint", what=str(error))
            return False
        if path is not None:
            self.log.say("checkpoint", what=str(path))
        return path is not None

    def _controls(self) -> None:
        """Cancellations requested by the operator."""
        for path in sorted(self.workspace.control.glob("cancel-*")):
            request_id = path.name.removeprefix("cancel-")
            if self._dispatcher.cancel(request_id):
                self.log.say("cancelling", request=request_id)
            with suppress(FileNotFoundError):
                durable.unlink(path)


def of_dispatcher(settings: Settings) -> tuple[Any, ...]:
    """The settings that its runners and its budget depend on."""
    listed = SECTIONS.listed()
    elsewhere = machine_of(settings) is not THIS_MACHINE
    return (
        (settings.request, settings.aana) if elsewhere else None,  # another machine judges by its own, which must agree
        settings.workspace,
        settings.runners,
        settings.secrets,
        settings.plugins,
        {
            name: table
            for name, table in settings.sections.items()
            if (plugin := listed[name]) in MACHINES.plugins() or plugin.named("backend")
        },
    )


def run_daemon(workspace: Workspace, *, once: bool, log: Log, while_used: bool = False) -> int:
    """Run a daemon in this process; with `while_used`, as long as commands need it (`own_daemon`). SIGTERM and SIGINT
    stop it gracefully, SIGHUP reloads its settings; a SIGHUP from a closed terminal is a stop. Returns the exit code.
    """
    daemon = Daemon(
        workspace,
        log,
        once=once,
        use=UseOfDaemon(workspace) if while_used else None,
        supervisor=Supervisor.of(os.environ),
        abandon=os._exit,
    )
    # SIGHUP means two things: reload, for a service; stop, for a program whose terminal was closed.
    from_terminal = os.isatty(0)

    def react(number: signal.Signals) -> None:
        if number == signal.SIGHUP and not (from_terminal and not os.isatty(0)):
            daemon.reload.set()
        else:
            log.say("stopping", signal=number.name)
            daemon.stop.set()
        daemon.wake.set()

    with signals_to(react, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)):
        return daemon.run()
