"""One run of an agent, from its profile to its end: checks, work copy, jail, and trail events.

Invariant: the trail has the run's start before the agent starts, and its end once all its processes are gone.
Every restriction was tested on this machine before. Whatever stops the launcher also stops the jail, and only
then are the agent's changes read.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from threegate.acts.signed_acts import checked_act, sign_act
from threegate.acts.signing_key import Acting
from threegate.approval.signature import forget_unlocked
from threegate.core import limits, removal
from threegate.core.durable import disk_reserve
from threegate.core.errors import InvalidInput, Refused, ThreeGateError, Unavailable, is_disk_full
from threegate.core.extras import require_extra
from threegate.core.file_names import new_agent_run_id
from threegate.core.plugins import require_plugin
from threegate.core.secret_value import read_secret
from threegate.core.workspace import AgentRun
from threegate.launch.context import Context
from threegate.plugins.agents.agent_commits import NO_COMMITS, AgentCommits
from threegate.plugins.agents.agent_home import take_over_state, write_files
from threegate.plugins.agents.codex_login import read_login
from threegate.plugins.agents.continued_copy import TakenCopy, refuse_continuing, take_over_copy
from threegate.plugins.agents.disk_watch import DiskWatch, Space, hold_headroom, release_headroom, used_space
from threegate.plugins.agents.door_tools import offered_tools
from threegate.plugins.agents.file_findings import Finding
from threegate.plugins.agents.host_watch import HostWatch
from threegate.plugins.agents.kinds import AgentEnded, AgentStarted
from threegate.plugins.agents.model_counts import ModelCounts, RelaySettings
from threegate.plugins.agents.names_layer import names_work
from threegate.plugins.agents.profile import Filled, Profile, Program, find_program, load_profile
from threegate.plugins.agents.project_survey import Survey, scan_cache, survey
from threegate.plugins.agents.propose import read_proposed, register_project
from threegate.plugins.agents.reach.asked_hosts import REQUEST_HOST, withdraw_hosts
from threegate.plugins.agents.reach.host_action import PORT
from threegate.plugins.agents.read_folders import ReadFolder
from threegate.plugins.agents.runs import RunFacts, all_runs, end_dead_runs, lock_ended, run_lock, thaw_forgotten
from threegate.plugins.agents.secret_answers import Answers, keep_answers
from threegate.plugins.agents.side_processes import start_door, start_model_relay
from threegate.plugins.agents.terminal import run_in_jail
from threegate.plugins.agents.tool_choice import chosen_tools, told_choice
from threegate.plugins.agents.work_changes import keep_bases
from threegate.plugins.agents.work_copy import NAMES, SCRATCH, UPPER, CopyKind, WorkCopy, refuse_project, typed_links
from threegate.plugins.changes.make import MadeChangeSet
from threegate.plugins.changes.projects import find_project, read_projects
from threegate.plugins.changes.registered_projects import project_remarks
from threegate.plugins.changes.section import AgentsSettings
from threegate.request.hosts import HostError, read_host
from threegate.runners.jail import jail as jails
from threegate.runners.jail import jail_trial
from threegate.runners.jail.freezer import make_freezer, remove_freezer, thaw
from threegate.runners.jail.host_log import read_hosts
from threegate.runners.jail.jail import Account, Bound, Jail, JailProcess
from threegate.runners.jail.jail_cgroup import JailCgroup
from threegate.runners.jail.side_process import SideProcess, listen, start_host_proxy
from threegate.trail import moves

HOSTS_ACT: Final = "threegate-agent-hosts/1"
_TERM: Final = re.compile(r"[A-Za-z0-9._+-]{1,64}").fullmatch
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
_DISK_REASONS: Final = {
    "disk_bytes": "it was ended: its files take more than {limits.disk_mb} MiB (agents.{name}.disk_mb)",
    "disk_names": "it was ended: it has more than {limits.disk_files} files (agents.{name}.disk_files)",
    "disk_unmeasured": "it was ended: its files cannot be measured (folders nested too deep, for instance)",
    "disk_reserve": "it was ended: too little space is left on this disk; make room, for instance with: "
    "threegate agent remove RUN",
}
_ASK_FOR_IT: Final = f"ask for this host with the tool {REQUEST_HOST} of the MCP server threegate"
"""What a refused connection says."""
_PROXIED: Final = {
    **dict.fromkeys(("HTTPS_PROXY", "https_proxy"), f"http://127.0.0.1:{jails.HOSTS_PORT}"),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of a run."""

    profile: str
    project: Path
    arguments: tuple[str, ...] = ()
    account: str = ""
    shown: tuple[str, ...] = ()
    """Protected paths that the agent may read."""
    read: tuple[Path, ...] = ()
    """Folders outside the project that it may read."""
    hosts: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    """Tools of added servers that it may call, as they were typed."""
    acting: Acting | None = None
    """Who signs for `hosts`."""
    fresh: bool = False
    """Whether it starts with an empty HOME."""
    parent: tuple[AgentRun, RunFacts] | None = None
    """The run in whose copy it continues."""


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
Busy = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Called with what is going on: a context manager whose value is called with how many are done, and out of how many
or 0.
"""
Decide = Callable[[Sequence[Finding]], Mapping[str, bool]]
"""Called with findings that nobody has decided about; returns for the digests that were decided whether they hide."""


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

    `stopped` comes from `stop_signals`. `say` receives lines for the person, before and after the agent,
    never while it has the terminal. `busy` is used while the project is read and its copy made. Without `decide` what
    was found and nobody decided about is hidden if it is of high confidence. `requested` is called once the agent has
    requested something.
    """
    end_dead_runs(context, actor=actor)
    plan = _plan(context, wanted)
    with ExitStack() as held:
        run = context.workspace.agent_run(new_agent_run_id(datetime.now(UTC))).make()
        held.enter_context(run_lock(run))
        launch = _Launch(context, wanted, plan, run, actor, say, busy, stopped, requested)
        try:
            launch.prepare(held, decide)
            launch.refuse_stopped()
            launch.announce()
        except BaseException:  # Ctrl-C, too: a run that never started leaves nothing
            launch.undo()
            raise
        return launch.live(propose)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is known before anything is created."""

    profile: Profile
    program: Program
    account: Account
    root: Path
    read: tuple[Path, ...]
    """Folders besides the project, by their real paths."""
    links: tuple[tuple[str, str], ...]
    """The links on the way to these folders, as their paths were typed."""
    key: str


def _by_folder(paths: tuple[str, ...], plan: _Plan) -> dict[Path, list[str]]:
    """The paths of `--with`, relative to the project or to a folder of `--read`. A path is relative to the project; an
    absolute one is in it or in such a folder. Raises InvalidInput.
    """
    found: dict[Path, list[str]] = {root: [] for root in (plan.root, *plan.read)}
    for text in paths:
        if not text.startswith("/"):
            found[plan.root].append(text)
            continue
        path = Path(os.path.realpath(os.path.dirname(text)), os.path.basename(text))
        above = next((folder for folder in found if folder in path.parents), None)
        if above is None:
            raise InvalidInput(f"--with {text}: is neither in the project nor in a folder of --read")
        found[above].append(str(path.relative_to(above)))
    return found


def _plan(context: Context, wanted: Wanted) -> _Plan:
    settings = context.policy.settings
    profile = load_profile(wanted.profile, settings)
    require_extra("an agent", "agents", "mcp")
    require_plugin("an agent", "serve", settings.plugins.off)
    account = agent_account(wanted.account)
    if wanted.parent is not None:
        refuse_continuing(*wanted.parent, wanted.shown)
        profile = _rest(profile, account, *wanted.parent)
    root = refuse_project(wanted.project, context.workspace, context.workspace_id)
    program = find_program(profile, wanted.arguments)
    for host in wanted.hosts:
        try:
            read_host(host)
        except HostError as error:
            raise InvalidInput(f"--allow: {error}; give the name of one host, without port or path") from None
    if len(wanted.hosts) > limits.ALLOWLIST_ENTRIES:
        raise InvalidInput(f"--allow: at most {limits.ALLOWLIST_ENTRIES} hosts; each of them is a way out")
    read = []
    for folder in wanted.read:
        if not folder.is_dir():
            raise InvalidInput(f"--read {folder}: no such folder")
        read.append(refuse_project(folder, context.workspace, context.workspace_id, copied=False))
    key = _key(context, profile)
    if profile.limits.login:
        bound = (place.source for place in program.bound)
        _check_login(profile, (Path("/usr"), context.workspace.root, root, *read, *bound))
    jail_trial.check_walls(account)
    links = tuple(link for folder in (wanted.project, *wanted.read) for link in typed_links(folder))
    return _Plan(profile, program, account, root, tuple(dict.fromkeys(read)), links, key)


def _rest(profile: Profile, account: Account, parent: AgentRun, facts: RunFacts) -> Profile:
    """A profile with what is left of the budgets of a run that is continued. Raises InvalidInput."""
    if account.uid != facts.uid:
        raise InvalidInput(f"{parent.run_id}: ran as {facts.account}; only the same account can continue in its copy")
    if not profile.url:
        return profile
    if facts.used_requests < 0:
        raise InvalidInput(
            f"{parent.run_id}: what it used of its budgets is not known, because its launcher was killed; draft its "
            f"changes instead: threegate agent propose {parent.run_id}"
        )
    whole = profile.limits
    left = {
        "requests": whole.requests - facts.used_requests,
        "megabytes": whole.megabytes - -(-facts.used_bytes // limits.MIB),
        **({"tokens": whole.tokens - facts.used_tokens} if whole.tokens else {}),
    }
    for name, rest in left.items():
        if rest <= 0:
            raise InvalidInput(
                f"agents.{profile.name}.{name}: used up by the run {parent.run_id}; raise it to continue"
            )
    return profile.but(limits=whole.but(**left))


def agent_account(name: str) -> Account:
    """The account for the agent's processes. Raises InvalidInput."""
    if os.geteuid() != 0:
        if name:
            raise InvalidInput("--as works only for root; without it the agent runs as you, in its jail")
        return Account.own()
    if not name:
        raise InvalidInput(
            "root never runs an agent: name another account with --as USER (to create one: adduser --system agent)"
        )
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise InvalidInput(f"--as {name}: no such account; create it with: adduser --system {name}") from None
    if found.pw_uid == 0:
        raise InvalidInput(f"--as {name}: is root; root never runs an agent")
    return Account(name, found.pw_uid, found.pw_gid)


def _key(context: Context, profile: Profile) -> str:
    """The key for the model's endpoint; empty if none is needed. Raises InvalidInput, Unavailable."""
    name = profile.limits.key
    host = urlsplit(profile.url).hostname or ""
    if not profile.url or not (name or profile.needs_key):
        return ""
    if not name:
        login = f", or the folder of a ChatGPT login in agents.{profile.name}.login" if profile.login_url else ""
        raise InvalidInput(
            f"agents.{profile.name}.key is not set in threegate.toml: name the secret with the key for {host}{login}"
        )
    reference = context.policy.settings.secrets.get(name)
    if reference is None:
        raise InvalidInput(f"agents.{profile.name}.key names secrets.{name}, which is not in threegate.toml")
    # A key is for the host that is written beside it: a profile must not send it elsewhere.
    if reference.host != host:
        raise InvalidInput(f"secrets.{name} in threegate.toml is for {reference.host}; set its host to {host}")
    return read_secret(name, reference)


def _check_login(profile: Profile, seen: Sequence[Path]) -> None:
    """Check that a login can be used, and that the agent sees none of it. Raises InvalidInput, Unavailable."""
    home = Path(profile.limits.login)
    real = home.resolve()
    for folder in map(Path.resolve, seen):
        if folder in (real, *real.parents):
            raise InvalidInput(
                f"agents.{profile.name}.login: {home} is in {folder}, of which agents or records may have parts; move "
                "it, and set the new path"
            )
    read_login(home)


class _Launch:
    """One launch: what was created for it, and how it proceeds."""

    def __init__(
        self,
        context: Context,
        wanted: Wanted,
        plan: _Plan,
        run: AgentRun,
        actor: str,
        say: Callable[[str], None],
        busy: Busy,
        stopped: Callable[[], int],
        requested: Callable[[], object],
    ) -> None:
        self._context, self._wanted, self._plan, self._run = context, wanted, plan, run
        self._actor, self._say, self._busy, self._stopped = actor, say, busy, stopped
        self._on_request: Callable[[], object] | None = requested
        self._counts = self._hosts = -1
        self._proxy: SideProcess
        self._sides: list[SideProcess] = []
        self._process: JailProcess | None = None
        self._signed = b""
        self._about: dict[str, object] = {}
        self._facts: RunFacts
        self._read: list[ReadFolder] = []
        self._taken: TakenCopy | None = None
        self._before: AgentRun | None = None
        """The run whose HOME this one took over."""

    def refuse_stopped(self) -> None:
        """Raises KeyboardInterrupt if a stop was requested."""
        if self._stopped():
            raise KeyboardInterrupt

    def undo(self) -> None:
        """Remove everything of a run that never started; a HOME it took over is returned. One that the trail has is
        left to the next process that looks: it records the end.
        """
        with suppress(ThreeGateError, OSError), self._context.trail.locked() as trail:
            if self._run.run_id in trail.index.known_runs:
                return
        if self._before is not None:
            with suppress(OSError):
                os.rename(self._run.state, self._before.state)
        _clean(self._run)
        if self._wanted.parent is not None and self._taken is not None:
            parent, facts = self._wanted.parent
            self._taken.give_back()  # before the folder goes: this is the agent's work
            facts.write(parent)
        removal.remove_tree(self._run.folder)

    def prepare(self, held: ExitStack, decide: Decide | None) -> None:
        """Everything before the agent's first instruction, except the trail's event. Raises the same as `run_agent`."""
        plan, run, parent = self._plan, self._run, self._wanted.parent
        self._sign()
        hold_headroom(run)
        shown = _by_folder(self._wanted.shown, plan)
        self._make_copy(shown, decide)
        self._register()
        if not self._wanted.fresh:
            self._before = take_over_state(self._context.workspace, run, self._facts)
        if self._before is not None:
            self._note(home=self._before.run_id)
            self._say(f"it continues with the home of run {self._before.run_id} (--fresh starts over)")
        write_files(run, Filled(plan.profile, str(plan.root), _INSTRUCTIONS), plan.account)
        for folder in (run.inbox, run.files):
            os.chown(folder, plan.account.uid, plan.account.gid)
        bounds = plan.profile.limits
        self._cgroup = JailCgroup.make(run.run_id, memory_mb=bounds.memory_mb)
        held.callback(self._cgroup.close)
        self._start_sides(held)
        self._say(
            f"{plan.profile.name} starts in a jail, on a copy of {plan.root} (run {run.run_id}); sign its requests in "
            "another terminal: threegate review"
        )
        self._say_hidden()
        self._freezer = make_freezer(run.run_id)
        held.callback(remove_freezer, run.run_id)
        hold_headroom(run)  # again: the copy may have taken what must stay free
        begun = used_space(run.work, skip=(NAMES, SCRATCH), unlock=parent is not None)
        if parent is not None and parent[1].start_bytes >= 0:  # what the run before added counts
            begun = Space(parent[1].start_bytes, parent[1].start_names)
        self._note(start_bytes=begun.bytes, start_names=begun.names)
        self._most = Space(bounds.disk_mb << 20, bounds.disk_files) + begun
        if self._cgroup.missing:
            self._say(f"not limited here: {', '.join(self._cgroup.missing)} (only root can make a cgroup for that)")

    def _note(self, **known: Any) -> None:
        """Write down more of what is known of the run. Raises OSError."""
        self._facts = replace(self._facts, **known)
        self._facts.write(self._run)

    @contextmanager
    def _counting(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """Report progress; each report raises KeyboardInterrupt if a stop was requested."""
        with self._busy(what) as progress:

            def counted(done: int, of: int) -> None:
                self.refuse_stopped()
                progress(done, of)

            yield counted

    def _make_copy(self, shown: Mapping[Path, Sequence[str]], decide: Decide | None) -> None:
        """The work copy, and what the agent may read besides. Raises the same as `run_agent`."""
        plan, run = self._plan, self._run
        cache = scan_cache(self._context.workspace_id)
        kind: CopyKind = "plain"
        if plan.account.is_own:
            for name in (UPPER, SCRATCH):
                (run.work / name).mkdir()
            if names_work(plan.account, plan.root, run.work, run.work):
                kind = "overlay"
        said: list[str] = []
        start = self._survey(shown[plan.root], decide)
        if self._wanted.parent is not None:
            self._take_over(*self._wanted.parent, kind, start, said)
        else:
            with self._counting("making the work copy") as counted:
                self._copy = WorkCopy.make(
                    run,
                    plan.root,
                    account=plan.account,
                    kind=kind,
                    plain_if_small=plan.account.is_own,
                    shown=shown[plan.root],
                    cache=cache,
                    progress=counted,
                    say=said.append,
                    start=start,
                    take_names=self._take_names,
                )
        for number, folder in enumerate(plan.read):
            self.refuse_stopped()
            made = ReadFolder.make(run, number, folder, account=plan.account, shown=shown[folder], cache=cache)
            self._read.append(made)
        if self._copy.kind == "overlay":
            said.append(
                "the copy is an overlay: rename(2) of a folder of the project fails in it (EXDEV); mv, git mv and "
                "shutil.move copy it instead"
            )
        for line in said:
            self._say(line)
        self._facts = self._first_facts(self._copy.kind)

    def _first_facts(self, kind: CopyKind) -> RunFacts:
        """The first facts, before anything of the run is recorded elsewhere."""
        plan = self._plan
        return RunFacts(
            profile=plan.profile.name,
            started_utc=datetime.now(UTC).isoformat(timespec="seconds"),
            root=str(plan.root),
            copy=kind,
            account=plan.account.name,
            uid=plan.account.uid,
            gid=plan.account.gid,
            launcher=os.getpid(),
            shown=self._wanted.shown,
            reading=tuple(map(str, plan.read)),
            hosts=self._wanted.hosts,
            parent="" if self._wanted.parent is None else self._wanted.parent[0].run_id,
        )

    def _take_over(self, parent: AgentRun, facts: RunFacts, kind: CopyKind, now: Survey, said: list[str]) -> None:
        """Continue in the copy of another run. Raises InvalidInput, Unavailable, OSError."""
        plan, run = self._plan, self._run
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
            parent, facts, run, root=plan.root, account=plan.account, now=now, shown=self._wanted.shown, taken=taken
        )
        self._copy = result.copy
        said += result.lines

    def _take_names(self, place: Path) -> None:
        """Take the layer of names of the newest run on the project that has ended, if there is one."""
        # To change what differs takes a part of the time of making it.
        for run, facts in reversed(all_runs(self._context.workspace)):
            if not facts.ended or facts.root != str(self._plan.root) or facts.uid != self._plan.account.uid:
                continue
            with suppress(OSError), lock_ended(run) as ended:
                if ended:
                    os.rename(run.work / NAMES, place)
                    return

    def _survey(self, shown: Sequence[str], decide: Decide | None) -> Survey:
        """The project at the start; what nobody has decided about is decided now, if there is somebody."""
        context, root = self._context, self._plan.root
        answers = Answers.read(context.workspace, root)

        def look() -> Survey:
            with self._counting("reading the project") as counted:
                return survey(
                    root,
                    shown=shown,
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
            answers = keep_answers(context.workspace, answers, decided, actor=self._actor)
        return look()  # a person may have taken minutes, and the project may have changed meanwhile

    def _say_hidden(self) -> None:
        """Name every path that the agent does not see, and what it sees although it may be a secret."""
        start = self._copy.start
        found = [
            item for hidden in (start.hidden, *(folder.hidden for folder in self._read)) for item in hidden.items()
        ]
        if hidden := [path for path, why in found if why in _SECRETS]:
            self._say(f"hidden from the agent: {', '.join(hidden)}; --with PATH reveals one")
        others = [
            f"{path} ({_NOT_COPIED.get(why, why)})"
            for path, why in start.hidden.items()
            if why not in _SECRETS and path != ".git"
        ]
        if others:
            self._say(f"not in its copy: {', '.join(others)}")
        if start.listed:
            first = {(found.path, found.kind): found for found in reversed(start.listed)}
            listed = [f"{found.place} ({found.kind})" for found in reversed(first.values())]
            self._say(f"the agent sees what may be secrets: {', '.join(listed)}")

    def _register(self) -> None:
        """Write down the project's name, empty if it may not be changed, and which tools of servers the agent may call
        on it. Raises InvalidInput.
        """
        context, workspace, settings = self._context, self._context.workspace, self._context.policy.settings
        agents, name, changeable = settings.section(AgentsSettings), "", False
        try:
            name = register_project(workspace, settings, self._plan.root, actor=self._actor)
            for remark in project_remarks(workspace, find_project(workspace, settings, name)):
                self._say(remark)
            changeable = True
        except (InvalidInput, Refused) as error:
            self._say(f"the agent's changes can be viewed but not applied: {error}")
        if not name and agents.projects:
            read_projects(workspace)  # if that fails, it is not known which choice is this project's
        before = () if self._wanted.parent is None else self._wanted.parent[1].tools
        choice = chosen_tools(self._wanted.tools, before, agents, project=name, profile=self._plan.profile.name)
        if said := told_choice(choice, offered_tools(workspace, context.trail).values()):
            self._say(said)
        self._note(project=name if changeable else "", tools=choice)

    def _start_sides(self, held: ExitStack) -> None:
        """Start the door, the relay and the proxy to hosts."""
        # Each has a socket that no other process holds: if one dies, its socket no longer answers.
        plan, run = self._plan, self._run
        with listen(run.door, plan.account) as listener:
            self._keep(held, start_door(self._context.workspace, run, listener, plan.profile.wait_sec))
        with listen(run.hosts, plan.account) as listener:
            targets = [f"{host}:{PORT}" for host in self._wanted.hosts]
            self._proxy, self._hosts = start_host_proxy(listener, targets, self._cgroup.entered, hint=_ASK_FOR_IT)
        held.callback(os.close, self._hosts)
        self._keep(held, self._proxy)
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
            side, self._counts = start_model_relay(listener, settings, self._cgroup.entered)
        held.callback(os.close, self._counts)
        self._keep(held, side)

    def _keep(self, held: ExitStack, side: SideProcess) -> None:
        self._sides.append(side)
        held.callback(side.end)

    def live(self, propose: Propose) -> Finished:
        """From the agent's first instruction to the trail's end event. Raises TrailError."""
        code, reason = jails.NOT_STARTED, None
        try:
            program, filled = self._plan.program, Filled(self._plan.profile, str(self._plan.root))
            words = [program.file, *map(filled.text, self._plan.profile.args), *program.arguments]
            hosts = HostWatch(self._context.workspace, self._run, self._proxy, self._wanted.hosts)
            with hosts, DiskWatch(self._run, self._most) as watch:

                def started(process: JailProcess) -> None:
                    self._note_jail(process)
                    watch.start(process)

                code = run_in_jail(self._jail(), words, started=started, stopped=self._is_stopped)
            reason = watch.reason or ("stopped" if self._stopped() else None)
        except KeyboardInterrupt:
            reason = "stopped"
        finally:
            finished = self._finish(code, reason, propose)
        return finished

    def _sign(self) -> None:
        """The signature for hosts, before anything is created. Raises InvalidInput, Refused, Unavailable."""
        if not self._wanted.hosts:
            return
        hosts = list(self._wanted.hosts)
        self._about = {"run": self._run.run_id, "project": str(self._plan.root), "hosts": hosts}
        if self._wanted.acting is None:
            raise Refused("signature_missing", "--allow needs an operator's signature")
        self._say(f"you sign that this run may send anything to {', '.join(hosts)}")
        self._signed = sign_act(self._context, self._wanted.acting, HOSTS_ACT, self._about)
        forget_unlocked()  # a key that a passphrase unlocked is not kept while an agent runs

    def announce(self) -> None:
        """Record the start in the trail. Raises Refused, TrailError, Unavailable."""
        wanted, plan, context = self._wanted, self._plan, self._context
        started = AgentStarted(
            run=self._run.run_id,
            profile=plan.profile.name,
            program_sha256=plan.program.sha256,
            project=self._facts.project or None,
            root=str(plan.root),
            copy=self._copy.kind,
            shown=wanted.shown or None,
            account=plan.account.name,
            requester=self._run.run_id,
            walls=(*jail_trial.WALLS, *(f"{what} limit" for what in self._cgroup.held)),
            missing=self._cgroup.missing,
            model=", ".join(plan.profile.models) or None,
            endpoint=plan.profile.host or None,
            hosts=wanted.hosts or None,
            parent=self._facts.parent or None,
            tools=self._facts.tools or None,
        )
        actor = self._actor
        with context.trail.locked() as trail:
            if self._signed:
                actor, act = checked_act(context, trail, self._signed, HOSTS_ACT, self._about)
                started = replace(started, **act)
            moves.announce(trail, started, actor=actor)
        self._note(announced=True)

    def _jail(self) -> Jail:
        plan, run = self._plan, self._run
        filled = Filled(plan.profile, str(plan.root))
        bound = [
            *plan.program.bound,
            *(bound for folder in self._read for bound in folder.bound),
            Bound(run.state, jails.HOME, writable=True),
            Bound(run.inbox, "/run/inbox", writable=True),
            Bound(run.verdicts, "/run/verdicts"),
            Bound(run.results, "/run/results"),
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
            (*(layered for folder in self._read for layered in folder.layered), *self._copy.layered),
            links=plan.links,
            environment=environment,
            cwd=str(plan.root),
            processes=plan.profile.limits.processes,
            cgroups=(*self._cgroup.entered, *self._freezer),
        )

    def _is_stopped(self) -> bool:
        """Called repeatedly while the agent is alive; also resumes a jail that a killed process left frozen, and looks
        for the first request.
        """
        if self._on_request is not None and self._has_requested():
            self._on_request()
            self._on_request = None
        thaw_forgotten(self._run, self._facts.jail)
        if not self._stopped():
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
            self._note(jail=process.pid)
        except OSError as error:
            if not is_disk_full(error):
                raise
            release_headroom(self._run)  # the agent has filled the disk already; the watcher ends it
            self._note(jail=process.pid)

    def _finish(self, code: int, reason: str | None, propose: Propose) -> Finished:
        """Read the changes, propose them, and record the end in the trail."""
        problem, changes, commits = "", None, NO_COMMITS
        if reason in _DISK_REASONS:
            self._say(_DISK_REASONS[reason].format(name=self._plan.profile.name, limits=self._plan.profile.limits))
        for side in self._sides:
            if how := side.died():
                self._say(f"the {side.name} exited before the agent ({how}) and answered nothing after that")
        try:
            # First every process of the run must be gone: what is read now must not change meanwhile.
            if self._process is not None:
                self._process.wait_empty()
            release_headroom(self._run)
            withdraw_hosts(self._context.workspace, self._run)
            changes, commits = read_proposed(self._copy)
            keep_bases(self._copy, changes.rows)
        except ThreeGateError as error:
            problem = str(error)
        except OSError as error:
            problem = f"{self._run.base}: cannot be written ({error.strerror}); make room"
        except KeyboardInterrupt:
            problem = f"interrupted before its changes were read; see: threegate agent show {self._run.run_id}"
        finished = Finished(self._run, code, changes, self._copy, self._facts, problem, commits)
        counts = ModelCounts.read(self._counts) if self._counts >= 0 else ModelCounts()
        hosts = read_hosts(self._hosts)
        drafted = None
        try:
            drafted = propose(finished)
        finally:
            ended = AgentEnded(
                run=self._run.run_id,
                exit=code,
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
            workspace = self._context.workspace
            with disk_reserve(workspace.reserve), self._context.trail.locked() as trail:
                moves.announce(trail, ended, actor=self._actor)
            _clean(self._run)
            before = None if self._wanted.parent is None else self._wanted.parent[1]
            with suppress(OSError):  # the trail has the end
                self._note(
                    ended=True,
                    exit=code,
                    jail=0,
                    used_requests=counts.requests + (max(0, before.used_requests) if before else 0),
                    used_bytes=counts.bytes_out + counts.bytes_in + (max(0, before.used_bytes) if before else 0),
                    used_tokens=counts.tokens + (max(0, before.used_tokens) if before else 0),
                )
        return finished


def _clean(run: AgentRun) -> None:
    """Remove what is not needed after the end: headroom, sockets, and the overlay's work folder."""
    release_headroom(run)
    for path in (run.door, run.model, run.hosts, run.open_hosts):
        path.unlink(missing_ok=True)
    scratch = run.work / SCRATCH
    with suppress(OSError):
        for place in scratch.iterdir():
            place.chmod(0o700)
        removal.remove_tree(scratch)
