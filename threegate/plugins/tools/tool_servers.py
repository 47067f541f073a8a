"""Tool servers: add one, accept its changes, and remove it.

Invariant: a manifest gets into `tool-exec/tools/` only with an operator's signature over its digest, after an
event on disk. A step that a crash interrupted is completed or undone by the next process
(`trail.moves.change_file`). To be inspected, a server is started once, where it is going to run, and none of its
tools is called. An existing manifest is used only if it is the one the trail recorded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from threegate.acts.signed_acts import checked_act, sign_act
from threegate.acts.signing_key import Acting
from threegate.core import durable, limits
from threegate.core.durable import disk_reserve
from threegate.core.errors import InvalidInput, Refused, ThreeGateError, Unavailable
from threegate.core.extras import require_extra
from threegate.core.secretscan.scan import mask_secrets
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.launch.context import Context
from threegate.plugins.tools.kinds import ToolsAdded, ToolsRefreshed, ToolsRemoved, manifest_path
from threegate.plugins.tools.manifest import (
    SERVER_NAME,
    VARIABLE,
    Difference,
    Manifest,
    Place,
    ServerFolder,
    announced_manifests,
    differences,
    door_name,
    functions_manifest,
    manifest_name,
    parse_manifest,
    read_functions,
    read_manifest,
)
from threegate.plugins.tools.mcp.server_image import image_digest, refuse_hiding
from threegate.plugins.tools.message_stream import ServerError
from threegate.plugins.tools.program_tree import program_digests
from threegate.plugins.tools.reached_code import CODE_VARIABLE, UNPINNABLE_VARIABLE
from threegate.plugins.tools.remote.token_store import TokenStore
from threegate.plugins.tools.remote_login import RemoteLogin
from threegate.plugins.tools.server_command import pinned_command
from threegate.plugins.tools.server_process import open_fresh
from threegate.plugins.tools.server_start import DROPPED, secret_values, server_account
from threegate.runners.era.engine_answer import engine_url
from threegate.runners.jail.jail import Account
from threegate.runners.jail.jail_trial import check_walls
from threegate.trail import moves
from threegate.trail.trail import LockedTrail

if TYPE_CHECKING:
    from threegate.plugins.tools.remote.guarded_http import Reach

ADD: Final = "threegate-tools-add/1"
REFRESH: Final = "threegate-tools-refresh/1"
_OURS: Final = frozenset(
    """threegate core door daemon operator approve approval agent agents apply era monty mcp tool tools contract
    contracts session project github-approved run requests wait cancel""".split()
)
"""Names that a person could mistake for ThreeGate's own. Those of operations that a proposal names (`git`, `memory`)
are a server's usual ones: no contract of an operation judges a server's tool (`contracts.calls`).
"""
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\.[a-z][a-z0-9-]{1,62}")
_SYSTEM: Final = frozenset(("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "proc", "sys", "dev"))
_HOMES: Final = ("/tmp", "/var/tmp")
"""The home folder in a jail and a container, and a link to it."""
_SAME: Final = str.maketrans({"0": "o", "1": "l", "5": "s", "8": "b", "i": "l", "-": None, "_": None})


@dataclass(frozen=True, slots=True)
class WantedServer:
    """The arguments of `threegate tools add`."""

    name: str
    words: tuple[str, ...]
    place: str = "jail"
    account: str = ""
    allow: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    """DIR or DIR:rw."""
    env: tuple[str, ...] = ()
    """NAME=VALUE."""
    secrets: tuple[str, ...] = ()
    stateful: bool = False
    image: str = ""
    """With place ``era``: a name or digest that the engine knows; empty: the image of the settings."""
    data: tuple[str, ...] = ()
    """Files and folders that are named, or in the program's folder, and are not code."""
    url: str = ""
    """Of a server elsewhere, which has no words and nothing of this machine."""
    login: RemoteLogin | None = None
    """Of such a server."""


@dataclass(frozen=True, slots=True)
class LookedAt:
    """A server in its current form, to be signed."""

    manifest: Manifest
    before: Manifest | None = None
    """What is pinned about it."""
    changed: tuple[Difference, ...] = ()


def look_at_new(context: Context, wanted: WantedServer, *, reach: Reach | None = None) -> LookedAt:
    """Check the arguments, start the server once, and ask it what it offers. `reach` is for tests.

    Raises InvalidInput, Refused (tools_fetched, tools_known, tools_unsafe; of a server at a URL url_refused,
    login_required), Unavailable, ServerError.
    """
    settings = context.policy.settings
    _refuse_name(context, wanted.name)
    if wanted.url:
        return LookedAt(_asked(context.workspace, settings, _elsewhere(wanted), reach))
    place = _place(wanted.place)
    account, image = "", ""
    if place == "era":
        image = _image(settings, wanted)
    else:
        if wanted.image:
            raise InvalidInput("--image: only with --in era")
        account = wanted.account or (DROPPED if os.geteuid() == 0 else "")
        who = server_account(account)
        if place == "jail":
            _refuse_jail(who)
    binds = tuple(_folder(context.workspace, text, place) for text in wanted.binds)
    bad = next((host for host in wanted.allow if not _HOST.fullmatch(host)), None)
    if bad is not None:
        raise InvalidInput(f"--allow {bad}: not a host name in lower case; give no scheme, port, path or address")
    if len(wanted.allow) > limits.ALLOWLIST_ENTRIES:
        raise InvalidInput(f"--allow: at most {limits.ALLOWLIST_ENTRIES} hosts; each of them is a way out")
    argv = pinned_command(wanted.words, in_image=bool(image))
    for secret in wanted.secrets:
        if (
            not VARIABLE.fullmatch(secret)
            or UNPINNABLE_VARIABLE.fullmatch(secret)
            or CODE_VARIABLE.fullmatch(secret)  # its value is not in the manifest
        ):
            raise InvalidInput(f"--secret {secret}: not the name of a variable that a server may get")
    secret_values(settings, wanted.secrets)
    manifest = Manifest(
        server=wanted.name,
        argv=argv,
        place=place,
        account=account,
        allow=tuple(sorted(set(wanted.allow))),
        binds=binds,
        env=_variables(wanted.env),
        secrets=tuple(sorted(set(wanted.secrets))),
        initialize={},
        tools=(),
        program={},
        stateful=wanted.stateful,
        image=image,
        data=tuple(sorted({_data(text) for text in wanted.data})),
    )
    manifest = replace(manifest, program=program_digests(manifest))
    if image:
        folders = [item.path for item in manifest.binds]
        refuse_hiding(engine_url(settings.runners.era.engine), image, folders, settings.workspace.id)
    return LookedAt(_asked(context.workspace, settings, manifest))


def look_at_functions(context: Context, name: str, file: Path) -> LookedAt:
    """The functions of a caller in `file`: new, or beside what is pinned under this name. Nothing is started. Raises
    InvalidInput, Refused (tools_changed, tools_known).
    """
    tools = read_functions(file)
    with _settled(context) as held:
        before = read_manifest(context.workspace, held.index, name) if name in announced_manifests(held.index) else None
    if before is None:
        _refuse_name(context, name)
    elif before.place != "caller":
        raise _known(name)
    now = _pinnable(functions_manifest(name, tools))
    return LookedAt(now, before, () if before is None else tuple(differences(before, tools=now.tools)))


def program_changes(context: Context, name: str) -> tuple[Difference, ...]:
    """How a server's program differs from what is pinned; nothing is started. Raises Refused, Unavailable."""
    before = pinned(context, name)
    return tuple(differences(before, program=_program(before)))


def look_again(context: Context, name: str, *, reach: Reach | None = None) -> LookedAt:
    """The server as it is now, and how it differs from what is pinned. Raises Refused, Unavailable, ServerError."""
    before = pinned(context, name)
    program = _program(before)
    now = _asked(
        context.workspace, context.policy.settings, replace(before, initialize={}, tools=(), program=program), reach
    )
    changed = differences(before, initialize=now.initialize, tools=now.tools, program=now.program)
    return LookedAt(now, before, tuple(changed))


def _program(manifest: Manifest) -> Mapping[str, str]:
    return {} if manifest.url else program_digests(manifest)


def pinned(context: Context, name: str) -> Manifest:
    """What is pinned about an added server. Raises Refused, Unavailable."""
    with _settled(context) as held:
        return read_manifest(context.workspace, held.index, name)


def sign_server(context: Context, acting: Acting, looked: LookedAt) -> None:
    """Sign the manifest of a server that is new, or that changed, and write it. Raises Refused, InvalidInput,
    TrailError, Unavailable, OSError.
    """
    manifest, before = looked.manifest, looked.before
    path, files = manifest_path(manifest.server), {manifest_path(manifest.server): manifest.digest}
    kind, about = ADD, {"server": manifest.server, "manifest_sha256": manifest.digest}
    if before is not None:
        kind, about = REFRESH, {**about, "before_sha256": before.digest}
    signed = sign_act(context, acting, kind, about)
    event: ToolsAdded | ToolsRefreshed
    with _settled(context) as held:
        if before is None and path in held.index.files:
            raise _known(manifest.server)
        if before is not None and held.index.files.get(path) != before.digest:
            raise Refused("tools_changed", f"{manifest.server}: changed meanwhile; review it again")
        actor, act = checked_act(context, held, signed, kind, about)
        if before is None:
            hosts, tools = manifest.hosts or None, len(manifest.tools)
            event = ToolsAdded(
                server=manifest.server, place=manifest.place, hosts=hosts, tools=tools, files=files, **act
            )
        else:
            changed = tuple(item.what for item in looked.changed[: limits.TRAIL_LIST_ITEMS])
            event = ToolsRefreshed(
                server=manifest.server, before_sha256=before.digest, changed=changed, files=files, **act
            )
        if not context.workspace.tools.is_dir():
            durable.make_folder(context.workspace.tools, 0o700)
        file = context.workspace.tools / manifest_name(manifest.server)
        moves.change_file(held, file, manifest.to_bytes(), event, actor=actor)


def remove_server(context: Context, name: str, *, actor: str) -> None:
    """Remove a server and what this account keeps of its login; removing needs no signature. Raises Refused,
    Unavailable, TrailError, OSError.
    """
    with disk_reserve(context.workspace.reserve), _settled(context) as held:
        if manifest_path(name) not in held.index.files:
            raise Refused("tools_unknown", f"{name}: no such server; see: threegate tools list")
        TokenStore(context.policy.settings, name).forget()
        path = context.workspace.tools / manifest_name(name)
        moves.remove_file(held, path, ToolsRemoved(server=name, files={manifest_path(name): None}), actor=actor)


@contextmanager
def _settled(context: Context) -> Iterator[LockedTrail]:
    """The locked trail, with the manifests that it names."""
    with context.trail.locked() as held:
        announced = held.index.files_in("tools")
        moves.settle_changes(context.workspace.tools, announced, max_bytes=limits.TOOLS_MANIFEST_BYTES)
        yield held


def _elsewhere(wanted: WantedServer) -> Manifest:
    """The manifest of a server at a URL, before it was asked. Raises InvalidInput, Refused `url_refused`."""
    here = {
        "a command": wanted.words,
        "--in": wanted.place != "jail",
        "--account": wanted.account,
        "--allow": wanted.allow,
        "--bind": wanted.binds,
        "--env": wanted.env,
        "--secret": wanted.secrets,
        "--image": wanted.image,
        "--data": wanted.data,
    }
    if wanted.stateful:
        raise InvalidInput("--stateful: a server at a URL has a session for each call, and no process here")
    given = [name for name, value in here.items() if value]
    if given:
        raise InvalidInput(f"{given[0]}: is for a server that runs here; with --url leave it out")
    require_extra("a tool server at a URL", "mcp")
    from threegate.plugins.tools.remote.guarded_http import checked_url

    checked_url(wanted.url, "--url")
    if mask_secrets(wanted.url) != wanted.url:
        raise InvalidInput("--url: has what looks like a secret, and is signed and shown; use --bearer or --header")
    return Manifest(
        server=wanted.name,
        argv=(),
        place="remote",
        account="",
        allow=(),
        binds=(),
        env={},
        secrets=(),
        initialize={},
        tools=(),
        program={},
        url=wanted.url,
        login=wanted.login,
    )


def _asked(workspace: Workspace, settings: Settings, manifest: Manifest, reach: Reach | None = None) -> Manifest:
    """Start it, and put what it says of itself into the manifest. Raises Refused, ServerError, Unavailable,
    InvalidInput.
    """
    with open_fresh(workspace, settings, manifest, reach=reach) as server:
        initialize = server.initialize()
        tools = server.list_tools()
        told_secret = server.told_secret
    if not tools:
        raise ServerError("server_error", f"{manifest.server}: lists no tools")
    if told_secret:
        raise InvalidInput(f"{manifest.server}: reports the value of a secret, so it cannot be pinned")
    return _pinnable(replace(manifest, initialize=initialize, tools=tools))


def _pinnable(manifest: Manifest) -> Manifest:
    """The manifest as its file will have it. Raises InvalidInput."""
    # A tool's name is shortened for agents, so two may become one.
    names = {door_name(manifest.server, tool.name) for tool in manifest.tools}
    if len(names) != len(manifest.tools):
        raise InvalidInput(f"{manifest.server}: two of its tools would have the same name for agents")
    try:
        data = manifest.to_bytes()
    except ValueError:
        raise InvalidInput(
            f"{manifest.server}: reports something that has no canonical form, so it cannot be pinned"
        ) from None
    if len(data) > limits.TOOLS_MANIFEST_BYTES:
        raise InvalidInput(f"{manifest.server}: its tool descriptions are too long to be pinned")
    return parse_manifest(data)


def _refuse_name(context: Context, name: str) -> None:
    if not SERVER_NAME.fullmatch(name) or name.endswith("-"):
        raise InvalidInput(f"{name!r}: not a valid server name; use a letter, then up to 63 of A-Z a-z 0-9 _ -")
    with _settled(context) as held:
        known = announced_manifests(held.index)
    if name in known:
        raise _known(name)
    if len(known) >= limits.TOOLS_SERVERS:
        raise InvalidInput(f"there are already {len(known)} servers; remove one first")
    for other in sorted(_OURS):
        if _looks(name) == _looks(other):
            raise InvalidInput(f"{name}: looks like {other}, which is reserved; choose another name")
    for other in known:
        if _looks(name) == _looks(other):
            raise InvalidInput(f"{name}: looks like the server {other}; choose another name")


def _looks(name: str) -> str:
    """A name reduced to what a person sees at a glance."""
    return name.casefold().translate(_SAME).replace("rn", "m").replace("vv", "w").removesuffix("s")


def _known(name: str) -> Refused:
    return Refused("tools_known", f"{name}: already added; to see its changes: threegate tools refresh {name}")


def _place(text: str) -> Place:
    if text in ("jail", "era", "host"):
        return cast(Place, text)
    raise InvalidInput(f"--in {text}: must be jail, era or host; functions of a program: --functions FILE")


def _image(settings: Settings, wanted: WantedServer) -> str:
    """The image's digest, after refusing everything a container does not support. Raises InvalidInput, Unavailable."""
    if wanted.allow:
        raise InvalidInput("--allow: a server in a container has no network; use --in jail")
    if wanted.secrets:
        raise InvalidInput("--secret: the engine keeps a container's variables on its disk; use --in jail")
    if wanted.account:
        raise InvalidInput("--account: a server in a container runs as nobody")
    if not (wanted.image or settings.runners.era.image):
        raise InvalidInput("--in era: no image; name one with --image, or build the default: threegate settings images")
    return image_digest(engine_url(settings.runners.era.engine), wanted.image or settings.runners.era.image)


def _refuse_jail(account: Account) -> None:
    try:
        check_walls(account)
    except ThreeGateError as error:
        raise Unavailable(
            f"{error}; to run a server without a jail, give --in host (it then has the rights of its account)"
        ) from None


def _data(text: str) -> str:
    if not text.startswith("/") or "\0" in text or len(text) > limits.TOOLS_ARGUMENT_CHARS:
        raise InvalidInput(f"--data {text}: give the full path of a file or folder")
    return os.path.realpath(text)


def _folder(workspace: Workspace, text: str, place: Place) -> ServerFolder:
    path, writable = (text[:-3], True) if text.endswith(":rw") else (text.removesuffix(":ro"), False)
    real = os.path.realpath(path)
    if not os.path.isdir(real):  # noqa: PTH112 - a path as it was said
        raise InvalidInput(f"--bind {path}: no such folder")
    ours = os.path.realpath(workspace.root)
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111
    for kept, what in ((ours, "the workspace"), (home, "the home folder")):
        if kept == real or f"{kept}/".startswith(f"{real.rstrip('/')}/"):
            raise InvalidInput(f"--bind {path}: contains {what}; bind the folder that the server needs")
    if f"{real}/".startswith(f"{ours}/"):
        raise InvalidInput(f"--bind {path}: is in the workspace, which servers must not see")
    if real in _HOMES or real.startswith(tuple(f"{folder}/." for folder in _HOMES)):
        raise InvalidInput(f"--bind {path}: is a server's home folder, from where programs load code; bind another one")
    if (writable or place == "era") and real.split("/")[1] in _SYSTEM:
        raise InvalidInput(f"--bind {path}: contains the system's programs; bind the folder that the server needs")
    return ServerFolder(real, writable)


def _variables(texts: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not VARIABLE.fullmatch(name) or "\0" in value:
            raise InvalidInput(f"--env {name}: write it as NAME=VALUE")
        if UNPINNABLE_VARIABLE.fullmatch(name):
            raise InvalidInput(f"--env {name}: controls how programs are started; a server cannot get it")
        if len(value) > limits.TOOLS_ARGUMENT_CHARS:
            raise InvalidInput(f"--env {name}: is too long")
        found[name] = value
    return found
