"""A daemon that commands start for themselves and share: a child in a session of its own, which ends with the last of
them.

Invariant: each command that needs it holds a shared lock of one file by an open descriptor, which the kernel takes back
however the command ends. The daemon ends only while it holds that lock alone and has found nothing left to do since, so
no command can rely on one that is about to end. A daemon that somebody else started is left alone. Whatever the
environment has of a model's key stays out of the daemon's.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from threegate.core import limits
from threegate.core.durable import disk_reserve, until_it_fits
from threegate.core.errors import Unavailable
from threegate.core.own_process import own_process
from threegate.core.secret_value import read_secret
from threegate.core.settings import SECTIONS, Settings
from threegate.core.workspace import Workspace, default_workspace

_LOOK_SECONDS: Final = 0.02
_NOT_PASSED: Final = ("SSH_AUTH_SOCK", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "JOURNAL_STREAM")
"""What signs for a person, and messages to a service manager that did not start it."""


class UseOfDaemon:
    """What a daemon that commands share knows of them: whether any is left."""

    def __init__(self, workspace: Workspace) -> None:
        """Raises OSError."""
        self._descriptor = _open(workspace)
        self.is_over = False
        """Whether no command needs the daemon, and none can begin to before this process has ended."""

    def end(self) -> bool:
        """Whether it is over from now on: no command is left."""
        self.is_over = _locked(self._descriptor, fcntl.LOCK_EX)
        return self.is_over

    def go_on(self) -> None:
        """There is something to do: commands may need the daemon again."""
        if self.is_over:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.is_over = False


class OwnDaemon:
    """The daemon of a workspace, as one command sees it that may need it."""

    def __init__(self, workspace: Workspace, settings: Settings, *, why: str | None = None) -> None:
        """`why`: none is started, for this reason, which may be empty."""
        self._workspace, self._settings, self._why = workspace, settings, why
        self._process: subprocess.Popen[bytes] | None = None

    def need(self) -> None:
        """Start one if none is running, but only once; it takes a second until it runs."""
        if self._why is not None or self._process is not None or self._workspace.daemon_lock_held():
            return
        try:
            self._process = _start(self._workspace, self._settings)
        except OSError as error:
            self._why = f"none could be started: {error.strerror}"

    def problem(self) -> str | None:
        """Why none is running and what to type, in one line; None if one is. Waits for one that is starting."""
        until = time.monotonic() + limits.DAEMON_START_SECONDS
        while not self._workspace.daemon_lock_held():
            code = None if self._process is None else self._process.poll()
            if self._process is None or code is not None or time.monotonic() > until:
                return self._line(code)
            time.sleep(_LOOK_SECONDS)
        return None

    def _line(self, code: int | None) -> str:
        if self._process is None:
            why = f" ({self._why})" if self._why else ""
            return f"no daemon is running{why}, and only a daemon applies signed changes; start one with: threegate run"
        how = "does not start" if code is None else f"ended with {'signal' if code < 0 else 'exit code'} {abs(code)}"
        return f"the daemon {how} (its log: {self._workspace.daemon_log}); start one with: threegate run"

    @property
    def started(self) -> bool:
        """Whether this command started one."""
        return self._process is not None

    def wait_end(self) -> None:
        """Wait for its end, but not long: it may have to finish what was approved."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(limits.DAEMON_END_SECONDS)


@contextmanager
def own_daemon(workspace: Workspace, settings: Settings) -> Iterator[OwnDaemon]:
    """Keep the daemon that commands share running until the block ends; the command says when it needs one.

    Root starts none: whoever works as root has a service. Raises nothing of its own: a command goes on without a daemon
    and says so.
    """
    held, why = -1, "" if os.geteuid() == 0 else None
    try:
        held = _open(workspace)
        _share(workspace, held)
    except (OSError, Unavailable) as error:
        why = str(error)
    daemon = OwnDaemon(workspace, settings, why=why)
    last = False
    try:
        yield daemon
    finally:
        if held >= 0:
            last = _locked(held, fcntl.LOCK_EX)
            os.close(held)
        if last:
            daemon.wait_end()


def starts_by_itself(workspace: Workspace) -> bool:
    """Whether commands that approve start a daemon here: at the user's own place, where no service was set up."""
    with suppress(OSError, RuntimeError):  # RuntimeError: an account without a home
        return os.geteuid() != 0 and default_workspace().parent.resolve() in workspace.root.resolve().parents
    return False


@contextmanager
def daemon_at_own_place(workspace: Workspace, settings: Settings) -> Iterator[Callable[[], bool]]:
    """For a command that approves: have a daemon run until the block ends, and until what was approved has run, where
    the command starts one. The value tells whether one is running.
    """
    if not starts_by_itself(workspace):
        yield workspace.daemon_lock_held
        return
    with own_daemon(workspace, settings) as daemon:
        daemon.need()
        yield lambda: daemon.problem() is None


def _open(workspace: Workspace) -> int:
    # For writing: the daemon watches the folder, and is woken when such a descriptor is closed.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with disk_reserve(workspace.reserve):
        return until_it_fits(lambda: os.open(workspace.launchers_file, flags, 0o600))


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _share(workspace: Workspace, descriptor: int) -> None:
    """Share the lock with other commands. A daemon that is ending has it alone, until it is gone. Raises
    Unavailable.
    """
    until = time.monotonic() + limits.DAEMON_START_SECONDS
    while not _locked(descriptor, fcntl.LOCK_SH):
        if time.monotonic() > until:
            raise Unavailable(f"{workspace.launchers_file}: is locked by a daemon that does not end")
        time.sleep(_LOOK_SECONDS)


def _start(workspace: Workspace, settings: Settings) -> subprocess.Popen[bytes]:
    """Raises OSError."""
    log = os.open(workspace.daemon_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if os.fstat(log).st_size > limits.DAEMON_LOG_BYTES:
            os.ftruncate(log, 0)
        return subprocess.Popen(
            own_process("threegate", "--workspace", str(workspace.root), "run", "--log", "text", "--while-used"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=workspace.root,
            env=environment_without_keys(settings),
            start_new_session=True,
        )
    finally:
        os.close(log)


def environment_without_keys(settings: Settings) -> dict[str, str]:
    """Our environment without the secrets that no daemon reads, whatever variable has them.

    The rest stays: contracts may name any variable, and its value is part of the policy that was signed.
    """
    left_out, values = set(_NOT_PASSED), set()
    for section in SECTIONS.all_named().values():
        for name in section.not_for_daemons(settings.section(section.table)):
            if (reference := settings.secrets.get(name)) is not None:
                left_out.add(reference.env)
                with suppress(Unavailable):  # nothing that could be passed on
                    values.add(read_secret(name, reference))
    return {name: value for name, value in os.environ.items() if name not in left_out and value not in values}
