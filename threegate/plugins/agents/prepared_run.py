"""Everything that a run of an agent has before the agent's first instruction: its work copy, home, processes that serve
it from outside, and limits; and how all of it is taken back.

Invariant: a run that the trail does not have leaves nothing, and what it took over from another run is returned. What
is known of the run is written down before anything is moved, so a process that is killed here loses nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from threegate.core import removal
from threegate.core.errors import InvalidInput, Refused, ThreeGateError, Unavailable
from threegate.core.workspace import AgentRun
from threegate.launch.context import Context
from threegate.plugins.agents.agent_home import take_over_state, write_files
from threegate.plugins.agents.continued_copy import TakenCopy, take_over_copy
from threegate.plugins.agents.disk_watch import Space, hold_headroom, used_space
from threegate.plugins.agents.door_tools import offered_tools
from threegate.plugins.agents.file_findings import Finding
from threegate.plugins.agents.model_counts import RelaySettings
from threegate.plugins.agents.names_layer import names_work
from threegate.plugins.agents.profile import Filled
from threegate.plugins.agents.project_survey import Survey, scan_cache, survey
from threegate.plugins.agents.propose import register_project
from threegate.plugins.agents.reach.asked_hosts import REQUEST_HOST
from threegate.plugins.agents.reach.host_action import PORT
from threegate.plugins.agents.read_folders import ReadFolder
from threegate.plugins.agents.run_plan import RunPlan, Wanted
from threegate.plugins.agents.runs import RunFacts, all_runs, clear_ended, lock_ended
from threegate.plugins.agents.secret_answers import Answers, keep_answers
from threegate.plugins.agents.side_processes import start_door, start_model_relay
from threegate.plugins.agents.tool_choice import chosen_tools, told_choice
from threegate.plugins.agents.work_copy import NAMES, SCRATCH, UPPER, CopyKind, WorkCopy
from threegate.plugins.changes.projects import find_project, read_projects
from threegate.plugins.changes.registered_projects import project_remarks
from threegate.plugins.changes.section import AgentsSettings
from threegate.runners.jail.freezer import make_freezer, remove_freezer
from threegate.runners.jail.jail_cgroup import JailCgroup
from threegate.runners.jail.side_process import SideProcess, listen, start_host_proxy

_SECRETS: Final = ("protected", "secret")
"""Reasons for which `--with` shows a path."""
_NOT_COPIED: Final = {
    "git": "a repository of its own",
    "special": "not a file, folder or link",
    "ours": "a workspace of ThreeGate",
}
_INSTRUCTIONS: Final = """\
You work in a jail on a copy of the project. The only network access is your model. In here you may read, write, build
and test without asking. Anything outside goes through the MCP server `threegate`: `propose_changes` asks a person to
apply your changes to the project, `run_python` and `run_program` ask to run something outside, `request_host` asks for
HTTPS to one host (403 for a CONNECT: not open). A person reads and signs each request; until then a call returns
`pending`, and `wait` waits for it. A refusal says what to change.
"""
_ASK_FOR_IT: Final = f"ask for this host with the tool {REQUEST_HOST} of the MCP server threegate"
"""What a refused connection says."""
Busy = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Called with what is going on: a context manager whose value is called with how many are done, and out of how many
or 0.
"""
Decide = Callable[[Sequence[Finding]], Mapping[str, bool]]
"""Called with findings that nobody has decided about; returns for the digests that were decided whether they hide."""


class PreparedRun:
    """One run while it is made, and what was made of it. What has no value yet in `__init__` gets it in `prepare`."""

    copy: WorkCopy
    facts: RunFacts
    cgroup: JailCgroup
    proxy: SideProcess
    """To hosts."""
    freezer: tuple[Path, ...]
    most: Space
    """What its files may take of the disk."""

    def __init__(
        self,
        context: Context,
        wanted: Wanted,
        plan: RunPlan,
        run: AgentRun,
        actor: str,
        say: Callable[[str], None],
        busy: Busy,
        stopped: Callable[[], int],
    ) -> None:
        self.context, self.wanted, self.plan, self.run = context, wanted, plan, run
        self.actor, self.say, self.stopped = actor, say, stopped
        self.read: list[ReadFolder] = []
        self.sides: list[SideProcess] = []
        self.counts = self.hosts = -1
        """Descriptors of what the relay counts, and of the proxy's log."""
        self._busy = busy
        self._taken: TakenCopy | None = None
        self._before: AgentRun | None = None
        """The run whose HOME this one took over."""

    def refuse_stopped(self) -> None:
        """Raises KeyboardInterrupt if a stop was requested."""
        if self.stopped():
            raise KeyboardInterrupt

    def undo(self) -> None:
        """Remove everything of a run that never started; a HOME it took over is returned. One that the trail has is
        left to the next process that looks: it records the end.
        """
        with suppress(ThreeGateError, OSError), self.context.trail.locked() as trail:
            if self.run.run_id in trail.index.known_runs:
                return
        if self._before is not None:
            with suppress(OSError):
                os.rename(self.run.state, self._before.state)
        clear_ended(self.run)
        if self.wanted.parent is not None and self._taken is not None:
            parent, facts = self.wanted.parent
            self._taken.give_back()  # before the folder goes: this is the agent's work
            facts.write(parent)
        removal.remove_tree(self.run.folder)

    def prepare(self, held: ExitStack, decide: Decide | None) -> None:
        """Everything before the agent's first instruction, except the trail's event. Raises the same as `run_agent`."""
        plan, run, parent = self.plan, self.run, self.wanted.parent
        hold_headroom(run)
        self._make_copy(decide)
        self._register()
        if not self.wanted.fresh:
            self._before = take_over_state(self.context.workspace, run, self.facts)
        if self._before is not None:
            self.note(home=self._before.run_id)
            self.say(f"it continues with the home of run {self._before.run_id} (--fresh starts over)")
        write_files(run, Filled(plan.profile, str(plan.root), _INSTRUCTIONS), plan.account)
        for folder in (run.inbox, run.files):
            os.chown(folder, plan.account.uid, plan.account.gid)
        bounds = plan.profile.limits
        self.cgroup = JailCgroup.make(run.run_id, memory_mb=bounds.memory_mb)
        held.callback(self.cgroup.close)
        self._start_sides(held)
        self.say(
            f"{plan.profile.name} starts in a jail, on a copy of {plan.root} (run {run.run_id}); sign its requests in "
            "another terminal: threegate review"
        )
        self._say_hidden()
        self.freezer = make_freezer(run.run_id)
        held.callback(remove_freezer, run.run_id)
        hold_headroom(run)  # again: the copy may have taken what must stay free
        begun = used_space(run.work, skip=(NAMES, SCRATCH), unlock=parent is not None)
        if parent is not None and parent[1].start_bytes >= 0:  # what the run before added counts
            begun = Space(parent[1].start_bytes, parent[1].start_names)
        self.note(start_bytes=begun.bytes, start_names=begun.names)
        self.most = Space(bounds.disk_mb << 20, bounds.disk_files) + begun
        if self.cgroup.missing:
            self.say(f"not limited here: {', '.join(self.cgroup.missing)} (only root can make a cgroup for that)")

    def note(self, **known: Any) -> None:
        """Write down more of what is known of the run. Raises OSError."""
        self.facts = replace(self.facts, **known)
        self.facts.write(self.run)

    @contextmanager
    def _counting(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """Report progress; each report raises KeyboardInterrupt if a stop was requested."""
        with self._busy(what) as progress:

            def counted(done: int, of: int) -> None:
                self.refuse_stopped()
                progress(done, of)

            yield counted

    def _make_copy(self, decide: Decide | None) -> None:
        """The work copy, and what the agent may read besides. Raises the same as `run_agent`."""
        plan, run = self.plan, self.run
        cache = scan_cache(self.context.workspace_id)
        kind: CopyKind = "plain"
        if plan.account.is_own:
            for name in (UPPER, SCRATCH):
                (run.work / name).mkdir()
            if names_work(plan.account, plan.root, run.work, run.work):
                kind = "overlay"
        said: list[str] = []
        start = self._survey(decide)
        if self.wanted.parent is not None:
            self._take_over(*self.wanted.parent, kind, start, said)
        else:
            with self._counting("making the work copy") as counted:
                self.copy = WorkCopy.make(
                    run,
                    plan.root,
                    account=plan.account,
                    kind=kind,
                    plain_if_small=plan.account.is_own,
                    shown=plan.shown[plan.root],
                    cache=cache,
                    progress=counted,
                    say=said.append,
                    start=start,
                    take_names=self._take_names,
                )
        for number, folder in enumerate(plan.read):
            self.refuse_stopped()
            made = ReadFolder.make(run, number, folder, account=plan.account, shown=plan.shown[folder], cache=cache)
            self.read.append(made)
        if self.copy.kind == "overlay":
            said.append(
                "the copy is an overlay: rename(2) of a folder of the project fails in it (EXDEV); mv, git mv and "
                "shutil.move copy it instead"
            )
        for line in said:
            self.say(line)
        self.facts = self._first_facts(self.copy.kind)

    def _first_facts(self, kind: CopyKind) -> RunFacts:
        """The first facts, before anything of the run is recorded elsewhere."""
        plan = self.plan
        return RunFacts(
            profile=plan.profile.name,
            started_utc=datetime.now(UTC).isoformat(timespec="seconds"),
            root=str(plan.root),
            copy=kind,
            account=plan.account.name,
            uid=plan.account.uid,
            gid=plan.account.gid,
            launcher=os.getpid(),
            shown=self.wanted.shown,
            reading=tuple(map(str, plan.read)),
            hosts=self.wanted.hosts,
            parent="" if self.wanted.parent is None else self.wanted.parent[0].run_id,
        )

    def _take_over(self, parent: AgentRun, facts: RunFacts, kind: CopyKind, now: Survey, said: list[str]) -> None:
        """Continue in the copy of another run. Raises InvalidInput, Unavailable, OSError."""
        plan, run = self.plan, self.run
        if facts.copy == "overlay" and kind != "overlay":
            raise Unavailable(f"{parent.run_id}: its copy is an overlay, which cannot be mounted here any more")
        if (run.work / UPPER).is_dir():
            (run.work / UPPER).rmdir()

        def taken(copy: TakenCopy) -> None:
            self._taken = copy
            # Before anything moves: if this process is killed, the next one finds the copy and returns it.
            self._first_facts(facts.copy).write(run)
            replace(facts, continued=run.run_id).write(parent)

        result = take_over_copy(
            parent, facts, run, root=plan.root, account=plan.account, now=now, shown=self.wanted.shown, taken=taken
        )
        self.copy = result.copy
        said += result.lines

    def _take_names(self, place: Path) -> None:
        """Take the layer of names of the newest run on the project that has ended, if there is one."""
        # To change what differs takes a part of the time of making it.
        for run, facts in reversed(all_runs(self.context.workspace)):
            if not facts.ended or facts.root != str(self.plan.root) or facts.uid != self.plan.account.uid:
                continue
            with suppress(OSError), lock_ended(run) as ended:
                if ended:
                    os.rename(run.work / NAMES, place)
                    return

    def _survey(self, decide: Decide | None) -> Survey:
        """The project at the start; what nobody has decided about is decided now, if there is somebody."""
        context, root = self.context, self.plan.root
        answers = Answers.read(context.workspace, root)

        def look() -> Survey:
            with self._counting("reading the project") as counted:
                return survey(
                    root,
                    shown=self.plan.shown[root],
                    cache=scan_cache(context.workspace_id),
                    progress=lambda count: counted(count, 0),
                    protected=context.policy.settings.section(AgentsSettings).protected,
                    key=answers.key,
                    answers=answers.hides,
                )

        found = look()
        new = found.questions(answers.hides)
        if decide is None or not new:
            return found
        decided = decide(new)
        self.refuse_stopped()
        if decided:
            answers = keep_answers(context.workspace, answers, decided, actor=self.actor)
        return look()  # a person may have taken minutes, and the project may have changed meanwhile

    def _say_hidden(self) -> None:
        """Name every path that the agent does not see, and what it sees although it may be a secret."""
        start = self.copy.start
        found = [item for hidden in (start.hidden, *(folder.hidden for folder in self.read)) for item in hidden.items()]
        if hidden := [path for path, why in found if why in _SECRETS]:
            self.say(f"hidden from the agent: {', '.join(hidden)}; --with PATH reveals one")
        others = [
            f"{path} ({_NOT_COPIED.get(why, why)})"
            for path, why in start.hidden.items()
            if why not in _SECRETS and path != ".git"
        ]
        if others:
            self.say(f"not in its copy: {', '.join(others)}")
        if start.listed:
            first = {(found.path, found.kind): found for found in reversed(start.listed)}
            listed = [f"{found.place} ({found.kind})" for found in reversed(first.values())]
            self.say(f"the agent sees what may be secrets: {', '.join(listed)}")

    def _register(self) -> None:
        """Write down the project's name, empty if it may not be changed, and which tools of servers the agent may call
        on it. Raises InvalidInput.
        """
        context, workspace, settings = self.context, self.context.workspace, self.context.policy.settings
        agents, name, changeable = settings.section(AgentsSettings), "", False
        try:
            name = register_project(workspace, settings, self.plan.root, actor=self.actor)
            for remark in project_remarks(workspace, find_project(workspace, settings, name)):
                self.say(remark)
            changeable = True
        except (InvalidInput, Refused) as error:
            self.say(f"the agent's changes can be viewed but not applied: {error}")
        if not name and agents.projects:
            read_projects(workspace)  # if that fails, it is not known which choice is this project's
        before = () if self.wanted.parent is None else self.wanted.parent[1].tools
        choice = chosen_tools(self.wanted.tools, before, agents, project=name, profile=self.plan.profile.name)
        if said := told_choice(choice, offered_tools(workspace, context.trail).values()):
            self.say(said)
        self.note(project=name if changeable else "", tools=choice)

    def _start_sides(self, held: ExitStack) -> None:
        """Start the door, the relay and the proxy to hosts."""
        # Each has a socket that no other process holds: if one dies, its socket no longer answers.
        plan, run = self.plan, self.run
        with listen(run.door, plan.account) as listener:
            self._keep(held, start_door(self.context.workspace, run, listener, plan.profile.wait_sec))
        with listen(run.hosts, plan.account) as listener:
            targets = [f"{host}:{PORT}" for host in self.wanted.hosts]
            self.proxy, self.hosts = start_host_proxy(listener, targets, self.cgroup.entered, hint=_ASK_FOR_IT)
        held.callback(os.close, self.hosts)
        self._keep(held, self.proxy)
        if not plan.profile.url:
            return
        bounds = plan.profile.limits
        settings = RelaySettings(
            protocol=plan.profile.protocol,
            url=plan.profile.url.rstrip("/"),
            models=plan.profile.models,
            key=plan.key,
            requests=bounds.requests,
            bytes=bounds.megabytes << 20,
            tokens=bounds.tokens,
            login=bounds.login,
            identity_url=plan.profile.identity_url,
        )
        with listen(run.model, plan.account) as listener:
            side, self.counts = start_model_relay(listener, settings, self.cgroup.entered)
        held.callback(os.close, self.counts)
        self._keep(held, side)

    def _keep(self, held: ExitStack, side: SideProcess) -> None:
        self.sides.append(side)
        held.callback(side.end)
