"""Start a tool server according to its manifest: in its own jail, in a container, or on the host.

Invariant: its environment is what the manifest names and nothing of ours, and its only descriptors are its
three streams. The jail contains its program read-only, the folders that an operator signed, an empty /tmp,
and no network except the signed hosts; memory and processes are limited by `core/limits.py`. On the host,
root's servers get another account and see an empty folder instead of `tool-exec/`. The limits of a container
are in `tools/mcp/server_container.py`, a process of which sits between us and the engine: it outlives us
only until it has removed the container.
"""

from __future__ import annotations

import json
import os
import pwd
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from threegate.core import limits
from threegate.core.errors import Refused, ThreeGateError, Unavailable
from threegate.core.own_process import own_process
from threegate.core.secret_value import read_secret
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.manifest import Manifest, differences
from threegate.plugins.tools.message_stream import ServerError
from threegate.plugins.tools.program_tree import program_digests, search_path
from threegate.runners.jail import jail as jails
from threegate.runners.jail.jail import Account, Bound, Jail, JailProcess
from threegate.runners.jail.jail_cgroup import JailCgroup, sweep_cgroups
from threegate.runners.jail.side_process import SideProcess, listen, start_host_proxy

DROPPED: Final = "nobody"
"""The default account of a server if the daemon is root."""
_PROXY: Final = f"http://127.0.0.1:{jails.HOSTS_PORT}"
_PROXIED: Final = dict.fromkeys(
    ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "GLOBAL_AGENT_HTTPS_PROXY"), _PROXY
) | {"NODE_USE_ENV_PROXY": "1"}
_HIDING: Final = '/usr/bin/mount -t tmpfs -o mode=0000,nosuid,nodev,size=4k none "$1" && shift && exec "$@"'
_CGROUPS: Final = "tools"
_BYTECODE: Final = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Nothing writes into a program's folder."""


class Started:
    """A server's process, and its helper processes."""

    def __init__(
        self, process: subprocess.Popen[bytes], held: ExitStack, secrets: tuple[str, ...] = (), *, in_container: bool
    ) -> None:
        self.process = process
        self._in_container = in_container
        self.secrets = secrets
        self._held = held

    def end(self) -> None:
        """Wait briefly for it, then kill it and all its other processes. Raises Unavailable if one does not go away."""
        try:
            seconds = limits.TOOLS_CONTAINER_END_SECONDS if self._in_container else limits.TOOLS_END_SECONDS
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
            stays = self._in_container and self.process.poll() is None
            if isinstance(self.process, JailProcess):
                self.process.wait_empty()
            else:
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            if stays:
                raise Unavailable("the engine does not remove its container; the next start of the daemon does")
        finally:
            self._held.close()


def existing_account(name: str) -> pwd.struct_passwd:
    """The account of this name. Raises Unavailable."""
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise Unavailable(
            f"account {name!r}: does not exist, and no server runs as root; add the server again with --account"
        ) from None


def server_account(name: str) -> Account:
    """The account that a manifest names. Raises Unavailable if it does not exist, or this process cannot become it."""
    own = Account.own()
    if not name and own.uid != 0:
        return own
    found = existing_account(name)
    if found.pw_uid == 0 or own.uid not in (0, found.pw_uid):
        raise Unavailable(f"account {name}: this process cannot become it, or it is root; add the server again")
    return Account(name, found.pw_uid, found.pw_gid)


def refuse_missing_secret(settings: Settings, names: tuple[str, ...]) -> None:
    """Raises Unavailable for a manifest's secret that the settings do not have."""
    missing = next((name for name in names if name not in settings.secrets), None)
    if missing is not None:
        raise Unavailable(f"no secret: put secrets.{missing} with env or file into threegate.toml")


def secret_values(settings: Settings, names: tuple[str, ...]) -> dict[str, str]:
    """The current values of a manifest's secrets. Raises Unavailable."""
    refuse_missing_secret(settings, names)
    return {name: read_secret(name, settings.secrets[name]) for name in names}


def refuse_changed_program(manifest: Manifest) -> None:
    """Compare the program with the signed one. Raises Refused (`tools_changed`, `tools_unsafe`), Unavailable."""
    changed = differences(manifest, program=program_digests(manifest))
    if changed:
        what = f"its program changed since it was signed ({changed[0].what})"
        raise Refused("tools_changed", f"{manifest.server}: {what}; see: threegate tools refresh {manifest.server}")


def start_server(workspace: Workspace, settings: Settings, manifest: Manifest) -> Started:
    """Start the process. Raises Refused (`tools_changed`, `tools_unsafe`) if the program differs from what was signed
    or could be exchanged, Unavailable, ServerError.
    """
    refuse_changed_program(manifest)
    if manifest.place == "era":
        return _in_container(settings, manifest)
    account = server_account(manifest.account)
    values = secret_values(settings, manifest.secrets)
    environment = {
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PATH": ":".join(search_path(manifest)),
        **manifest.env, **values, **_BYTECODE,
    }  # fmt: skip
    with ExitStack() as held:
        if manifest.place == "jail":
            process = _in_jail(held, manifest, account, environment)
        else:
            environment["HOME"] = _own_home(held, account)
            process = _on_host(workspace, manifest, account, environment)
        return Started(process, held.pop_all(), tuple(values.values()), in_container=False)


def _in_jail(
    held: ExitStack, manifest: Manifest, account: Account, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    bound = [Bound(place, str(place)) for place in map(Path, manifest.program) if not place.is_relative_to("/usr")]
    bound += [Bound(Path(item.path), item.path, item.writable) for item in manifest.binds]
    if manifest.allow:
        bound.append(Bound(_host_socket(held, manifest, account), jails.HOSTS))
        environment = {**_PROXIED, **environment}
    sweep_cgroups(_CGROUPS)  # a daemon that was killed left its own
    name = f"{_CGROUPS}-{os.getpid()}-{secrets.token_hex(4)}"
    cgroup = JailCgroup.make(name, memory_mb=limits.TOOLS_MEMORY_MB)
    held.callback(cgroup.close)
    jail = Jail(
        account,
        tuple(bound),
        environment=environment,
        tmp_bytes=limits.TOOLS_TMP_BYTES,
        processes=limits.TOOLS_PROCESSES,
        cgroups=cgroup.entered,
    )
    try:
        return jail.start(
            ("/usr/bin/prlimit", f"--data={limits.TOOLS_MEMORY_MB << 20}", "--", *manifest.argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            begin=bool(manifest.allow),
        )
    except ThreeGateError as error:
        raise ServerError("server_not_started", str(error)) from None


def _in_container(settings: Settings, manifest: Manifest) -> Started:
    """The process next to the container. It does not exit with us: at the end of its input it removes the container."""
    era = settings.runners.era
    wanted = {
        "engine": era.engine,
        "runtime": era.oci_runtime,
        "workspace": settings.workspace.id,
        "server": manifest.server,
        "image": manifest.image,
        "argv": list(manifest.argv),
        "env": {"HOME": "/tmp", "LANG": "C.UTF-8", **manifest.env, **_BYTECODE},
        "binds": [{"path": item.path, "writable": item.writable} for item in manifest.binds],
    }
    kept = {name: os.environ[name] for name in ("PYTHONPATH", "DOCKER_HOST") if name in os.environ}
    descriptor = jails.memory_file(json.dumps(wanted))
    try:
        line = own_process("threegate.plugins.tools.mcp.server_container", str(descriptor))
        process = _piped(line, kept, line[0], (descriptor,))
    finally:
        os.close(descriptor)
    return Started(process, ExitStack(), in_container=True)


def _host_socket(held: ExitStack, manifest: Manifest, account: Account) -> Path:
    """The socket of a separate proxy, which accepts only the signed hosts."""
    folder = held.enter_context(tempfile.TemporaryDirectory(prefix="threegate-tools-"))
    path = Path(folder, "hosts.sock")
    with listen(path, account) as listener:
        proxy, log = start_host_proxy(listener, [f"{host}:443" for host in manifest.allow])
    held.callback(os.close, log)
    held.callback(SideProcess.end, proxy)
    return path


def _own_home(held: ExitStack, account: Account) -> str:
    """An empty home folder of its own: programs load code from there, and everybody may write to /tmp."""
    folder = held.enter_context(tempfile.TemporaryDirectory(prefix="threegate-home-", ignore_cleanup_errors=True))
    if not account.is_own:
        os.chown(folder, account.uid, account.gid)
    return folder


def _on_host(
    workspace: Workspace, manifest: Manifest, account: Account, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    line: list[str] = []
    if not account.is_own:
        line = ["/usr/bin/unshare", "--mount", "--propagation=private", "--"]
        line += ["/bin/sh", "-c", _HIDING, "hide", str(workspace.tool_exec)]
    line += ["/usr/bin/setpriv", *account.change, "--pdeathsig", "KILL", "--no-new-privs", "--", *manifest.argv]
    return _piped(line, environment, manifest.argv[0])


def _piped(
    line: list[str], environment: Mapping[str, str], program: str, descriptors: tuple[int, ...] = ()
) -> subprocess.Popen[bytes]:
    """A process with pipes to all its streams. Raises ServerError, which names the `program`."""
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            line, env=environment, cwd="/", stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=descriptors,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise ServerError("server_not_started", f"{program}: cannot be started ({error.strerror})") from None
