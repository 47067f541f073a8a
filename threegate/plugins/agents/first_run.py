"""What `threegate agent run` needs on a machine where nothing was made yet: a workspace, an operator, the model's key.

Invariant: what is made is listed in a file outside of the workspace before it is made; if a step fails, all of it is
removed again, and if the process is killed, the next run continues with it. The model's key is never in the workspace.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from threegate.acts.operator_keys import OperatorKey, make_key, own_key_file
from threegate.approval.key_files import read_public
from threegate.approval.operators import load_operators
from threegate.approval.ssh_wire import PublicKey
from threegate.core import durable, limits, removal
from threegate.core.errors import InvalidInput, ThreeGateError, Unavailable
from threegate.core.secret_value import check_secret, read_secret
from threegate.core.settings import SecretReference, Settings
from threegate.core.user_state import UserState, config_home
from threegate.core.workspace import Workspace, default_workspace
from threegate.plugins.agents.codex_login import read_login
from threegate.plugins.agents.profile import LOOPBACK, Profile
from threegate.plugins.agents.runs import all_runs, is_alive
from threegate.plugins.changes.section import AgentSettings, AgentsSettings
from threegate.setup.init import init_workspace, new_workspace_id
from threegate.setup.settings_file import set_values
from threegate.trail.event import Event
from threegate.trail.payloads import (
    Approved,
    Claimed,
    Cleared,
    Countersigned,
    OperatorAdded,
    WorkspaceCreated,
)
from threegate.trail.trail import Trail

_DECIDED: Final = (Approved, Claimed, Cleared, Countersigned)


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """Where the model of an agent is, and where its key comes from: a variable, a file, or the person, who types it; or
    the folder of a login.
    """

    profile: str
    host: str
    secret: str = ""
    """The name of `[secrets.NAME]`; empty: no key is needed."""
    exists: bool = False
    """Whether the settings have that secret already."""
    variable: str = ""
    file: Path | None = None
    typed: bool = False
    """Whether the file is made of what a person types."""
    url: str = ""
    """Another endpoint than the profile's, for the settings."""
    url_variable: str = ""
    """Where that was read."""
    login: Path | None = None
    """A folder with a login of the agent's own program, instead of a key."""

    def settings(self) -> dict[str, str]:
        """The values that the settings get, by dotted name."""
        values = {f"agents.{self.profile}.url": self.url} if self.url else {}
        if self.login is not None:
            values[f"agents.{self.profile}.login"] = str(self.login)
        if self.secret:
            values[f"agents.{self.profile}.key"] = self.secret
            if not self.exists:
                values[f"secrets.{self.secret}.env" if self.variable else f"secrets.{self.secret}.file"] = (
                    self.variable or str(self.file)
                )
                values[f"secrets.{self.secret}.host"] = self.host
        return values


def model_access(profile: Profile, settings: Settings) -> ModelAccess | None:
    """What the settings need so that an agent reaches its model; None: nothing. Raises Unavailable for a variable whose
    value is not a key or not an endpoint, and for a login that cannot be used.
    """
    own = settings.section(AgentsSettings).profiles.get(profile.name, AgentSettings())
    url, url_variable = profile.url, ""
    if own.key or not profile.needs_key:
        return None
    if not own.url and (given := os.environ.get(profile.url_variable, "")):
        url, url_variable = _endpoint(profile, given), profile.url_variable
    login = config_home() / "threegate" / profile.name
    if profile.login_url and not (own.url or url_variable) and (login / "auth.json").exists():
        read_login(login)
        return ModelAccess(profile.name, urlsplit(profile.login_url).hostname or "", login=login)
    host = urlsplit(url).hostname or ""
    access = ModelAccess(profile.name, host, url=url if url_variable else "", url_variable=url_variable)
    if host in LOOPBACK:
        return access
    return _with_key(access, profile.key_variable, settings)


def _with_key(access: ModelAccess, variable: str, settings: Settings) -> ModelAccess:
    """The same with a source of the key: a secret for this host, the agents' usual variable, the file of an earlier
    answer, or the person.
    """

    def given(**values: Any) -> ModelAccess:
        return ModelAccess(access.profile, access.host, url=access.url, url_variable=access.url_variable, **values)

    for name, reference in settings.secrets.items():
        if reference.host == access.host:
            return given(secret=name, exists=True, variable=reference.env, file=Path(reference.file))
    names = (access.profile, *(f"{access.profile}-{number}" for number in range(2, 1000)))
    secret = next(name for name in names if name not in settings.secrets)
    if os.environ.get(variable):
        read_secret(secret, SecretReference(env=variable, host=access.host))
        return given(secret=secret, variable=variable)
    file = config_home() / "threegate" / f"{access.host}.key"
    return given(secret=secret, file=file, typed=not file.is_file())


def _endpoint(profile: Profile, given: str) -> str:
    """The endpoint in the profile's variable, without /v1. Raises Unavailable."""
    url = given.rstrip("/").removesuffix("/v1")
    if not re.fullmatch(AgentSettings.rules["url"].pattern, url):
        raise Unavailable(
            f"the variable {profile.url_variable} is not an endpoint for an agent (https, or http on loopback): unset "
            f"it, or set agents.{profile.name}.url in threegate.toml"
        )
    return url


def key_from(typed: str) -> str:
    """The key that a person typed, or that is in the file whose path they typed. Raises InvalidInput."""
    if typed.startswith(("/", "~", "./")):
        try:
            data = durable.read_regular(Path(typed).expanduser(), max_bytes=limits.SECRET_BYTES)
        except (OSError, RuntimeError):
            raise InvalidInput(
                "the file that you named cannot be read, so no key was stored; nothing was made"
            ) from None
        typed = data.decode("ascii", "replace")
    try:
        return check_secret("what you gave", typed.strip())
    except Unavailable as error:
        raise InvalidInput(f"{error}; nothing was made") from None


@dataclass
class Made:
    """What was made for a user, kept outside of any workspace, so that one command takes it back."""

    workspace: str = ""
    workspace_id: str = ""
    files: list[str] = field(default_factory=list)
    settings: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Settings files of workspaces that were there: their text before, and the digest of what was written."""

    @classmethod
    def read(cls) -> Made:
        """What was kept; empty if nothing was. Raises Unavailable."""
        try:
            value = json.loads(durable.read_regular(_made_file(), max_bytes=limits.MADE_FILE_BYTES))
            kept = {path: (str(before), str(after)) for path, (before, after) in value["settings"].items()}
            files = [str(path) for path in value["files"]]
            return cls(str(value["workspace"]), str(value["workspace_id"]), files, kept)
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unavailable(f"{_made_file()}: cannot be read ({type(error).__name__}); move it away") from None

    def write(self) -> None:
        """Keep it, durable. Raises OSError."""
        if self == Made():
            durable.unlink(_made_file())
            return
        value = dataclasses.asdict(self)
        durable.overwrite(_made_file(), json.dumps(value, indent=2).encode() + b"\n")

    def lines(self) -> list[str]:
        """All of it that is there, for people."""
        folders = [f"workspace  {self.workspace}"] if self.workspace and Path(self.workspace).is_dir() else []
        return [
            *folders,
            *(f"file       {path}" for path in self.files if os.path.lexists(path)),
            *(f"settings   {path}" for path in self.settings if os.path.lexists(path)),
        ]


def _made_file() -> Path:
    return default_workspace().parent / "made.json"


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Only one process makes or removes. Raises OSError."""
    folder = default_workspace().parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for place in (folder, config_home() / "threegate"):
            _sweep(place)
        yield
    finally:
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    """Remove temporary files that a process left which was killed. Raises OSError."""
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if durable.is_temporary(path.name):
                durable.unlink(path)


@dataclass(frozen=True, slots=True)
class Missing:
    """What has to be made. `workspace` is the one that is there; without one, `operator` is who may sign in the new
    one, None: with a new key.
    """

    workspace: Workspace | None
    operator: OperatorKey | None
    model: ModelAccess | None

    @property
    def nothing(self) -> bool:
        """Whether all is there."""
        return self.workspace is not None and self.model is None


def make_missing(missing: Missing, *, typed: str, locked: bool) -> tuple[Workspace, list[str]]:
    """Make it: the workspace, and what was made, for people. `typed` is the model's key if the person was asked for it,
    `locked` whether ssh-keygen asks for a passphrase of the new key.

    Raises InvalidInput, Unavailable, TrailError; everything that was made is then removed.
    """
    try:
        with _one_at_a_time():
            made, new = Made.read(), Made()
            try:
                workspace = _make(missing, made, new, typed, locked)
            except BaseException:  # Ctrl-C, too: nothing stays half made
                _take_back(new, keep=lambda path: False)
                _forget(made, new)
                raise
            return workspace, new.lines()
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise Unavailable(
            f"{where}{error.strerror or error}, so nothing was made; a workspace elsewhere: threegate init DIR, and "
            "name it with --workspace DIR"
        ) from None


def _make(missing: Missing, made: Made, new: Made, typed: str, locked: bool) -> Workspace:
    def note(*paths: Path) -> None:
        new.files += map(str, paths)
        made.files += [str(path) for path in paths if str(path) not in made.files]
        made.write()

    model = missing.model
    if model is not None and model.typed and model.file is not None:
        note(model.file)
        model.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        durable.overwrite(model.file, typed.encode() + b"\n", 0o600)
    workspace = missing.workspace
    if workspace is None:
        workspace = Workspace(default_workspace())
        if not workspace.settings_file.exists():  # another process may have made it meanwhile
            key = missing.operator
            if key is None:
                path = own_key_file()
                if not path.exists():
                    note(path, path.with_name(f"{path.name}.pub"))
                key, _ = make_key(locked)
            _clear_unfinished(workspace, made.workspace_id)
            new.workspace = made.workspace = str(workspace.root)
            new.workspace_id = made.workspace_id = new_workspace_id()
            made.write()
            durable.make_folder(workspace.root, 0o700)
            init_workspace(workspace.root, key.line.text, workspace_id=new.workspace_id)
    if model is not None and (values := model.settings()):
        path = workspace.settings_file
        before = workspace.settings_bytes().decode()
        set_values(path, values)
        if str(workspace.root) != made.workspace:
            after = hashlib.sha256(workspace.settings_bytes()).hexdigest()
            new.settings[str(path)] = made.settings[str(path)] = before, after
            made.write()
    return workspace


def _clear_unfinished(workspace: Workspace, workspace_id: str) -> None:
    """Remove what a process left of a workspace that was killed while it made it. Raises InvalidInput, OSError."""
    if any(not isinstance(event.payload, WorkspaceCreated | OperatorAdded) for event in _events(workspace)):
        raise InvalidInput(
            f"{workspace.settings_file}: is missing, and the workspace was used; restore it, or move the folder away"
        )
    _remove_workspace(workspace, workspace_id)


def _events(workspace: Workspace) -> list[Event]:
    """All events; none without a trail. Raises TrailError."""
    return list(Trail(workspace).events()) if workspace.trail_file.exists() else []


def _remove_workspace(workspace: Workspace, workspace_id: str) -> None:
    """Remove a workspace and this user's state of it. Raises OSError."""
    with suppress(FileNotFoundError):  # first: without its settings it is none any more
        durable.unlink(workspace.settings_file)
    for folder in (workspace.root, *([UserState.of(workspace_id).folder] if workspace_id else ())):
        with suppress(FileNotFoundError):
            removal.remove_tree(folder)


def _take_back(made: Made, *, keep: Callable[[str], bool]) -> list[str]:
    """Remove what was made; lines about what stays. Raises OSError."""
    stays = []
    for path, (before, after) in made.settings.items():
        with suppress(FileNotFoundError):
            if hashlib.sha256(durable.read_regular(Path(path), max_bytes=limits.SETTINGS_BYTES)).hexdigest() == after:
                durable.overwrite(Path(path), before.encode(), 0o644)
            else:
                stays.append(f"{path}: was changed since, so it stays; take the key and url of [agents.NAME] away")
    if made.workspace:
        _remove_workspace(Workspace(Path(made.workspace)), made.workspace_id)
    for path in made.files:
        if keep(path):
            stays.append(f"{path}: another workspace of yours uses it, so it stays")
            continue
        with suppress(FileNotFoundError):
            durable.unlink(Path(path))
    return stays


def _forget(made: Made, gone: Made) -> None:
    """Keep only the rest of what was made. Raises OSError."""
    made.files = [path for path in made.files if path not in gone.files]
    made.settings = {path: value for path, value in made.settings.items() if path not in gone.settings}
    if made.workspace_id == gone.workspace_id:
        made.workspace = made.workspace_id = ""
    with suppress(FileNotFoundError):
        made.write()


def why_not_forget(made: Made) -> str | None:
    """Why what was made cannot be taken back now, in one line; None if it can. Raises TrailError, Unavailable."""
    workspace = Workspace(Path(made.workspace)) if made.workspace else None
    if workspace is None or not workspace.root.is_dir():
        return None
    for event in _events(workspace):
        if isinstance(event.payload, _DECIDED):
            return f"{workspace.root}: {event.request_id} was approved there, so the workspace and its trail stay"
    if workspace.daemon_lock_held():
        return f"{workspace.root}: a daemon is running there; stop it first"
    alive = [run.run_id for run, _ in all_runs(workspace) if is_alive(run)]
    return f"{alive[0]} is running; stop it first: threegate agent stop {alive[0]}" if alive else None


def remove_made(made: Made) -> list[str]:
    """Take back everything that was made; lines about what stays. Raises InvalidInput, OSError."""
    with _one_at_a_time():
        if (why := why_not_forget(made)) is not None:
            raise InvalidInput(f"{why}; nothing was removed")
        stays = _take_back(made, keep=lambda path: _used_elsewhere(path, made.workspace))
        _forget(Made.read(), made)
        for folder in (config_home() / "threegate", default_workspace().parent):
            with suppress(OSError):  # there is more in it
                folder.rmdir()
    return stays


def _used_elsewhere(path: str, but: str) -> bool:
    """Whether another workspace of this user has the key of a file as an operator's, or its path in the settings."""
    public = _public(Path(path))
    for folder in sorted(UserState.of("any").folder.parent.glob("ws-*")):
        with suppress(OSError, ThreeGateError):
            root = Path(str((UserState(folder).read_head() or {}).get("path", "")))
            if not root.is_absolute() or str(root) == but:
                continue
            workspace = Workspace(root)
            if json.dumps(path).encode() in workspace.settings_bytes():
                return True
            listed = load_operators(
                durable.read_regular(workspace.operators_file, max_bytes=limits.OPERATORS_FILE_BYTES), None, None
            )
            if public is not None and any(entry.key == public for entry in listed.entries):
                return True
    return False


def _public(path: Path) -> PublicKey | None:
    """The public key of one of our two files of an operator's key; None for any other file."""
    own = own_key_file()
    if path not in (own, own.with_name(f"{own.name}.pub")):
        return None
    line = read_public(own.with_name(f"{own.name}.pub"))
    return None if line is None else line.key
