"""The tokens of remote servers, in the state folder of the account that runs the daemon.

Invariant: a login is one file of mode 0600 (`login-NAME.json`), outside of the workspace and of every jail. Whoever
reads it to use it, or writes it, holds the lock of the login; what is used was durable before. A file of another
account, one that others may read, or one that is not whole counts as no login.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pydantic import Field, ValidationError

from threegate.core import canonical, durable, limits
from threegate.core.errors import Refused, Unavailable
from threegate.core.record import Record
from threegate.core.settings import Settings
from threegate.core.user_state import UserState
from threegate.plugins.tools.manifest import Manifest
from threegate.plugins.tools.remote_login import bound_to

LOGIN_REQUIRED: Final = "login_required"
_LOOK_SECONDS: Final = 0.05


class KeptLogin(Record):
    """One file. Empty strings are what there is not."""

    bound_to: str
    """`remote_login.bound_to`: what the tokens are for."""
    client_secret: str = Field(default="", repr=False)
    access_token: str = Field(default="", repr=False)
    refresh_token: str = Field(default="", repr=False)
    expires_at: int | None = None
    """Seconds since 1970; None if the authorization server did not say."""

    def is_valid(self) -> bool:
        """Whether the access token can be used; one that can be refreshed is, before a call outlives it."""
        early = limits.LOGIN_EARLY_SECONDS if self.refresh_token else 0
        return bool(self.access_token) and (self.expires_at is None or time.time() < self.expires_at - early)


def login_required(server: str, why: str) -> Refused:
    """Nothing is sent: a person must log in."""
    return Refused(LOGIN_REQUIRED, f"{server}: {why}; type: threegate tools login {server}")


def login_problem(settings: Settings, manifest: Manifest) -> str | None:
    """Why a call would need a login now, as far as the file says; None if it would not, or if another account has it.
    Nothing is asked of any server.
    """
    store = TokenStore(settings, manifest.server)
    if manifest.oauth is None or not store.is_ours():
        return None
    kept = store.read(bound_to(manifest.url, manifest.oauth))
    if kept is None:
        return "nobody is logged in"
    return None if kept.refresh_token or kept.is_valid() else "its login has expired"


def lost_client(server: str) -> Refused:
    """The secret of its client is not kept any more, so nobody can log in with this client."""
    return Refused(
        LOGIN_REQUIRED,
        f"{server}: the secret of its client was lost; type: threegate tools remove {server}, then add it again",
    )


class TokenStore:
    """The file of one server's login."""

    def __init__(self, settings: Settings, server: str) -> None:
        self._state = UserState.of(settings.workspace.id)
        self._server = server
        self._path = self._state.folder / f"login-{server}.json"

    def check_account(self) -> None:
        """Raises Refused (`login_account`) if this account is not the daemon's: the one with the workspace's key."""
        if not self.is_ours():
            raise Refused(
                "login_account",
                f"{self._server}: only the account that runs the daemon, which has the workspace's key, can log in; "
                "run this as that account (sudo -H -u ACCOUNT)",
            )

    def is_ours(self) -> bool:
        """Whether this account is the daemon's."""
        try:
            return self._state.key_file.lstat().st_uid == os.geteuid()
        except OSError:
            return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One at a time, of all threads and processes. Raises Unavailable, also if another one keeps it: a call ends,
        whatever a stopped process holds.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._state.folder / f"login-{self._server}.lock", flags, 0o600)
        except OSError as error:
            raise Unavailable(f"{self._server}: its login cannot be locked ({error.strerror})") from None
        try:
            until = time.monotonic() + limits.LOGIN_LOCK_SECONDS
            while not _taken(descriptor):
                if time.monotonic() > until:
                    raise Unavailable(f"{self._server}: another process is busy with its login; try again")
                time.sleep(_LOOK_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def read(self, bound_to: str) -> KeptLogin | None:
        """What is kept for exactly this; None if nothing is, or nothing that can be trusted."""
        try:
            facts = self._path.lstat()
            if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
                return None
            data = durable.read_regular(self._path, max_bytes=limits.LOGIN_FILE_BYTES)
            kept = KeptLogin.model_validate(canonical.loads_strict(data, max_bytes=limits.LOGIN_FILE_BYTES))
        except (OSError, ValidationError, ValueError):
            return None
        return kept if kept.bound_to == bound_to else None

    def write(self, kept: KeptLogin) -> None:
        """Replace it, durable when this returns. Raises Unavailable; then the file is as it was."""
        try:
            durable.overwrite(self._path, canonical.canonical_bytes(kept.model_dump()))
        except OSError as error:
            raise Unavailable(f"{self._server}: its login cannot be written ({error.strerror})") from None

    @contextmanager
    def kept_only_if_done(self) -> Iterator[None]:
        """Forget the login if the block does not end as it should. Raises as `forget`."""
        try:
            yield
        except BaseException:  # an answer of no, and Ctrl-C, too
            self.forget()
            raise

    def forget(self) -> None:
        """Remove it. Raises Unavailable, OSError."""
        if os.path.lexists(self._path):
            with self.locked(), suppress(FileNotFoundError):  # who refreshes it now would write it again
                durable.unlink(self._path)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
