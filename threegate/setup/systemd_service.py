"""Install the daemon as a systemd service, following a plan that can be read first.

Invariant: a plan changes nothing; `carry_out` runs its steps in order and stops at the first that fails. No
step touches the contents of inbox/, because the owner of a draft names its requester.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import threegate
from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.core.extras import missing_extra
from threegate.core.held_folder import HeldFolder, hold_path
from threegate.core.own_process import own_process
from threegate.core.plugins import Place
from threegate.core.settings import Settings
from threegate.core.user_state import UserState, config_home
from threegate.core.version import described
from threegate.core.workspace import Workspace
from threegate.request.job import BUBBLEWRAP
from threegate.runners.era.engine_answer import engine_line
from threegate.runners.era.platforms import PROGRAM
from threegate.runners.machine import THIS_MACHINE, machine_of
from threegate.setup.run_tool import run_tool
from threegate.setup.service_unit import UnitFacts, UnitNeeds, render_unit

NEEDS: Final = Place[Callable[[Workspace, Settings, int | None, bool], UnitNeeds]]("needs")
"""For a workspace with its settings, the uid of the daemon's account (None: it is made later), and whether ERA runs."""

UNITS = Path("/etc/systemd/system")
_USER_UNITS = Path("systemd") / "user"
_BOOTED = Path("/run/systemd/system")
_OURS = "# Written by threegate "
_NAME = re.compile(r"[a-z][a-z0-9-]{0,50}")
_ACCOUNT = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_SHOWN = (
    "LoadState",
    "UnitFileState",
    "ActiveState",
    "SubState",
    "StatusText",
    "MainPID",
    "NRestarts",
    "Result",
)


@dataclass(frozen=True, slots=True)
class ServiceStep:
    """One step, in words, and how to do it."""

    what: str
    do: Callable[[], object]


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """What will be done, notes about it, and obstacles."""

    unit_file: Path
    unit: str
    steps: tuple[ServiceStep, ...]
    own: bool = False
    """True for the user's own service manager: no step needs root."""
    notes: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Account:
    name: str
    uid: int | None
    """None if the account does not exist yet."""
    gid: int
    home: Path

    @classmethod
    def of(cls, name: str) -> _Account:
        if not _ACCOUNT.fullmatch(name):
            raise InvalidInput(f"--user {name}: not a valid account name (a-z, 0-9, - and _)")
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            return cls(name, None, -1, Path("/var/lib") / name)
        return cls(name, found.pw_uid, found.pw_gid, Path(found.pw_dir))

    @property
    def state(self) -> Path:
        return self.home / ".local" / "state" / "threegate"


def need_systemd() -> None:
    """Raises Unavailable, with the fix, if systemd is not running or cannot be used by this account."""
    if not _BOOTED.is_dir() or shutil.which("systemctl") is None:
        raise Unavailable(
            "systemd is not running here; let your own supervisor start `threegate -w DIR run`, or read the unit with "
            "`threegate settings service install --print`"
        )


def need_manager(plan: ServicePlan) -> None:
    """Raises Unavailable if this account may not write the plan's unit, or has no service manager of its own
    for it.
    """
    if plan.own:
        _systemctl("show", "--property=Version", own=True)
    elif os.geteuid() != 0:
        raise Unavailable("only root may change system services; run it again with sudo")


def plan_install(workspace: Workspace, *, name: str, user: str, era: bool) -> ServicePlan:
    """What `settings service install` will do: for root a system service, for anyone else a user service, unless they
    name an account.

    Raises InvalidInput for invalid names, settings or combinations.
    """
    settings = workspace.load_settings()
    own = os.geteuid() != 0 and not user
    if own:
        account = _Account("", os.geteuid(), os.getegid(), Path.home())
    else:
        account = _Account.of(user or ("root" if era else "threegate"))
        if era and account.uid != 0:
            raise InvalidInput(
                "--era needs root: the system unit for it runs as root; leave out --user, or install it without sudo "
                "as a member of the engine's group"
            )
    unit_file = _unit_file(name, own=own)
    asked = NEEDS.given(settings.plugins.off).values()
    # Whether a project is the user's own does not depend on the engine, which a user service reaches by its group.
    needs = [needs_of(workspace, settings, account.uid, era and not own) for needs_of in asked]
    unit = render_unit(_facts(workspace, settings, account, era=era, needs=needs))
    problem = missing_extra("a service with --era", "era") if era else None
    obstacles = [] if problem is None else [problem]
    notes = [note for each in needs for note in each.notes]
    steps: list[ServiceStep] = []
    if own:
        obstacles += _obstacles_of_own(workspace, settings, era)
        notes += _notes_of_own(settings, era)
    else:
        steps = _preparations(workspace, settings, account)
        obstacles += [] if account.uid is None else _unreachable(workspace, account)
        notes = [*_notes(settings, account, era), *notes]

    def write() -> None:
        unit_file.parent.mkdir(parents=True, exist_ok=True)
        durable.overwrite(unit_file, unit.encode(), 0o644)

    steps.append(ServiceStep(f"write {unit_file}", write))
    steps += [
        _systemctl_step(*words, own=own)
        for words in (("daemon-reload",), ("enable", unit_file.name), ("restart", unit_file.name))
    ]
    return ServicePlan(unit_file, unit, tuple(steps), own, tuple(notes), tuple(obstacles))


def _preparations(workspace: Workspace, settings: Settings, account: _Account) -> list[ServiceStep]:
    """What a system service needs before its unit: an account, its state folder, and the workspace's files."""
    steps = []
    if account.uid is None:
        words = ["useradd", "--system", "--user-group", "--home-dir", str(account.home), "--create-home"]
        words += ["--shell", "/usr/sbin/nologin", account.name]
        made = f"make the system account {account.name} with the home {account.home}"
        steps.append(ServiceStep(made, partial(_run, words)))
    steps.append(ServiceStep(f"make the folder {account.state} (mode 0700)", partial(_make_state, account.name)))
    owner = workspace.tool_exec.stat().st_uid
    if owner != account.uid:
        steps += _handing_over(workspace, settings.workspace.id, owner, account.name)
    return steps


def _obstacles_of_own(workspace: Workspace, settings: Settings, era: bool) -> list[str]:
    obstacles = []
    if workspace.tool_exec.stat().st_uid != os.geteuid():
        obstacles.append(f"{workspace.root}: belongs to another user; a user service needs a workspace of your own")
    if era:
        found = engine_line(settings.runners.era.engine)
        if found.state != "ok":
            obstacles.append(f"{found.seen}; join its socket's group (and log in again)")
        elif not settings.runners.era.engine and os.environ.get("DOCKER_HOST"):
            obstacles.append("DOCKER_HOST is set only in your shell; set it in threegate.toml: runners.era.engine")
    return obstacles


def _notes_of_own(settings: Settings, era: bool) -> list[str]:
    notes = [
        "it runs while you are logged in; to start it at boot: loginctl enable-linger",
        "the system's service (sudo threegate settings service install) is hardened further and has its own account",
    ]
    if settings.runners.era.image and not era:
        notes.append("ERA requests run if you may access the engine; --era checks that now")
    return notes


def plan_uninstall(name: str) -> ServicePlan:
    """What `settings service uninstall` will do. The workspace, its state and the account stay. Raises Refused."""
    own = _has_own(name)
    unit_file = _unit_file(name, own=own)
    if not unit_file.is_file():
        raise Refused("no_service", f"{unit_file}: no such service")
    unit = unit_file.read_text("utf-8", "replace")
    if not unit.startswith(_OURS):
        raise Refused(
            "not_ours", f"{unit_file}: was not written by `threegate settings service install`; remove it by hand"
        )
    steps = (
        _systemctl_step("disable", "--now", unit_file.name, own=own),
        ServiceStep(f"remove {unit_file}", unit_file.unlink),
        _systemctl_step("daemon-reload", own=own),
    )
    return ServicePlan(unit_file, unit, steps, own, ("the workspace, its state and the account are kept",))


def carry_out(plan: ServicePlan, tell: Callable[[str], None]) -> None:
    """Run the steps, announcing each. Raises Unavailable, OSError at the first that fails."""
    for step in plan.steps:
        tell(step.what)
        step.do()


def service_state(name: str) -> dict[str, str]:
    """The state of the service according to systemd. Raises Unavailable."""
    answer = _systemctl("show", f"--property={','.join(_SHOWN)}", _unit_file(name).name, own=_has_own(name))
    pairs = (line.partition("=") for line in answer.splitlines())
    return {key: value for key, _, value in pairs if key in _SHOWN}


def _unit_file(name: str, *, own: bool = False) -> Path:
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"--name {name}: not a valid service name (a-z, 0-9 and -)")
    return (config_home() / _USER_UNITS if own else UNITS) / f"{name}.service"


def _has_own(name: str) -> bool:
    """Whether an ordinary user has a service with this name."""
    return os.geteuid() != 0 and _unit_file(name, own=True).is_file()


def _facts(
    workspace: Workspace, settings: Settings, account: _Account, *, era: bool, needs: list[UnitNeeds]
) -> UnitFacts:
    return UnitFacts(
        version=described(),
        workspace=workspace.root,
        program=tuple(own_process("threegate")),
        account=account.name,
        state=account.state if account.name else UserState.of(settings.workspace.id).folder.parent,
        era=era,
        network=any(each.network for each in needs),
        installed=(
            Path(sys.prefix),
            Path(sys.base_prefix),
            Path(threegate.__file__).parent,
            *(path for each in needs for path in each.reads),
        ),
        writable=tuple(path for each in needs for path in each.writable),
        projects=tuple(path for each in needs for path in each.projects),
        jails=any(each.jails for each in needs) or _in_bubblewrap(settings, own=not account.name),
    )


def _in_bubblewrap(settings: Settings, *, own: bool) -> bool:
    """Whether the daemon makes jails for ERA. In a system service only if the settings say so: it is hardened less."""
    if machine_of(settings) is not THIS_MACHINE:
        return False
    runtime = settings.runners.era.runtime
    return runtime == BUBBLEWRAP or (own and runtime == "auto" and os.access(PROGRAM, os.X_OK))


def _notes(settings: Settings, account: _Account, era: bool) -> list[str]:
    notes = []
    if not era and not _in_bubblewrap(settings, own=False):
        notes.append(
            "requests for ERA will wait (no_backend): give --era to run them in containers, or set "
            'runners.era.runtime = "bubblewrap", with which the unit allows jails'
        )
    if account.uid != 0:
        notes.append(f"operators act as the account: sudo -H -u {account.name} threegate ... (docs/service.md)")
    return notes


def _unreachable(workspace: Workspace, account: _Account) -> list[str]:
    """What the account could not access, each with its fix."""
    found = []
    package = Path(threegate.__file__).resolve().parent
    for path in dict.fromkeys((Path(sys.executable), Path(sys.executable).resolve(), package)):
        if (wall := _wall(path, account)) is not None:
            found.append(
                f"{account.name} cannot enter {wall}, which contains {path}; install threegate for all users "
                "(python3 -m venv /opt/threegate && /opt/threegate/bin/pip install threegate)"
            )
            break
    if (wall := _wall(workspace.root, account)) is not None:
        found.append(
            f"{account.name} cannot enter {wall}, which contains the workspace; move it (say, to {account.home}) "
            "and adopt it: threegate settings adopt"
        )
    return found


def _wall(path: Path, account: _Account) -> Path | None:
    """The first folder above `path` that the account may not enter."""
    if account.uid == 0:
        return None
    for folder in reversed(path.parents):
        facts = folder.stat()
        bit = (
            stat.S_IXUSR
            if facts.st_uid == account.uid
            else stat.S_IXGRP
            if facts.st_gid == account.gid
            else stat.S_IXOTH
        )
        if not facts.st_mode & bit:
            return folder
    return None


def _make_state(name: str) -> None:
    with ExitStack() as held:
        _state_folder(held, _Account.of(name))


def _state_folder(held: ExitStack, account: _Account, *more: str) -> HeldFolder:
    """The account's state folder, or one in it, made if it is missing. Root works in a home that another account
    writes: each folder is opened in the one above it, and no link is followed. Raises OSError.
    """
    assert account.uid is not None
    folder = held.enter_context(hold_path(account.home.resolve()))
    for part in (".local", "state", "threegate", *more):
        try:
            os.mkdir(part, 0o700, dir_fd=folder.fileno())
        except FileExistsError:
            folder = held.enter_context(folder.folder(part))
        else:
            folder = held.enter_context(folder.folder(part))
            os.fchown(folder.fileno(), account.uid, account.gid)
    return folder


def _handing_over(workspace: Workspace, workspace_id: str, owner: int, account: str) -> list[ServiceStep]:
    steps = [
        ServiceStep(
            f"give {workspace.root} to {account}: threegate.toml, tool-exec and everything in it, and the folders "
            "inbox and inbox/files without their contents",
            lambda: _give_workspace(workspace, account),
        )
    ]
    source = _kept_state(workspace_id, owner)
    if source is not None:
        what = f"move the workspace's key and stored head from {source} to {account}'s state folder"
        steps.append(ServiceStep(what, lambda: _give_state(source, workspace_id, account)))
    return steps


def _kept_state(workspace_id: str, owner: int) -> Path | None:
    """Where the head of this workspace is stored now: by the user who runs this, or by the workspace's
    owner.
    """
    places = [UserState.of(workspace_id).folder]
    try:
        home = Path(pwd.getpwuid(owner).pw_dir)
        places.append(home / ".local" / "state" / "threegate" / workspace_id)
    except KeyError:
        pass
    return next((place for place in places if (place / "head.json").is_file()), None)


def _give_workspace(workspace: Workspace, name: str) -> None:
    """Change owners without following a link; refused while a daemon is running. Raises Unavailable,
    OSError.
    """
    account = _Account.of(name)
    assert account.uid is not None
    with workspace.daemon_lock():
        for place in (workspace.root, workspace.inbox, workspace.files):
            with workspace.hold(place) as held:
                os.fchown(held.fileno(), account.uid, account.gid)
        os.chown(workspace.settings_file, account.uid, account.gid, follow_symlinks=False)
        for _, _, files, folder in os.fwalk(workspace.tool_exec, follow_symlinks=False):
            os.fchown(folder, account.uid, account.gid)
            for file in files:
                os.chown(file, account.uid, account.gid, dir_fd=folder, follow_symlinks=False)


def _give_state(source: Path, workspace_id: str, name: str) -> None:
    """Move the key, the stored head and what plugins keep in files beside them; the index is recreated."""
    account = _Account.of(name)
    assert account.uid is not None
    index = UserState(source).index_file
    with ExitStack() as held:
        target = _state_folder(held, account, workspace_id)
        if os.path.samestat(target.facts(), source.stat()):
            return
        files = [path for path in sorted(source.iterdir()) if path.is_file() and path != index]
        for path in files:
            target.overwrite(path.name, durable.read_regular(path, max_bytes=limits.USER_STATE_BYTES))
            descriptor, facts = target.open_regular(path.name)
            with os.fdopen(descriptor, "rb"):
                if facts.st_uid == os.geteuid():  # the file that was just written, whatever has its name now
                    os.fchown(descriptor, account.uid, account.gid)
    for path in (*files, index):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # it has folders
        source.rmdir()


def _systemctl_step(*words: str, own: bool = False) -> ServiceStep:
    manager = "systemctl --user" if own else "systemctl"
    return ServiceStep(f"{manager} {' '.join(words)}", partial(_systemctl, *words, own=own))


def _systemctl(*words: str, own: bool = False) -> str:
    return _run(["systemctl", *(["--user"] if own else []), "--no-pager", *words])


def _run(words: list[str]) -> str:
    """Run another program; return its standard output. Raises Unavailable with its last line."""
    return run_tool(words, " ".join(words)).stdout
