"""The ChatGPT login of Codex: what its own program wrote into a folder (a ``CODEX_HOME``), read and never changed.

Invariant: files are opened for reading only, and nothing here asks for new tokens. A refresh token works once, so
whoever else uses it logs the person out; Codex refreshes its own login. No message has a value of the files.

Source: openai/codex, `codex-rs/login/src` (`auth/storage.rs`, `auth/personal_access_token.rs`, `token_data.rs`), and
what version 0.169.0 writes.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeGuard

from threegate.core import durable, limits
from threegate.core.canonical import StrictJSONError, loads_strict
from threegate.core.errors import Unavailable

_TOKEN: Final = re.compile(rf"[!-~]{{20,{limits.AGENT_LOGIN_TOKEN_CHARS}}}").fullmatch
"""No space and no control, so it cannot become two headers."""
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_IN_FILES: Final = "file"
_STORES: Final = (_IN_FILES, "auto")
"""Values of `cli_auth_credentials_store` with which a login may be in a file; `auto` uses one without a keyring."""
_CHATGPT: Final = "chatgpt"
_ACCESS_TOKEN: Final = "personalAccessToken"  # noqa: S105  the name of a kind
_CLAIMS: Final = "https://api.openai.com/auth"
EXPIRED: Final = "the login has expired"


class LoginUnusable(Unavailable):
    """The login cannot be used. `why` names no path: the agent may read it; the whole text is for the person."""

    def __init__(self, home: Path, why: str, then: str = "") -> None:
        self.why = why
        super().__init__(f"{home}: {why}; {then or f'log in with: {_command(home)}'}")


@dataclass(frozen=True, slots=True)
class CodexLogin:
    """A login as it is now. `account` is empty for an access token: only the provider knows its account."""

    token: str = field(repr=False)
    account: str
    values: frozenset[str] = field(repr=False)
    """Everything in it that must not get into a jail or a record."""


def read_login(home: Path) -> CodexLogin:
    """The login in a folder. Raises LoginUnusable."""
    _refuse_store(home)
    found = _read(home)
    tokens = found.get("tokens") or {}
    values = [found.get("personal_access_token"), found.get("OPENAI_API_KEY")]
    values += [tokens.get(name) for name in ("access_token", "refresh_token", "id_token")]
    kept = frozenset(value for value in values if isinstance(value, str) and _TOKEN(value))
    kind = _kind(found)
    token: object
    account: object
    if kind == _ACCESS_TOKEN:
        token, account = found.get("personal_access_token"), None
    elif kind == _CHATGPT:
        token, account = tokens.get("access_token"), tokens.get("account_id") or _claimed(tokens.get("id_token"))
    elif kind == "apikey":
        raise LoginUnusable(home, "is a login with an API key", "name that key in agents.NAME.key instead")
    else:
        raise LoginUnusable(home, "is a kind of login that cannot be used here")
    if not isinstance(token, str) or token not in kept:
        raise LoginUnusable(home, "the login has no token")
    if kind == _CHATGPT and not is_account(account):
        raise LoginUnusable(home, "the login has no account")
    ends = _claims(token).get("exp")
    if isinstance(ends, int | float) and ends <= time.time():
        raise LoginUnusable(home, EXPIRED)
    return CodexLogin(token, account if is_account(account) else "", kept)


def is_account(value: object) -> TypeGuard[str]:
    """Whether a value can be the id of an account."""
    return isinstance(value, str) and _ACCOUNT.fullmatch(value) is not None


def _command(home: Path) -> str:
    return f"CODEX_HOME={shlex.quote(str(home))} codex login"


def _kind(found: dict[str, Any]) -> object:
    """How Codex takes the file, which writes no kind for an access token."""
    if (kind := found.get("auth_mode")) is not None:
        return kind
    if found.get("personal_access_token") is not None:
        return _ACCESS_TOKEN
    return "apikey" if found.get("OPENAI_API_KEY") is not None else _CHATGPT


def _refuse_store(home: Path) -> None:
    """Refuse a folder whose login is elsewhere. Raises LoginUnusable."""
    try:
        data = durable.read_regular(home / "config.toml", max_bytes=limits.AGENT_LOGIN_BYTES)
        store = tomllib.loads(data.decode("utf-8")).get("cli_auth_credentials_store", _IN_FILES)
    except FileNotFoundError:
        return
    except (OSError, ValueError, RecursionError):
        raise LoginUnusable(home, "its config.toml cannot be read", "make it readable, or remove it") from None
    if store not in _STORES:
        raise LoginUnusable(
            home,
            "Codex keeps this login in a keyring or in memory, where it cannot be read",
            f'set cli_auth_credentials_store = "file" in its config.toml, then: {_command(home)}',
        )


def _read(home: Path) -> dict[str, Any]:
    """The file with the login. Raises LoginUnusable."""
    try:
        descriptor = os.open(home / "auth.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            facts = os.fstat(descriptor)
            data = durable.read_regular_fd(descriptor, home / "auth.json", max_bytes=limits.AGENT_LOGIN_BYTES)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        # Settings of the machine, or `auto`, may have put it into a keyring.
        then = f"log in with: {_command(home)} -c cli_auth_credentials_store=file"
        raise LoginUnusable(home, "there is no login in it", then) from None
    except OSError:
        raise LoginUnusable(home, "its auth.json cannot be read as a file of its own") from None
    if facts.st_uid not in (os.geteuid(), 0):
        raise LoginUnusable(home, "its auth.json is another account's")
    if facts.st_mode & 0o077:
        chmod = f"run: chmod 600 {shlex.quote(str(home / 'auth.json'))}"
        raise LoginUnusable(home, "its auth.json is not for you alone", chmod)
    try:
        found = loads_strict(data, max_bytes=limits.AGENT_LOGIN_BYTES)
    except StrictJSONError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("tokens") or {}, dict):
        raise LoginUnusable(home, "its auth.json is not one that Codex wrote")
    return found


def _claims(token: object) -> dict[str, Any]:
    """What a token says of itself, unverified: the provider checks it. Empty if it is not a JWT."""
    parts = token.split(".") if isinstance(token, str) else []
    if len(parts) != 3:
        return {}
    try:
        data = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        found = loads_strict(data, max_bytes=limits.AGENT_LOGIN_TOKEN_CHARS)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _claimed(id_token: object) -> object:
    """The account that an id token names; None if it names none."""
    found = _claims(id_token).get(_CLAIMS)
    return found.get("chatgpt_account_id") if isinstance(found, dict) else None
