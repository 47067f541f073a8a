"""What a run of an agent needs, checked before anything is created: program, account, folders, hosts, key and budgets.

Invariant: nothing is written here. A key is for the host that is written beside it, and a login is in no folder that
the agent sees.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from threegate.acts.signing_key import Acting
from threegate.core import limits
from threegate.core.errors import InvalidInput
from threegate.core.extras import require_extra
from threegate.core.plugins import require_plugin
from threegate.core.secret_value import read_secret
from threegate.core.workspace import AgentRun
from threegate.launch.context import Context
from threegate.plugins.agents.codex_login import read_login
from threegate.plugins.agents.continued_copy import refuse_continuing
from threegate.plugins.agents.profile import Profile, Program, find_program, load_profile
from threegate.plugins.agents.runs import RunFacts
from threegate.plugins.agents.work_copy import refuse_project, typed_links
from threegate.request.hosts import HostError, read_host
from threegate.runners.jail import jail_trial
from threegate.runners.jail.jail import Account


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
class RunPlan:
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
    shown: Mapping[Path, Sequence[str]]
    """Of the project and each of these folders the paths of `--with` in it, relative to it."""


def plan_run(context: Context, wanted: Wanted) -> RunPlan:
    """What a run with these options needs. Raises InvalidInput, Unavailable."""
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
    folders = tuple(dict.fromkeys(read))
    return RunPlan(profile, program, account, root, folders, links, key, _by_folder(wanted.shown, root, folders))


def _by_folder(paths: tuple[str, ...], root: Path, read: Sequence[Path]) -> dict[Path, list[str]]:
    """The paths of `--with`: a relative one is in the project, an absolute one there or in a folder of `--read`. Raises
    InvalidInput.
    """
    found: dict[Path, list[str]] = {folder: [] for folder in (root, *read)}
    for text in paths:
        if not text.startswith("/"):
            found[root].append(text)
            continue
        path = Path(os.path.realpath(os.path.dirname(text)), os.path.basename(text))
        above = next((folder for folder in found if folder in path.parents), None)
        if above is None:
            raise InvalidInput(f"--with {text}: is neither in the project nor in a folder of --read")
        found[above].append(str(path.relative_to(above)))
    return found


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
