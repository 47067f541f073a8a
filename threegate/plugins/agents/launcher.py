"""One run of an agent, from its profile to its end in the trail.

Invariant: the trail has the run's start before the agent starts, and its end once all its processes are gone.
Every restriction was tested on this machine before. Whatever stops the launcher also stops the jail, and only
then are the agent's changes read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from threegate.acts.signed_acts import checked_act, sign_act
from threegate.approval.signature import forget_unlocked
from threegate.core import limits
from threegate.core.durable import disk_reserve
from threegate.core.errors import Refused, ThreeGateError, is_disk_full
from threegate.core.file_names import new_agent_run_id
from threegate.core.workspace import AgentRun
from threegate.launch.context import Context
from threegate.plugins.agents.agent_commits import NO_COMMITS, AgentCommits
from threegate.plugins.agents.disk_watch import DiskWatch, release_headroom
from threegate.plugins.agents.host_watch import HostWatch
from threegate.plugins.agents.kinds import AgentEnded, AgentStarted
from threegate.plugins.agents.model_counts import ModelCounts
from threegate.plugins.agents.prepared_run import Busy, Decide, PreparedRun
from threegate.plugins.agents.profile import Filled
from threegate.plugins.agents.propose import read_proposed
from threegate.plugins.agents.reach.asked_hosts import withdraw_hosts
from threegate.plugins.agents.run_plan import Wanted, plan_run
from threegate.plugins.agents.runs import RunFacts, clear_ended, end_dead_runs, run_lock, thaw_forgotten
from threegate.plugins.agents.terminal import run_in_jail
from threegate.plugins.agents.work_changes import keep_bases
from threegate.plugins.agents.work_copy import WorkCopy
from threegate.plugins.changes.make import MadeChangeSet
from threegate.runners.jail import jail as jails
from threegate.runners.jail import jail_trial
from threegate.runners.jail.freezer import thaw
from threegate.runners.jail.host_log import read_hosts
from threegate.runners.jail.jail import Bound, Jail, JailProcess
from threegate.trail import moves

HOSTS_ACT: Final = "threegate-agent-hosts/1"
_TERM: Final = re.compile(r"[A-Za-z0-9._+-]{1,64}").fullmatch
_DISK_REASONS: Final = {
    "disk_bytes": "it was ended: its files take more than {limits.disk_mb} MiB (agents.{name}.disk_mb)",
    "disk_names": "it was ended: it has more than {limits.disk_files} files (agents.{name}.disk_files)",
    "disk_unmeasured": "it was ended: its files cannot be measured (folders nested too deep, for instance)",
    "disk_reserve": "it was ended: too little space is left on this disk; make room, for instance with: "
    "threegate agent remove RUN",
}
_PROXIED: Final = {
    **dict.fromkeys(("HTTPS_PROXY", "https_proxy"), f"http://127.0.0.1:{jails.HOSTS_PORT}"),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
}


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that ended. `changes` lists the differences, None if they could not be read (`problem` has the reason)."""

    run: AgentRun
    exit: int
    changes: MadeChangeSet | None
    copy: WorkCopy
    facts: RunFacts
    problem: str = ""
    commits: AgentCommits = NO_COMMITS


Propose = Callable[[Finished], str | None]
"""Called with a run that ended, whatever it changed; returns the digest of the change set that it drafted, or None."""


def run_agent(
    context: Context,
    wanted: Wanted,
    *,
    actor: str,
    say: Callable[[str], None],
    propose: Propose,
    busy: Busy,
    stopped: Callable[[], int],
    decide: Decide | None = None,
    requested: Callable[[], object] = lambda: None,
) -> Finished:
    """Run an agent until it ends. Before it starts, raises InvalidInput, Refused, Unavailable,
    KeyboardInterrupt; TrailError.

    `stopped` returns the number of a signal that asked to stop, or 0. `say` receives lines for the person, before and
    after the agent, never while it has the terminal. `busy` is used while the project is read and its copy made.
    Without `decide` what was found and nobody decided about is hidden if it is of high confidence. `requested` is
    called once the agent has requested something.
    """
    end_dead_runs(context, actor=actor)
    plan = plan_run(context, wanted)
    with ExitStack() as held:
        run = context.workspace.agent_run(new_agent_run_id(datetime.now(UTC))).make()
        held.enter_context(run_lock(run))
        prepared = PreparedRun(context, wanted, plan, run, actor, say, busy, stopped)
        try:
            signed = _sign_hosts(prepared)
            prepared.prepare(held, decide)
            prepared.refuse_stopped()
            _announce_start(prepared, signed)
        except BaseException:  # Ctrl-C, too: a run that never started leaves nothing
            prepared.undo()
            raise
        return _Live(prepared, requested).to_the_end(propose)


def _about_hosts(prepared: PreparedRun) -> dict[str, object]:
    """What an operator signs so that a run may reach hosts."""
    run, plan = prepared.run, prepared.plan
    return {"run": run.run_id, "project": str(plan.root), "hosts": list(prepared.wanted.hosts)}


def _sign_hosts(prepared: PreparedRun) -> bytes:
    """The signature for hosts, before anything is created; empty without hosts. Raises InvalidInput, Refused,
    Unavailable.
    """
    wanted = prepared.wanted
    if not wanted.hosts:
        return b""
    if wanted.acting is None:
        raise Refused("signature_missing", "--allow needs an operator's signature")
    prepared.say(f"you sign that this run may send anything to {', '.join(wanted.hosts)}")
    signed = sign_act(prepared.context, wanted.acting, HOSTS_ACT, _about_hosts(prepared))
    forget_unlocked()  # a key that a passphrase unlocked is not kept while an agent runs
    return signed


def _announce_start(prepared: PreparedRun, signed: bytes) -> None:
    """Record the start in the trail. Raises Refused, TrailError, Unavailable."""
    wanted, plan, context = prepared.wanted, prepared.plan, prepared.context
    started = AgentStarted(
        run=prepared.run.run_id,
        profile=plan.profile.name,
        program_sha256=plan.program.sha256,
        project=prepared.facts.project or None,
        root=str(plan.root),
        copy=prepared.copy.kind,
        shown=wanted.shown or None,
        account=plan.account.name,
        requester=prepared.run.run_id,
        walls=(*jail_trial.WALLS, *(f"{what} limit" for what in prepared.cgroup.held)),
        missing=prepared.cgroup.missing,
        model=", ".join(plan.profile.models) or None,
        endpoint=plan.profile.host or None,
        hosts=wanted.hosts or None,
        parent=prepared.facts.parent or None,
        tools=prepared.facts.tools or None,
    )
    actor = prepared.actor
    with context.trail.locked() as trail:
        if signed:
            actor, act = checked_act(context, trail, signed, HOSTS_ACT, _about_hosts(prepared))
            started = replace(started, **act)
        moves.announce(trail, started, actor=actor)
    prepared.note(announced=True)


class _Live:
    """A prepared run from the agent's first instruction to the trail's end event."""

    def __init__(self, prepared: PreparedRun, requested: Callable[[], object]) -> None:
        self._run, self._plan, self._prepared = prepared.run, prepared.plan, prepared
        self._context, self._copy, self._say = prepared.context, prepared.copy, prepared.say
        self._on_request: Callable[[], object] | None = requested
        self._process: JailProcess | None = None

    def to_the_end(self, propose: Propose) -> Finished:
        """From the agent's first instruction to the trail's end event. Raises TrailError."""
        code, reason = jails.NOT_STARTED, None
        try:
            program, filled = self._plan.program, Filled(self._plan.profile, str(self._plan.root))
            words = [program.file, *map(filled.text, self._plan.profile.args), *program.arguments]
            hosts = HostWatch(self._context.workspace, self._run, self._prepared.proxy, self._prepared.wanted.hosts)
            with hosts, DiskWatch(self._run, self._prepared.most) as watch:

                def started(process: JailProcess) -> None:
                    self._note_jail(process)
                    watch.start(process)

                code = run_in_jail(self._jail(), words, started=started, stopped=self._is_stopped)
            reason = watch.reason or ("stopped" if self._prepared.stopped() else None)
        except KeyboardInterrupt:
            reason = "stopped"
        finally:
            finished = self._finish(code, reason, propose)
        return finished

    def _jail(self) -> Jail:
        plan, run = self._plan, self._run
        filled = Filled(plan.profile, str(plan.root))
        bound = [
            *plan.program.bound,
            *(bound for folder in self._prepared.read for bound in folder.bound),
            Bound(run.state, jails.HOME, writable=True),
            Bound(run.inbox, jails.INBOX, writable=True),
            Bound(run.verdicts, jails.VERDICTS),
            Bound(run.results, jails.RESULTS),
            Bound(run.door, jails.DOOR),
            *((Bound(run.model, jails.MODEL),) if plan.profile.url else ()),
            Bound(run.hosts, jails.HOSTS),
            *self._copy.bound,
        ]
        term = os.environ.get("TERM", "")
        environment = {
            "HOME": jails.HOME,
            "USER": "agent",
            "LANG": "C.UTF-8",
            "TERM": term if _TERM(term) else "dumb",
            "PATH": ":".join([*plan.program.path, "/usr/local/bin", "/usr/bin", "/bin"]),
            **_PROXIED,
            **{name: filled.text(value) for name, value in plan.profile.environment.items()},
        }
        return Jail(
            plan.account,
            tuple(bound),
            (*(layered for folder in self._prepared.read for layered in folder.layered), *self._copy.layered),
            links=plan.links,
            environment=environment,
            cwd=str(plan.root),
            processes=plan.profile.limits.processes,
            cgroups=(*self._prepared.cgroup.entered, *self._prepared.freezer),
        )

    def _is_stopped(self) -> bool:
        """Called repeatedly while the agent is alive; also resumes a jail that a killed process left frozen, and looks
        for the first request.
        """
        if self._on_request is not None and self._has_requested():
            self._on_request()
            self._on_request = None
        thaw_forgotten(self._run, self._prepared.facts.jail)
        if not self._prepared.stopped():
            return False
        thaw(self._run.run_id)  # what is frozen may not die; who reads notices
        return True

    def _has_requested(self) -> bool:
        with (
            suppress(OSError),
            self._context.workspace.hold(self._run.inbox) as inbox,
            inbox.entries() as entries,
        ):
            return any(entry.name.startswith("TR-") for entry in islice(entries, limits.AGENT_INBOX_ENTRIES))
        return False

    def _note_jail(self, process: JailProcess) -> None:
        self._process = process
        try:
            self._prepared.note(jail=process.pid)
        except OSError as error:
            if not is_disk_full(error):
                raise
            release_headroom(self._run)  # the agent has filled the disk already; the watcher ends it
            self._prepared.note(jail=process.pid)

    def _finish(self, code: int, reason: str | None, propose: Propose) -> Finished:
        """Read the changes, propose them, and record the end in the trail."""
        if reason in _DISK_REASONS:
            profile = self._plan.profile
            self._say(_DISK_REASONS[reason].format(name=profile.name, limits=profile.limits))
        for side in self._prepared.sides:
            if how := side.died():
                self._say(f"the {side.name} exited before the agent ({how}) and answered nothing after that")
        finished = self._read_changes(code)
        drafted = None
        try:
            drafted = propose(finished)
        finally:
            self._announce_end(finished, reason, drafted)
        return finished

    def _read_changes(self, code: int) -> Finished:
        """What differs in the copy, or why that cannot be read."""
        run, copy = self._run, self._copy
        problem, changes, commits = "", None, NO_COMMITS
        try:
            # First every process of the run must be gone: what is read now must not change meanwhile.
            if self._process is not None:
                self._process.wait_empty()
            release_headroom(run)
            withdraw_hosts(self._context.workspace, run)
            changes, commits = read_proposed(copy)
            keep_bases(copy, changes.rows)
        except ThreeGateError as error:
            problem = str(error)
        except OSError as error:
            problem = f"{run.base}: cannot be written ({error.strerror}); make room"
        except KeyboardInterrupt:
            problem = f"interrupted before its changes were read; see: threegate agent show {run.run_id}"
        return Finished(run, code, changes, copy, self._prepared.facts, problem, commits)

    def _announce_end(self, finished: Finished, reason: str | None, drafted: str | None) -> None:
        """Record the end, first in the trail. Raises TrailError."""
        prepared, changes = self._prepared, finished.changes
        counts = ModelCounts.read(prepared.counts) if prepared.counts >= 0 else ModelCounts()
        hosts = read_hosts(prepared.hosts)
        ended = AgentEnded(
            run=self._run.run_id,
            exit=finished.exit,
            reason=reason,
            requests=counts.requests,
            refused_requests=counts.refused,
            bytes_out=counts.bytes_out,
            bytes_in=counts.bytes_in,
            tokens=counts.tokens,
            reached=hosts.reached or None,
            reached_bytes=hosts.reached_bytes or None,
            refused=hosts.refused or None,
            refused_unlisted=hosts.unlisted or None,
            changed=len(changes.rows) if changes is not None else None,
            changes_sha256=drafted,
        )
        with disk_reserve(self._context.workspace.reserve), self._context.trail.locked() as trail:
            moves.announce(trail, ended, actor=prepared.actor)
        clear_ended(self._run)
        before = None if prepared.wanted.parent is None else prepared.wanted.parent[1]
        with suppress(OSError):  # the trail has the end
            prepared.note(
                ended=True,
                exit=finished.exit,
                jail=0,
                used_requests=counts.requests + (max(0, before.used_requests) if before else 0),
                used_bytes=counts.bytes_out + counts.bytes_in + (max(0, before.used_bytes) if before else 0),
                used_tokens=counts.tokens + (max(0, before.used_tokens) if before else 0),
            )
